"""Limits on the engine's reads of device memory: the policies of cDMA, §V-D."""

from dataclasses import dataclass

from cdma.hw.config import ConfigError
from cdma.hw.dma.limits import BURST_BITS, RATE_BITS, RATE_FRACTION_BITS

WINDOW_S = 10e-6
"""No window of this length has more reads than its policy's rate allows."""


@dataclass(frozen=True, kw_only=True)
class Throttle:
    """A limit on reads of device memory.

    Parameters
    ----------
    name : str
        For reports.
    bytes_per_s : float
        0 for no limit.
    burst_bytes : int
        How far reads may run ahead of the rate.

    Raises
    ------
    ConfigError
        The rate is negative or infinite.
    """

    name: str
    bytes_per_s: float
    burst_bytes: int = 4096

    def __post_init__(self) -> None:
        if not 0 <= self.bytes_per_s < float("inf"):
            raise ConfigError(
                f"bytes_per_s of throttle {self.name} must be 0, for no limit, or more, not "
                f"{self.bytes_per_s}"
            )

    def rate(self, clock_hz: float) -> int:
        """The rate register's value, of which the burst has been taken off.

        In any time t a bucket lets rate · t + burst bytes through, so a bucket of the whole rate
        would exceed it in a short window.

        Raises
        ------
        ConfigError
            The register cannot hold it, or the burst is all that a window may have.
        """
        if not self.bytes_per_s:
            return 0
        sustained = self.bytes_per_s - self.burst_bytes / WINDOW_S
        value = int(sustained / clock_hz * 2**RATE_FRACTION_BITS)
        least, most = 1, 2**RATE_BITS - 1
        bursts = isinstance(self.burst_bytes, int) and 0 <= self.burst_bytes < 2**BURST_BITS
        if not least <= value <= most or not bursts:
            unit = clock_hz / 2**RATE_FRACTION_BITS
            raise ConfigError(
                f"bytes_per_s of throttle {self.name} must be {least * unit:.3g} to "
                f"{most * unit:.3g} beyond burst_bytes in {WINDOW_S:g} s, and burst_bytes 0 to "
                f"{2**BURST_BITS - 1}, not {self.bytes_per_s:g} and {self.burst_bytes}"
            )
        return value


THROTTLES = {
    throttle.name: throttle
    for throttle in (
        Throttle(name="none", bytes_per_s=0.0),
        # As much as the memory has left while a network is trained.
        Throttle(name="performance-optimal", bytes_per_s=200e9),
        # For GPUs with less: what the average ratio needs, three times the link.
        Throttle(name="bandwidth-aware", bytes_per_s=48e9),
    )
}


def throttle(name: str) -> Throttle:
    """The policy of that name.

    Raises
    ------
    ConfigError
        There is none; the message lists those that there are.
    """
    if name not in THROTTLES:
        raise ConfigError(f"throttle must be one of {', '.join(THROTTLES)}, not {name!r}")
    return THROTTLES[name]
