"""What travels on the way of a write through the buddy memory controller."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from cdma.golden.buddy.entry import ENTRY_BYTES, METADATA_BITS
from cdma.hw.buddy.payloads import LOGICAL_ADDRESS_BITS, AccessStatus, Mapping
from cdma.hw.codec.entry.payloads import ENTRY_BITS
from cdma.hw.config import BuddyConfig


class WriteKind(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """What to do with the data of a write."""

    NOTHING = 0
    """The access has failed."""
    PLAIN = 1
    """The page is not compressed."""
    COVERS = 2
    """All of the entry is written."""
    MERGES = 3
    """A part of the entry is written; the rest has been fetched."""


class EntryWrite(data.StructLayout):
    """An entry to write, without the data.

    Members
    -------
    id, last
        Of the burst: the response goes out with its last entry.
    address
        The logical one of the access.
    kind
    status
        Of the access so far.
    mapping
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "id": config.id_bits,
                "last": 1,
                "address": LOGICAL_ADDRESS_BITS,
                "kind": WriteKind,
                "status": AccessStatus,
                "mapping": Mapping(),
            }
        )


class StoredEntry(data.StructLayout):
    """An entry on its way to memory.

    Members
    -------
    write
    metadata, data
        As in `KeptEntry`.
    strobe
        The bytes of it to write: all of them where the page is compressed.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "write": EntryWrite(config),
                "metadata": METADATA_BITS,
                "data": ENTRY_BITS,
                "strobe": ENTRY_BYTES,
            }
        )
