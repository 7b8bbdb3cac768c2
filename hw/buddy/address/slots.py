"""Numbers of an entry's sectors in device memory and in buddy memory."""

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data

from cdma.golden.buddy.address_map import DEVICE_SLOT_BYTES, ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES, SECTORS, SIZES, XC_CLASS, XC_METADATA
from cdma.hw.config import BuddyConfig

_TARGETS = 8
"""Values of a target's three bits; the values of invalid targets are never used."""


def slot_sectors(target: Value) -> Value:
    """Return the number of sectors of device memory that an entry's slot touches."""
    return Array(_padded([-(-slot // SECTOR_BYTES) for slot in DEVICE_SLOT_BYTES]))[target]


def size_class(config: BuddyConfig, metadata: Value, place: data.View) -> Value:
    """Return the size class of an entry, in the low bits, as `EntryCodec.classes` does.

    Parameters
    ----------
    config
    metadata
        Metadata of the entry.
    place
        View with the member `parameters` of its page, if entries may be of XC.
    """
    if not config.entry.has_parameters:
        return metadata
    of_xc = (metadata == XC_METADATA) & place.parameters.centre.any()
    return Mux(of_xc, XC_CLASS, metadata[:3])


def split_sectors(m: Module, target: Value, number: Value, *, name: str) -> tuple[Signal, Signal]:
    """Return the numbers of sectors in device memory and in buddy memory that an entry occupies,
    as `split_sectors` of `cdma.golden.buddy.address_map` does.

    Parameters
    ----------
    target
        Target of the compressed page.
    number
        Size class of the entry, as of `size_class`.
    """
    sectors = Signal(range(ENTRY_SECTORS + 1), name=f"{name}_sectors")
    device = Signal(range(ENTRY_SECTORS + 1), name=f"{name}_device_sectors")
    buddy = Signal(range(ENTRY_SECTORS + 1), name=f"{name}_buddy_sectors")
    m.d.comb += [sectors.eq(Array(SECTORS)[number[:3]]), buddy.eq(sectors - device)]
    with m.Switch(target):
        for known, slot in enumerate(DEVICE_SLOT_BYTES):
            with m.Case(known):
                if slot < SECTOR_BYTES:
                    # A slot smaller than a sector holds an entry completely or not at all.
                    first_too_large = next(k for k, size in enumerate(SIZES) if size > slot)
                    with m.If(number[:3] < first_too_large):
                        m.d.comb += device.eq(sectors)
                else:
                    in_slot = slot // SECTOR_BYTES
                    with m.If(sectors > in_slot):
                        m.d.comb += device.eq(in_slot)
                    with m.Else():
                        m.d.comb += device.eq(sectors)
    return device, buddy


def _padded(values: list[int]) -> list[int]:
    return values + [0] * (_TARGETS - len(values))
