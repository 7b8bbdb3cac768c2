"""What travels between the parts of the buddy memory controller, each payload defined once."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, enum

from cdma.golden.buddy.address_map import FIELD_BITS, TARGET_BITS
from cdma.golden.buddy.entry import METADATA_BITS

LOGICAL_ADDRESS_BITS = 40
DEVICE_ADDRESS_BITS = 40
BUDDY_ADDRESS_BITS = 64
FRAME_BITS = 28
"""Of device frames: sixteenths of a page."""


class AccessStatus(enum.Enum, shape=unsigned(4)):  # type: ignore[call-arg]
    """How an access to an entry ended; the first three errors have the numbers of
    `cdma.golden.buddy.address_map.MapStatus`."""

    OK = 0
    OUT_OF_REGION = 1
    BAD_TARGET = 2
    CARVE_OUT_OVERFLOW = 3
    UNSUPPORTED_BURST = 4
    """A burst that is FIXED or WRAP."""
    METADATA_UNCORRECTABLE = 5
    """Two bits of the cached metadata have flipped."""
    METADATA_READ = 6
    """Device memory refused to give metadata."""
    DEVICE_READ = 7
    DEVICE_WRITE = 8
    BUDDY_READ = 9
    BUDDY_WRITE = 10
    CORRUPT_ENTRY = 11
    """What is kept is no entry: damaged, or poisoned after an earlier error."""
    TIMEOUT = 12
    """A memory did not answer."""
    DISABLED = 13
    """CONTROL.enable is 0."""
    METADATA_LOST = 14
    """The metadata of some entry are lost, so that nothing is certain until CONTROL.clear."""


class MetadataError(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """Why the metadata of an entry are not known."""

    NONE = 0
    UNCORRECTABLE = 1
    """Two bits of the codeword have flipped."""
    READ = 2
    """Device memory refused the line, or tore it."""
    TIMEOUT = 3
    """Device memory did not answer."""


def take_metadata_error(m: Module, status: Signal, error: Signal) -> None:
    """Drive the status of an access whose metadata are not known; leave it alone if they are."""
    with m.Switch(error):
        with m.Case(MetadataError.UNCORRECTABLE):
            m.d.comb += status.eq(AccessStatus.METADATA_UNCORRECTABLE)
        with m.Case(MetadataError.READ):
            m.d.comb += status.eq(AccessStatus.METADATA_READ)
        with m.Case(MetadataError.TIMEOUT):
            m.d.comb += status.eq(AccessStatus.TIMEOUT)


class PageEntry(data.StructLayout):
    """An entry of the page table.

    Members
    -------
    fields
        The 24 bits of `cdma.golden.buddy.address_map.PageFields`.
    frame
        Where the page starts in device memory, in sixteenths of a page.
    mapped
        Whether the page exists.
    """

    def __init__(self) -> None:
        super().__init__({"fields": FIELD_BITS, "frame": FRAME_BITS, "mapped": 1})


class MapRequest(data.StructLayout):
    """A logical address, and the entry of its page.

    Members
    -------
    address
        Of any byte of the entry.
    page
    """

    def __init__(self) -> None:
        super().__init__({"address": LOGICAL_ADDRESS_BITS, "page": PageEntry()})


class Mapping(data.StructLayout):
    """Where an entry is. But for `status`, nothing means anything where the status is not OK.

    Members
    -------
    status
        `cdma.golden.buddy.address_map.MapStatus`.
    compressed
        Whether the entry is of a compressed page. If not, it has no metadata and no buddy slot.
    target
        `cdma.golden.buddy.address_map.Target`; X1 for pages that are not compressed.
    device_address, buddy_address
        The first byte of its slots.
    metadata_address
        The byte of device memory that holds its metadata.
    metadata_upper
        They are in bits 7…4 of that byte.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "status": 2,
                "compressed": 1,
                "target": TARGET_BITS,
                "device_address": DEVICE_ADDRESS_BITS,
                "buddy_address": BUDDY_ADDRESS_BITS,
                "metadata_address": DEVICE_ADDRESS_BITS,
                "metadata_upper": 1,
            }
        )


class MetadataLookup(data.StructLayout):
    """An access to an entry's metadata.

    Members
    -------
    address
        The byte of device memory that holds them.
    upper
        They are in bits 7…4 of that byte.
    write
        Set them to `metadata`.
    metadata
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "address": DEVICE_ADDRESS_BITS,
                "upper": 1,
                "write": 1,
                "metadata": METADATA_BITS,
            }
        )


class MetadataResult(data.StructLayout):
    """What came of a lookup.

    Members
    -------
    metadata
        As they were before the lookup. Worthless after an error.
    error
    """

    def __init__(self) -> None:
        super().__init__({"metadata": METADATA_BITS, "error": MetadataError})
