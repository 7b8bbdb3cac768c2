"""Where metadata are in a cache, and what travels between the parts of a slice of it.

From its least bit on, the address of a nibble of metadata is

    nibble in its row, row of its line: together its *place* in the line
    slice
    set
    tag

set and tag together being the line's number in its slice. A row is what memory gives per beat; it
is kept as `ROW_WORDS` codewords.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data

from cdma.golden.buddy.entry import METADATA_BITS
from cdma.hw.buddy.payloads import DEVICE_ADDRESS_BITS, MetadataError
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.ecc import codeword_bits

ROW_BYTES = 32
ROW_BITS = 8 * ROW_BYTES
WORD_BITS = 64
ROW_WORDS = ROW_BITS // WORD_BITS
ROW_PLACE_BITS = (ROW_BITS // METADATA_BITS - 1).bit_length()
WORD_PLACE_BITS = (WORD_BITS // METADATA_BITS - 1).bit_length()


class LineShape:
    """The widths that a configuration makes.

    Attributes
    ----------
    rows
        Of a line.
    lines
        Of a slice.
    offset_bits, slice_bits, set_bits, way_bits, tag_bits
        What their names say.
    row_bits
        Of a row's number in its line.
    place_bits
        Of a nibble's number in its line.
    line_bits
        Of a line's number in its slice.
    write_backs
        Lines of a slice that may be on their way to memory, until it has answered.
    steps
        Lookups that may wait in a slice for what they need of its data.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.rows = config.line_bytes // ROW_BYTES
        self.lines = config.sets * config.ways
        self.offset_bits = (config.line_bytes - 1).bit_length()
        self.slice_bits = (config.slices - 1).bit_length()
        self.set_bits = (config.sets - 1).bit_length()
        self.way_bits = (config.ways - 1).bit_length()
        self.row_bits = (self.rows - 1).bit_length()
        self.place_bits = self.offset_bits + 1
        self.line_bits = DEVICE_ADDRESS_BITS - self.offset_bits - self.slice_bits
        self.tag_bits = self.line_bits - self.set_bits
        self.write_backs = 2 * config.misses
        self.write_back_bits = (self.write_backs - 1).bit_length()
        self.steps = config.lookups


class TagWord(data.StructLayout):
    """What is known of a way of a set. All zeros is no line.

    Members
    -------
    tag
    dirty
        It differs from what is in memory, or will when what is under way is done.
    valid
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        super().__init__({"tag": LineShape(config).tag_bits, "dirty": 1, "valid": 1})


class SliceLookup(data.StructLayout):
    """A lookup on its way to a slice.

    Members
    -------
    line
        Its number in the slice.
    place
        The nibble's in the line.
    write, metadata
        As in `MetadataLookup`.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        shape = LineShape(config)
        super().__init__(
            {
                "line": shape.line_bits,
                "place": shape.place_bits,
                "write": 1,
                "metadata": METADATA_BITS,
            }
        )


class SliceResult(data.StructLayout):
    """A result on its way from a slice.

    Members
    -------
    metadata, error
        As in `MetadataResult`.
    hit, miss, evicted
        What the lookup found.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "metadata": METADATA_BITS,
                "error": MetadataError,
                "hit": 1,
                "miss": 1,
                "evicted": 1,
            }
        )


class Walk(data.StructLayout):
    """What is to be done with each line of a slice.

    Members
    -------
    write_back
        Write it to memory if it is dirty.
    invalidate
        Drop it then.
    failed
        But only if it could not be fetched.
    blind
        Whatever is in the tag memory.
    """

    def __init__(self) -> None:
        super().__init__({"write_back": 1, "invalidate": 1, "failed": 1, "blind": 1})


class TagAccess(data.StructLayout):
    """A lookup in the tags, or a step of a walk through them.

    Members
    -------
    lookup
        Of a walk's step, the line's set alone matters.
    walks
        It is a step of a walk.
    walk
    way
        Of a walk's step.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        super().__init__(
            {
                "lookup": SliceLookup(config),
                "walks": 1,
                "walk": Walk(),
                "way": LineShape(config).way_bits,
            }
        )


class StoreTask(data.StructLayout):
    """What is to be done with a line's data, from the first of these on.

    Members
    -------
    evicts
        Write it to memory, as write-back `write_back`.
    fills
        Put the oldest fetched line in its place.
    answers
        Then look the nibble up, and answer.
    set, way
        Where the line is.
    write_back
    place, write, metadata
        Of the lookup.
    hit
        It needed no fetch.
    replaces
        Its line takes the place of another one.
    broken
        Nothing is known of the line, for its tag is beyond correction.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        shape = LineShape(config)
        super().__init__(
            {
                "evicts": 1,
                "fills": 1,
                "answers": 1,
                "set": shape.set_bits,
                "way": shape.way_bits,
                "write_back": shape.write_back_bits,
                "place": shape.place_bits,
                "write": 1,
                "metadata": METADATA_BITS,
                "hit": 1,
                "replaces": 1,
                "broken": 1,
            }
        )


class EvictedRow(data.StructLayout):
    """A row on its way out of a slice.

    Members
    -------
    data
    write_back
        The write-back that it is part of.
    last
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        super().__init__(
            {"data": ROW_BITS, "write_back": LineShape(config).write_back_bits, "last": 1}
        )


class CodedRow(data.ArrayLayout):
    """A row as it is kept."""

    def __init__(self) -> None:
        super().__init__(unsigned(codeword_bits(WORD_BITS)), ROW_WORDS)
