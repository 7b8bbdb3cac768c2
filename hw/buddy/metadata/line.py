"""The layout of a metadata address, and the payloads inside a slice of the cache.

The address of a nibble of metadata, in nibbles:

     most significant                                    least significant
    ┌────────────────────┬────────────┬───────┬─────────────┬────────────┐
    │        tag         │    set     │ slice │     row     │   nibble   │
    └────────────────────┴────────────┴───────┴─────────────┴────────────┘
    └── line number in its slice ─────┘       └─── place in its line ────┘

A row is what memory transfers per beat, 32 B or 64 nibbles. It is stored as four codewords of 64
data bits and 8 check bits:

    row   │ word 3 + ECC │ word 2 + ECC │ word 1 + ECC │ word 0 + ECC │
"""

from amaranth.hdl import unsigned
from amaranth.lib import data

from cdma.golden.buddy.entry import METADATA_BITS
from cdma.hw.buddy.payloads import DEVICE_ADDRESS_BITS, MetadataError
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.codes.ecc import codeword_bits

ROW_BYTES = 32
ROW_BITS = 8 * ROW_BYTES
WORD_BITS = 64
ROW_WORDS = ROW_BITS // WORD_BITS
ROW_PLACE_BITS = (ROW_BITS // METADATA_BITS - 1).bit_length()
WORD_PLACE_BITS = (WORD_BITS // METADATA_BITS - 1).bit_length()


class LineShape:
    """The widths that follow from a configuration.

    Attributes
    ----------
    rows
        Rows per line.
    lines
        Lines per slice.
    offset_bits, slice_bits, set_bits, way_bits, tag_bits
        Widths of a byte's offset in its line, and of numbers of slices, sets, ways and tags.
    row_bits
        Width of a row's number in its line.
    place_bits
        Width of a nibble's number in its line.
    line_bits
        Width of a line's number in its slice.
    evictions
        Outstanding evictions per slice, at most, until memory has answered.
    eviction_bits
        Width of an eviction's number.
    tasks
        Lookups per slice that may wait for the data array.
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
        self.evictions = 2 * config.misses
        self.eviction_bits = (self.evictions - 1).bit_length()
        self.tasks = config.lookups


class TagWord(data.StructLayout):
    """The tag of a way of a set. All zeros means that the way is empty.

    Members
    -------
    tag
    dirty
        The line differs from memory, or will once its outstanding tasks are done.
    valid
        The way holds a line, or one is being fetched for it.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        super().__init__({"tag": LineShape(config).tag_bits, "dirty": 1, "valid": 1})


class SliceLookup(data.StructLayout):
    """A lookup in a slice.

    Members
    -------
    line
        Number of the line in the slice.
    place
        Number of the nibble in the line.
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
    """The result of a lookup in a slice.

    Members
    -------
    metadata, error
        As in `MetadataResult`.
    hit, miss, evicted
        The lookup hit, missed, or evicted a line.
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
    """A command for all lines of a slice.

    Members
    -------
    write_back
        Write each dirty line to memory.
    invalidate
        Drop each line after that.
    failed
        Drop only those lines whose fetch has failed.
    blind
        Ignore the content of the tag memory.
    """

    def __init__(self) -> None:
        super().__init__({"write_back": 1, "invalidate": 1, "failed": 1, "blind": 1})


class TagAccess(data.StructLayout):
    """A lookup in the tags, or one step of a walk through them.

    Members
    -------
    lookup
        The lookup. For a step of a walk, its set alone is used.
    is_walk
        The access is a step of a walk.
    walk
    way
        The way of a walk's step.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        super().__init__(
            {
                "lookup": SliceLookup(config),
                "is_walk": 1,
                "walk": Walk(),
                "way": LineShape(config).way_bits,
            }
        )


class StoreTask(data.StructLayout):
    """A task for the data array: up to three steps on a line, in this order.

    Members
    -------
    evict
        Write the line to memory, as eviction `eviction`.
    fill
        Replace it by the oldest fetched line.
    respond
        Look the nibble up, and respond.
    set, way
        Position of the line.
    eviction
    place, write, metadata
        As in the lookup.
    hit
        The lookup needed no fetch of its own.
    replaced
        The fetched line replaces another one.
    tag_error
        The line is unknown, for a tag of its set is uncorrectable.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        shape = LineShape(config)
        super().__init__(
            {
                "evict": 1,
                "fill": 1,
                "respond": 1,
                "set": shape.set_bits,
                "way": shape.way_bits,
                "eviction": shape.eviction_bits,
                "place": shape.place_bits,
                "write": 1,
                "metadata": METADATA_BITS,
                "hit": 1,
                "replaced": 1,
                "tag_error": 1,
            }
        )


class EvictedRow(data.StructLayout):
    """A row of an evicted line.

    Members
    -------
    data
    eviction
        Number of the eviction.
    last
        The row is the line's last one.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        super().__init__({"data": ROW_BITS, "eviction": LineShape(config).eviction_bits, "last": 1})


class CodedRow(data.ArrayLayout):
    """A row as it is stored: codewords."""

    def __init__(self) -> None:
        super().__init__(unsigned(codeword_bits(WORD_BITS)), ROW_WORDS)
