"""Configurations of the hardware: validated, frozen, and the named ones from the papers."""

from dataclasses import dataclass

from golden import ELEMENT_BYTES, LINE_BYTES

SECTOR_BYTES = (32, 64, 128)
"""What a codec takes or gives per cycle; 32 B is one DRAM burst (cDMA, §V-B)."""


class ConfigError(ValueError):
    """A configuration that cannot be built; the message names the field and what would be right."""


@dataclass(frozen=True, kw_only=True)
class CodecConfig:
    """The shape of a zero-value codec.

    Parameters
    ----------
    element_bytes
        Size of the unit that is compared with zero.
    sector_bytes
        Width of the data path: bytes taken (compressor) or given (decompressor) per cycle.
    line_bytes
        Bytes that share one mask. 128 in every shipped configuration; proofs narrow it.

    Raises
    ------
    ConfigError
        If a field has a value that the hardware cannot have.
    """

    element_bytes: int = 4
    sector_bytes: int = 32
    line_bytes: int = LINE_BYTES

    def __post_init__(self) -> None:
        if self.element_bytes not in ELEMENT_BYTES:
            raise ConfigError(f"element_bytes must be 4, 2 or 1, not {self.element_bytes!r}")
        if self.line_bytes == LINE_BYTES:
            if self.sector_bytes not in SECTOR_BYTES:
                raise ConfigError(f"sector_bytes must be 32, 64 or 128, not {self.sector_bytes!r}")
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
        Width of the port to the link.
    buffer_bytes
        What the DMA buffer holds of compressed lines on their way out; shared evenly by the units.
        The bandwidth-delay product of the memory (cDMA, §V-C).
    write_bursts
        Write bursts on the link that may wait for their response.
    read_buffer_bytes
        What the engine holds of streams on their way in; the bandwidth-delay product of the link.
    split_lines
        Lines per cycle that are split off a stream on its way in: 1 or 2.

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

    def __post_init__(self) -> None:
        if not 1 <= self.units <= 16:
            raise ConfigError(f"units must be 1 to 16, not {self.units!r}")
        if self.host_bytes != self.codec.sector_bytes:
            raise ConfigError(
                f"host_bytes must be the codec's sector_bytes, {self.codec.sector_bytes}, not "
                f"{self.host_bytes!r}"
            )
        if self.unit_beats < 2 * self.codec.sectors:
            raise ConfigError(
                "buffer_bytes must hold two lines for each unit, "
                f"{2 * self.units * self.codec.line_bytes}, not {self.buffer_bytes!r}"
            )
        if not 1 <= self.write_bursts <= 64:
            raise ConfigError(f"write_bursts must be 1 to 64, not {self.write_bursts!r}")
        if self.read_buffer_bytes < 32 * self.host_bytes:
            raise ConfigError(
                f"read_buffer_bytes must hold two bursts, {32 * self.host_bytes}, not "
                f"{self.read_buffer_bytes!r}"
            )
        if self.split_lines not in (1, 2):
            raise ConfigError(f"split_lines must be 1 or 2, not {self.split_lines!r}")

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
    ),
    # A whole line per cycle, for codecs at the link instead of at a memory controller.
    "wide": EngineConfig(codec=CodecConfig(sector_bytes=128), units=1, host_bytes=128),
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
    if name not in PRESETS:
        raise ConfigError(f"config must be one of {', '.join(PRESETS)}, not {name!r}")
    return PRESETS[name]
