"""Times of what PyTorch does on a device."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

REPEATS = 7

LEAST_SECONDS = 1e-4
"""Shorter work is done several times in a row, as clocks are coarse."""


class Stopwatch(Protocol):
    """Tells how long work takes."""

    def time(self, work: Callable[[], Any]) -> tuple[float, ...]:
        """Seconds of each time that the work was done, of a few; not empty."""


@dataclass(frozen=True)
class DeviceStopwatch:
    """The stopwatch of a device that PyTorch runs on.

    Attributes
    ----------
    torch : module
    device : str
        As PyTorch names it: `cpu`, `cuda`.
    repeats : int
        Times that work is done, after it was done twice to warm up.
    """

    torch: Any
    device: str
    repeats: int = REPEATS

    def time(self, work: Callable[[], Any]) -> tuple[float, ...]:
        """Seconds of each time that the work was done; of short work, of several in a row."""
        work()
        times = max(1, round(LEAST_SECONDS / max(self._seconds(work, 1), 1e-9)))
        return tuple(self._seconds(work, times) / times for _ in range(self.repeats))

    def _seconds(self, work: Callable[[], Any], times: int) -> float:
        self._finish()
        begin = time.perf_counter()
        for _ in range(times):
            work()
        self._finish()
        return time.perf_counter() - begin

    def _finish(self) -> None:
        """Wait until the device has done all that it was given."""
        if self.device != "cpu":
            self.torch.get_device_module(self.device).synchronize()
