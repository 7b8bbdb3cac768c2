"""The shape of a Buddy controller, as its registers report it."""

from dataclasses import dataclass

from cdma.golden.buddy.entry import BEST_OF_THREE, MODES, EntryCodec
from cdma.sim.driver.errors import IdentityError
from cdma.sim.driver.registers import RegisterFile


@dataclass(frozen=True, kw_only=True)
class BuddyShape:
    """A controller's configuration, as far as software needs it.

    Attributes
    ----------
    mode : str
        "best-of", "bpc" or "best-of-three".
    element_bytes, sector_bytes, page_bytes, pages : int
        As of `cdma.hw.config.EntryConfig` and `cdma.hw.config.BuddyConfig`.
    cache_bytes, cache_slices, cache_ways, cache_line_bytes : int
        As of `cdma.hw.config.MetadataCacheConfig`.
    """

    mode: str
    element_bytes: int
    sector_bytes: int
    page_bytes: int
    pages: int
    cache_bytes: int
    cache_slices: int
    cache_ways: int
    cache_line_bytes: int

    @property
    def has_parameters(self) -> bool:
        """True if entries may be of XC, on pages with a centre."""
        return self.mode == BEST_OF_THREE

    @property
    def codec(self) -> EntryCodec:
        """Golden model of the controller's codec."""
        return EntryCodec(self.mode, self.element_bytes)


def read_buddy_shape(registers: RegisterFile) -> BuddyShape:
    """Read the controller's configuration from its registers.

    Raises
    ------
    IdentityError
        It is no buddy controller, or one that this driver does not know.
    """
    identity = registers.map["ID"].reset
    found = registers.read("ID")["id"]
    if found != identity:
        raise IdentityError(
            f"the registers are not a buddy controller's: ID must be {identity:#x}, not {found:#x}"
        )
    # Its reset value is the version that this driver comes with.
    major = registers.map["VERSION"].fields["major"].reset
    found = registers.read("VERSION")["major"]
    if found != major:
        raise IdentityError(
            f"the controller's registers are of version {found}, the driver's of version {major}; "
            "use a driver of that version"
        )
    codec, cache = registers.read("CONFIG0"), registers.read("CONFIG2")
    return BuddyShape(
        mode=MODES[codec["mode"]],
        element_bytes=codec["element_bytes"],
        sector_bytes=codec["sector_bytes"],
        page_bytes=1 << codec["log2_page_bytes"],
        pages=registers.read("CONFIG1")["pages"],
        cache_bytes=registers.read("CONFIG3")["cache_bytes"],
        cache_slices=cache["cache_slices"],
        cache_ways=cache["cache_ways"],
        cache_line_bytes=cache["cache_line_bytes"],
    )
