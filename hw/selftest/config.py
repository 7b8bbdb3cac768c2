"""The shape of a self-test."""

from dataclasses import dataclass

from cdma.hw.config import CodecConfig, ConfigError

BAUD = 115_200

LENGTH_LIMIT = 1 << 32
"""A round's bytes are counted in 32 bits."""

LARGEST_BAUD_ERROR = 0.02
"""A receiver samples the stop bit 9.5 bits after the start: half a bit is 5 %, for both ends."""


@dataclass(frozen=True, kw_only=True)
class SelfTestConfig:
    """The shape of a self-test.

    Parameters
    ----------
    codec
        Of the compressor and the decompressor that are tested.
    clock_hz
        The clock that it gets.
    lines
        Lines of data per round.
    baud
        Bits per second of the UART.
    watchdog_cycles
        A round in which nothing moves for so long has failed. Stalls are shorter by far.

    Raises
    ------
    ConfigError
        If a field has a value that the hardware cannot have.
    """

    codec: CodecConfig
    clock_hz: float
    lines: int = 4096
    baud: int = BAUD
    watchdog_cycles: int = 4096

    def __post_init__(self) -> None:
        # The fault is planted in the first beat of the stream, which must be a whole one.
        least = -(-self.codec.sector_bytes // self.codec.mask_bytes)
        most = LENGTH_LIMIT // self.codec.line_bytes - 1
        if not least <= self.lines <= most:
            raise ConfigError(f"lines must be {least} to {most}, not {self.lines!r}")
        if self.watchdog_cycles < 1024:
            raise ConfigError(
                f"watchdog_cycles must be at least 1024, not {self.watchdog_cycles!r}"
            )
        if self.baud < 1:
            raise ConfigError(f"baud must be positive, not {self.baud!r}")
        error = abs(self.clock_hz / self.bit_cycles / self.baud - 1)
        if self.clock_hz < 2 * self.baud or error > LARGEST_BAUD_ERROR:
            raise ConfigError(
                f"baud must be at most half of clock_hz and divide it within "
                f"{LARGEST_BAUD_ERROR:.0%}, not {self.baud!r} for {self.clock_hz:g} Hz"
            )

    @property
    def bit_cycles(self) -> int:
        """Cycles per bit on the UART."""
        return max(2, round(self.clock_hz / self.baud))

    @property
    def length(self) -> int:
        """Bytes per round."""
        return self.lines * self.codec.line_bytes

    @property
    def sectors(self) -> int:
        """Sectors per round."""
        return self.lines * self.codec.sectors
