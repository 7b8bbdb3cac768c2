"""What travels on the way of a read through the buddy memory controller."""

from amaranth.lib import data

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import METADATA_BITS
from cdma.hw.buddy.frontend.access import EntryAccess
from cdma.hw.buddy.payloads import AccessStatus, Mapping
from cdma.hw.config import BuddyConfig


class EntryRead(data.StructLayout):
    """An entry to read.

    Members
    -------
    access
    fetch
        It is read for a write that covers it in part, and goes back to that.
    status
        Of the access so far: nothing is read if it is not OK.
    mapping
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "access": EntryAccess(config),
                "fetch": 1,
                "status": AccessStatus,
                "mapping": Mapping(),
            }
        )


class ExpectedEntry(data.StructLayout):
    """An entry whose sectors are on their way.

    Members
    -------
    access, fetch, status
        As in `EntryRead`.
    metadata
        AS_IT_IS for pages that are not compressed.
    first
        Where in the entry the first sector of device memory belongs: 0 but for pages that are not
        compressed, of which only those sectors are read that the access is about.
    fetched
        Sectors that come from device memory.
    device
        How many of them are the entry's: the first ones.
    buddy
        Sectors that come from buddy memory.
    eighth
        Target 16x: where in the sector of device memory its 8 B are.
    shared
        Target 16x.
    """

    def __init__(self, config: BuddyConfig) -> None:
        sectors = range(ENTRY_SECTORS + 1)
        super().__init__(
            {
                "access": EntryAccess(config),
                "fetch": 1,
                "status": AccessStatus,
                "metadata": METADATA_BITS,
                "first": range(ENTRY_SECTORS),
                "fetched": sectors,
                "device": sectors,
                "buddy": sectors,
                "eighth": 2,
                "shared": 1,
            }
        )


class ReadInfo(data.StructLayout):
    """What a restored entry is for: see `EntryRead`."""

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__({"access": EntryAccess(config), "fetch": 1, "status": AccessStatus})
