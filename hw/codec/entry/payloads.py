"""The payloads of the codecs of 128 B entries, each defined once."""

from amaranth.lib import data

from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, METADATA_BITS, SIZES
from cdma.golden.formats.bpc.bpc import MAX_CODE_BITS
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.config import EntryConfig

EntryParameters = Parameters
"""Parameters of the entries of a page, in modes that have some: XC's."""

ENTRY_BITS = 8 * ENTRY_BYTES
CODE_BYTES = SIZES[AS_IT_IS - 1]
"""The greatest size class of entries that are compressed, so bytes of a code at most: an entry
whose code is longer is kept as it is."""
STATUS_BITS = 4
"""Bits of a number of `cdma.golden.formats.stream.StreamStatus`."""


class EntrySector(data.StructLayout):
    """A sector of an uncompressed entry; the sectors of an entry follow one another.

    Members
    -------
    data
        Bytes, the first in the low bits.
    """

    def __init__(self, config: EntryConfig) -> None:
        super().__init__({"data": 8 * config.sector_bytes})


class EntryCode(data.StructLayout):
    """An entry's BPC code.

    Members
    -------
    data
        Its bytes, the first in the low bits, and zeros behind them; the first bit of the code is
        bit 7 of its byte. If the code is longer than the entry: the entry as it is.
    bits
        Length of the code.
    """

    def __init__(self) -> None:
        super().__init__({"data": ENTRY_BITS, "bits": range(MAX_CODE_BITS + 1)})


class KeptEntry(data.StructLayout):
    """A compressed entry as memory keeps it: see `cdma.golden.buddy.entry`.

    Members
    -------
    metadata
        Its class and codec.
    data
        Bytes, the first in the low bits; from a compressor, zeros behind the class's size.
    """

    def __init__(self) -> None:
        super().__init__({"metadata": METADATA_BITS, "data": ENTRY_BITS})


class RestoredSector(data.StructLayout):
    """A sector of an entry that was restored from what was kept.

    Members
    -------
    data
        Bytes, the first in the low bits; zeros if the entry is damaged.
    status
        `cdma.golden.formats.stream.StreamStatus` of the whole entry, the same on each of its
        sectors.
    offset
        The byte of what was kept that the error is at; 0 if there is none.
    """

    def __init__(self, config: EntryConfig) -> None:
        super().__init__(
            {
                "data": 8 * config.sector_bytes,
                "status": STATUS_BITS,
                "offset": range(ENTRY_BYTES + 1),
            }
        )
