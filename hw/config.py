"""Configurations of the hardware: validated, frozen, and the named ones from the papers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from cdma.builds.displays import fields_of
from cdma.golden import ELEMENT_BYTES, LINE_BYTES
from cdma.golden.buddy.address_map import MIN_PAGE_BYTES
from cdma.golden.buddy.entry import BEST_OF_THREE, ENTRY_BYTES, METADATA_BITS, MODES
from cdma.hw.codec.interface import CodecParameterError, LineCodec
from cdma.hw.codec.registry import CodecRegistryError, copy_codec, line_codec

SECTOR_BYTES = (32, 64, 128)
"""What a codec takes or gives per cycle; 32 B is one DRAM burst (cDMA, §V-B)."""

HOST_BYTES = (4, 8, 16, 32, 64, 128)
"""Widths of the engine's port to the link, those that AXI4 has from 32 bits on."""

DEFAULT_CODECS = ("zvc", "raw")
"""What engines have if nothing else is said: the paper's codec, and plain copies."""

MAX_RINGS = 8
MAX_STREAM_ID_BITS = 16

LATENCIES = ("paper", "fast")
"""Of the zero-value pipelines: the paper's stages, or one more each for the sake of the clock."""


class ConfigError(ValueError):
    """A configuration that cannot be built; the message names the field and what would be right."""


Named = TypeVar("Named")


def find_named(table: Mapping[str, Named], name: str, *, field: str = "config") -> Named:
    """One of a table of configurations; `ConfigError`, about `field`, if it has none so named."""
    if name not in table:
        raise ConfigError(f"{field} must be one of {', '.join(table)}, not {name!r}")
    return table[name]


def _check_range(config: object, field: str, least: int, greatest: int) -> None:
    """Raise `ConfigError` if a field of a configuration is not within both bounds."""
    value = getattr(config, field)
    if not least <= value <= greatest:
        raise ConfigError(f"{field} must be {least} to {greatest}, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class CodecConfig:
    """The shape of the lines, and the codecs that they can be in.

    Parameters
    ----------
    element_bytes
        Size of the unit that a codec works on, and of that in which streams move.
    sector_bytes
        Width of the data path: bytes taken (compressor) or given (decompressor) per cycle.
    line_bytes
        Bytes that share one mask. 128 in every shipped configuration; proofs narrow it.
    latency
        "paper": 3 stages to compress, 2 to decompress (cDMA, §V-B). "fast": 4 and 3, so that
        sectors of many elements are counted in two cycles.
    codecs
        Names of `cdma.hw.codec.registry`, each once, that of plain copies among them. The first
        one is what an engine compresses with unless told otherwise.

    Raises
    ------
    ConfigError
        If a field has a value that the hardware cannot have.
    """

    element_bytes: int = 4
    sector_bytes: int = 32
    line_bytes: int = LINE_BYTES
    latency: str = "paper"
    codecs: tuple[str, ...] = DEFAULT_CODECS

    def __post_init__(self) -> None:
        self._check_codecs()
        if self.latency not in LATENCIES:
            raise ConfigError(f"latency must be {' or '.join(LATENCIES)}, not {self.latency!r}")
        if self.element_bytes not in ELEMENT_BYTES:
            raise ConfigError(f"element_bytes must be 4, 2 or 1, not {self.element_bytes!r}")
        if self.line_bytes == LINE_BYTES:
            if self.sector_bytes not in SECTOR_BYTES:
                raise ConfigError(f"sector_bytes must be 32, 64 or 128, not {self.sector_bytes!r}")
            self._check_lines()
            return
        # Narrow lines are for proofs; they need whole masks and power-of-two lane counts.
        if self.sector_bytes < 1 or self.line_bytes % self.sector_bytes:
            raise ConfigError(
                f"line_bytes must be a multiple of sector_bytes, not {self.line_bytes!r}"
            )
        lanes = self.sector_bytes // self.element_bytes
        if lanes < 2 or lanes & (lanes - 1) or self.sectors & (self.sectors - 1):
            raise ConfigError(
                "sector_bytes must hold a power of two of elements, at least 2, and line_bytes a "
                f"power of two of sectors, not {self.sector_bytes!r} and {self.line_bytes!r}"
            )
        if self.elements % (8 * self.element_bytes):
            raise ConfigError(
                f"line_bytes must give a mask of whole elements, not {self.line_bytes!r}"
            )
        self._check_lines()

    @property
    def lanes(self) -> int:
        """Elements per sector."""
        return self.sector_bytes // self.element_bytes

    @property
    def sectors(self) -> int:
        """Sectors per line."""
        return self.line_bytes // self.sector_bytes

    @property
    def elements(self) -> int:
        """Elements per line, and bits per mask."""
        return self.line_bytes // self.element_bytes

    @property
    def mask_bytes(self) -> int:
        """Bytes of a line's mask in the stream."""
        return self.elements // 8

    @property
    def mask_elements(self) -> int:
        """The mask's size in elements: it always fills whole ones, so streams stay aligned."""
        return self.mask_bytes // self.element_bytes

    @property
    def entries(self) -> tuple[LineCodec, ...]:
        """The registry's entries of `codecs`, in their order."""
        return tuple(line_codec(name) for name in self.codecs)

    @property
    def copy_index(self) -> int:
        """Index among `codecs` of the format of plain copies."""
        return self.codecs.index(copy_codec().name)

    @property
    def head_elements(self) -> int:
        """Elements of the longest head of a line in the stream; 0 if no codec has heads."""
        return max(entry.head_bytes(self) for entry in self.entries) // self.element_bytes

    @property
    def head_bits(self) -> int:
        """Bits that carry a line's head beside its payload."""
        return max(self.elements, 8 * self.element_bytes * self.head_elements)

    @property
    def parameter_bits(self) -> int:
        """Bits of the parameters of the codec that has most of them."""
        return max(entry.parameter_bits for entry in self.entries)

    @property
    def result_bits(self) -> int:
        """Bits of the longest result that a codec has for the record."""
        return max(entry.result_bits for entry in self.entries)

    @property
    def summary_bits(self) -> int:
        """Bits of what all codecs with a result tell of a line, side by side."""
        return sum(entry.line_summary_bits for entry in self.entries)

    @property
    def locates_errors(self) -> bool:
        """True if a codec finds errors itself, and so tells statuses and places in the stream."""
        return any(entry.locates_errors for entry in self.entries)

    @property
    def worst_line_bytes(self) -> int:
        """Bytes of the longest line in any codec's stream."""
        return max(entry.worst_line_bytes(self) for entry in self.entries)

    def _check_codecs(self) -> None:
        try:
            entries = self.entries
        except CodecRegistryError as error:
            raise ConfigError(f"codecs: {error}") from error
        if len(set(self.codecs)) < len(self.codecs):
            raise ConfigError(f"codecs must be different ones, not {', '.join(self.codecs)}")
        if copy_codec() not in entries:
            raise ConfigError(
                f"codecs must contain {copy_codec().name!r}, for plain copies, not "
                f"{', '.join(self.codecs)}"
            )

    def _check_lines(self) -> None:
        for entry in self.entries:
            try:
                entry.check_config(self)
            except CodecParameterError as error:
                raise ConfigError(f"codecs: {error}") from error
            head = entry.head_bytes(self)
            if head % self.element_bytes or not 0 <= head <= self.sector_bytes:
                raise ConfigError(
                    f"codecs: a line of {entry.name!r} must have a head of whole elements, at most "
                    f"{self.sector_bytes} bytes, not of {head}"
                )


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The shape of a DMA engine.

    Parameters
    ----------
    codec
        Of each unit; its sector is what a memory controller gives per cycle.
    units
        Compression units, one at each memory controller; lines go round them.
    host_bytes
        Width of the port to the link, a power of two from 4 to 128. Streams move at this or the
        codec's `sector_bytes` per cycle, whichever is less.
    buffer_bytes
        What the DMA buffer holds of compressed lines on their way out; shared evenly by the units.
        The bandwidth-delay product of the memory (cDMA, §V-C).
    write_bursts
        Write bursts on the link that may wait for their response.
    read_buffer_bytes
        What the engine holds of streams on their way in; the bandwidth-delay product of the link.
    split_lines
        Lines per cycle that are split off a stream on its way in: 1 or 2.
    drain_beats
        Line beats, each with a head, that fit what leaves the buffer in a cycle. With 1 two lines
        leave together if they fit a head and a port's width; with 2 a line's last beat and the next
        line's first one always do, which a link as fast as the port needs.
    split_beats
        The same of what is split off a stream on its way in; 2 needs two `split_lines`.
    transfers
        Descriptors that are fetched ahead, transfers that may wait in each path, and records whose
        response may be outstanding; and twice as many transfers may have begun and have no record
        yet. So small transfers end at this many per round trip to host memory.
    host_address_bits, device_address_bits
        Width of addresses on the buses to host and to device memory. What a descriptor names beyond
        them lies outside of every window.
    host_id_bits, device_id_bits
        Width of IDs there. The engine uses two bits at the host and one at the memories; the others
        are 0.
    rings
        Descriptor rings, each with a page of registers, windows, bus attributes and an interrupt of
        its own. They share the paths, descriptor by descriptor, round-robin.
    stream_id_bits
        Width of AxUSER on the buses to host and to device memory, with which each ring's accesses
        carry its stream ID; 0 for no AxUSER, otherwise enough to tell the rings apart.
    host_clock
        Give the bus to host memory a clock and a reset of its own, `host_clk` and `host_rst`: the
        port's channels cross to it through asynchronous queues.
    ecc
        Correct flipped bits of the memories that hold data on its way: the DMA buffer, what is
        reported of its lines, and streams that come in. It costs a cycle each way, and these
        memories together have 14 to 20 % more bits.
    clock_gates
        Stop the clocks of both data paths while nothing in them can change, each by a gate that an
        integrator puts a cell of the library in the place of. The engine has an input,
        `test_enable`, that keeps the clocks running. It costs no cycle.

    Raises
    ------
    ConfigError
        If a field has a value that the hardware cannot have.
    """

    codec: CodecConfig = CodecConfig()
    units: int = 6
    host_bytes: int = 32
    buffer_bytes: int = 70 * 1024
    write_bursts: int = 16
    read_buffer_bytes: int = 16 * 1024
    split_lines: int = 2
    drain_beats: int = 1
    split_beats: int = 1
    transfers: int = 4
    host_address_bits: int = 64
    device_address_bits: int = 40
    host_id_bits: int = 2
    device_id_bits: int = 1
    rings: int = 1
    stream_id_bits: int = 0
    host_clock: bool = False
    ecc: bool = False
    clock_gates: bool = False

    def __post_init__(self) -> None:
        _check_range(self, "units", 1, 16)
        if self.host_bytes not in HOST_BYTES:
            raise ConfigError(
                f"host_bytes must be {', '.join(map(str, HOST_BYTES[:-1]))} or {HOST_BYTES[-1]}, "
                f"not {self.host_bytes!r}"
            )
        if self.unit_beats < 2 * self.codec.sectors:
            raise ConfigError(
                "buffer_bytes must hold two lines for each unit, "
                f"{2 * self.units * self.codec.line_bytes}, not {self.buffer_bytes!r}"
            )
        _check_range(self, "write_bursts", 1, 64)
        if self.read_buffer_bytes < 32 * self.host_bytes:
            raise ConfigError(
                f"read_buffer_bytes must hold two bursts, {32 * self.host_bytes}, not "
                f"{self.read_buffer_bytes!r}"
            )
        if self.split_lines not in (1, 2):
            raise ConfigError(f"split_lines must be 1 or 2, not {self.split_lines!r}")
        if self.drain_beats not in (1, 2):
            raise ConfigError(f"drain_beats must be 1 or 2, not {self.drain_beats!r}")
        if not 1 <= self.split_beats <= self.split_lines:
            raise ConfigError(
                "split_beats must be 1 or 2, and at most split_lines, "
                f"{self.split_lines}, not {self.split_beats!r}"
            )
        _check_range(self, "transfers", 2, 64)
        _check_range(self, "host_address_bits", 32, 64)
        _check_range(self, "device_address_bits", 32, 40)
        _check_range(self, "host_id_bits", 2, 16)
        _check_range(self, "device_id_bits", 1, 16)
        _check_range(self, "rings", 1, MAX_RINGS)
        _check_range(self, "stream_id_bits", 0, MAX_STREAM_ID_BITS)
        if self.stream_id_bits and self.rings > 1 << self.stream_id_bits:
            raise ConfigError(
                f"stream_id_bits must tell {self.rings} rings apart, or be 0, not "
                f"{self.stream_id_bits!r}"
            )
        for name in ("host_clock", "ecc", "clock_gates"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be true or false, not {getattr(self, name)!r}")

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs that the engine has, that of plain copies among them."""
        return self.codec.codecs

    @property
    def stream_bytes_per_cycle(self) -> int:
        """Bytes of streams that pass between units and link in a cycle, each way."""
        return min(self.host_bytes, self.codec.sector_bytes)

    @property
    def unit_beats(self) -> int:
        """Line beats that the buffer holds for each unit."""
        return self.buffer_bytes // self.units // self.codec.sector_bytes

    @property
    def read_beats(self) -> int:
        """Beats of streams on their way in that the engine holds."""
        return self.read_buffer_bytes // self.host_bytes

    @property
    def read_bursts(self) -> int:
        """Read bursts on the link that may be under way: of those that are cut at a burst's
        boundary, as many as fit the room."""
        return max(2, self.read_beats // 8)

    @property
    def unit_lines(self) -> int:
        """Lines that may be under way between a unit and its memory, each way."""
        return self.unit_beats // self.codec.sectors

    def _repr_html_(self) -> str:
        """A table of the fields, for notebooks."""
        return fields_of(self)


# PCIe 5 x16 at 1 GHz: 64 B per cycle are half of the port, so no line that does not fit another
# one's chunk leaves the link idle. The two lines per cycle that are drained, and split, are
# 256 GB/s, four times the link; four units read them with as much to spare. For 350 ns and 12
# cycles that is 91 KiB, and a read's round trip of 500 ns with a burst's time is 34 KiB.
_PCIE5X16 = EngineConfig(
    codec=CodecConfig(sector_bytes=128),
    units=4,
    host_bytes=128,
    buffer_bytes=96 * 1024,
    read_buffer_bytes=48 * 1024,
)

PRESETS: dict[str, EngineConfig] = {
    # Maxwell Titan X: six memory controllers, whose internal data path is 32 B, one DRAM burst
    # (cDMA, §V-B); 70 KB are 200 GB/s of reads for 350 ns (§V-C).
    "titanx_gen3": EngineConfig(),
    # Pascal Titan Xp: more bandwidth from a faster memory clock, the same 32 B path (§VI).
    "titanxp_gen3": EngineConfig(),
    # Volta V100: eight ports of a line each, four HBM2 channels behind each of them. The engine
    # drains two lines a cycle, 333 GB/s at the SMs' 1.3 GHz (Buddy Compression, Tab. 2), which for
    # 350 ns are 116 KB; the link's 150 GB/s for a round trip of 500 ns are 75 KB.
    "v100_nvlink2": EngineConfig(
        codec=CodecConfig(sector_bytes=128),
        units=8,
        host_bytes=128,
        buffer_bytes=128 * 1024,
        write_bursts=32,
        read_buffer_bytes=96 * 1024,
        drain_beats=2,
        split_beats=2,
    ),
    "pcie5x16": _PCIE5X16,
    # One of two, and one of eight, side by side (`cdma.plan.platform.environment`): each has 64 or
    # 56 B of the link per cycle.
    "pcie6x16": _PCIE5X16,
    "c2c": _PCIE5X16,
    # A whole line per cycle, for codecs at the link instead of at a memory controller.
    "wide": EngineConfig(codec=CodecConfig(sector_bytes=128), units=1, host_bytes=128),
    # The same at a higher clock: a stage more in each codec.
    "wide_fast": EngineConfig(
        codec=CodecConfig(sector_bytes=128, latency="fast"), units=1, host_bytes=128
    ),
    # The smallest line with several sectors and a one-element mask; for proofs.
    "tiny": EngineConfig(
        codec=CodecConfig(element_bytes=1, sector_bytes=4, line_bytes=8),
        units=2,
        host_bytes=4,
        buffer_bytes=64,
        write_bursts=2,
        read_buffer_bytes=128,
    ),
}


def preset(name: str) -> EngineConfig:
    """Find a named configuration.

    Raises
    ------
    ConfigError
        If there is none of that name; the message lists those that there are.
    """
    return find_named(PRESETS, name)


@dataclass(frozen=True, kw_only=True)
class EntryConfig:
    """The shape of a codec of 128 B entries.

    Parameters
    ----------
    sector_bytes
        Width of the data path: bytes of uncompressed data per cycle. 128 is an entry per cycle.
    mode
        "best-of": the shorter of BPC and ZVC; "bpc": always BPC, as in the paper; "best-of-three":
        as "best-of", and XC, of bf16, for entries that neither of them makes smaller.
    element_bytes
        ZVC's element size.

    Raises
    ------
    ConfigError
        If a field has a value that the hardware cannot have.
    """

    sector_bytes: int = 32
    mode: str = "best-of"
    element_bytes: int = 4

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        _ = self.zvc  # Validates the rest.

    @property
    def has_parameters(self) -> bool:
        """True if entries may be of XC, with the parameters of their page."""
        return self.mode == BEST_OF_THREE

    @property
    def zvc(self) -> CodecConfig:
        """Configuration of the zero-value codec beside BPC."""
        return CodecConfig(element_bytes=self.element_bytes, sector_bytes=self.sector_bytes)

    @property
    def sectors(self) -> int:
        """Sectors of the data path per entry, and cycles per entry."""
        return ENTRY_BYTES // self.sector_bytes


@dataclass(frozen=True, kw_only=True)
class MetadataCacheConfig:
    """The shape of a metadata cache.

    Parameters
    ----------
    capacity_bytes
        Of all slices together, metadata alone.
    slices
        Parts that lines go round, each with tags and data of its own.
    ways
        Lines that a set holds.
    line_bytes
        What is fetched on a miss.
    misses
        Lines that each slice may wait for at once.
    lookups
        Lookups that each slice may hold meanwhile: those of a whole line and more, or a stream
        stops until its next line has come.

    Raises
    ------
    ConfigError
        If a field has a value that the hardware cannot have.
    """

    capacity_bytes: int = 64 * 1024
    slices: int = 8
    ways: int = 4
    line_bytes: int = 32
    misses: int = 4
    lookups: int = 64

    def __post_init__(self) -> None:
        if self.line_bytes not in (32, 64, 128):
            raise ConfigError(f"line_bytes must be 32, 64 or 128, not {self.line_bytes!r}")
        for name, greatest in (("slices", 64), ("ways", 8)):
            value = getattr(self, name)
            if value not in (1, 2, 4, 8, 16, 32, 64) or value > greatest:
                raise ConfigError(f"{name} must be a power of two, 1 to {greatest}, not {value!r}")
        if self.sets < 1 or self.capacity_bytes & (self.capacity_bytes - 1):
            raise ConfigError(
                "capacity_bytes must be a power of two and hold a set in each slice, "
                f"{self.slices * self.ways * self.line_bytes}, not {self.capacity_bytes!r}"
            )
        _check_range(self, "misses", 1, 64)
        _check_range(self, "lookups", 4, 512)

    @property
    def sets(self) -> int:
        """Sets in each slice."""
        return self.capacity_bytes // (self.slices * self.ways * self.line_bytes)


METADATA_CACHES: dict[str, MetadataCacheConfig] = {
    # Buddy Compression, §3.2: 4-way, 64 KB in 8 slices, one per DRAM channel, lines of 32 B.
    "paper_3_2": MetadataCacheConfig(),
    # Tab. 2 and §3.5: 4 KB in each of 32 slices of L2, 4-way, lines of 128 B.
    "paper_table2": MetadataCacheConfig(capacity_bytes=128 * 1024, slices=32, line_bytes=128),
    # One of those slices, beside the one controller of an FPGA or a channel.
    "slice": MetadataCacheConfig(capacity_bytes=4 * 1024, slices=1, misses=32, lookups=256),
    # For proofs, and for tests that want evictions soon.
    "tiny": MetadataCacheConfig(capacity_bytes=128, slices=1, ways=2, misses=2, lookups=8),
}


@dataclass(frozen=True, kw_only=True)
class BuddyConfig:
    """The shape of a buddy memory controller.

    Parameters
    ----------
    entry
        Its codec; `sector_bytes` is the width of the port to the GPU.
    cache
        Of metadata.
    page_bytes
        A power of two, at least 8 KiB.
    pages
        Of logical memory: entries of the page table.
    reads
        Entries that may be on their way from the memories.
    writes
        Entries that may be on their way to them.
    id_bits
        Width of the IDs at the port to the GPU.

    Raises
    ------
    ConfigError
        If a field has a value that the hardware cannot have.
    """

    entry: EntryConfig = EntryConfig()
    cache: MetadataCacheConfig = METADATA_CACHES["slice"]
    page_bytes: int = 65536
    pages: int = 1024
    reads: int = 64
    writes: int = 16
    id_bits: int = 4

    def __post_init__(self) -> None:
        size = self.page_bytes
        if size < MIN_PAGE_BYTES or size & (size - 1):
            raise ConfigError(
                f"page_bytes must be a power of two, at least {MIN_PAGE_BYTES}, not {size!r}"
            )
        _check_range(self, "pages", 1, 1 << 20)
        _check_range(self, "reads", 4, 256)
        _check_range(self, "writes", 2, 256)
        _check_range(self, "id_bits", 1, 16)

    @property
    def metadata_line_entries(self) -> int:
        """Entries whose metadata come with one miss."""
        return self.cache.line_bytes * 8 // METADATA_BITS


_CHANNEL = BuddyConfig(entry=EntryConfig(sector_bytes=128), reads=192, writes=128)

BUDDY_PRESETS: dict[str, BuddyConfig] = {
    # One of the paper's 32 memory channels: 32 B per cycle at 875 MHz are 28 GB/s (Tab. 2). An
    # entry of two sectors keeps it busy for 2 of the 350 ns, 306 cycles, that it takes to come.
    "channel": _CHANNEL,
    # Behind a 32 B port, and memories that answer soon, as on FPGAs.
    "narrow": BuddyConfig(),
    "paper_3_2": replace(_CHANNEL, cache=METADATA_CACHES["paper_3_2"]),
    "paper_table2": replace(_CHANNEL, cache=METADATA_CACHES["paper_table2"]),
    "tiny": BuddyConfig(
        cache=METADATA_CACHES["tiny"], page_bytes=8192, pages=16, reads=8, writes=4
    ),
}


def buddy_preset(name: str) -> BuddyConfig:
    """Find a named configuration of the buddy controller.

    Raises
    ------
    ConfigError
        If there is none of that name; the message lists those that there are.
    """
    return find_named(BUDDY_PRESETS, name)
