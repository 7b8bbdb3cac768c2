"""The device's memory as a training step uses it: its bytes at any time, and a limit."""

import weakref
from typing import Any


class DeviceMemoryError(RuntimeError):
    """A step holds more than the device has: "cause; mend"."""


class DeviceMemory:
    """Counts the memories behind tensors from when they are watched to when they are freed.

    It counts what PyTorch's operators leave between each other. Scratch memory inside of an
    operator it is told (`cdma.sim.swap.step.scratch`).

    Parameters
    ----------
    capacity_bytes : int or None
        What the device has; None counts without a limit.

    Attributes
    ----------
    live_bytes, peak_bytes : int
        Held now, and at most so far.
    """

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.live_bytes = 0
        self.peak_bytes = 0
        self._since_mark = 0
        self._there: set[int] = set()

    def watch(self, tensor: Any, what: str, least_bytes: int = 0) -> None:
        """Count a tensor's memory from now on, whoever shares it, for at least so many bytes.

        Raises
        ------
        DeviceMemoryError
            There is more than the capacity now; the message says that `what` was the last.
        """
        storage = tensor.untyped_storage()
        address, nbytes = storage._cdata, max(storage.nbytes(), least_bytes)
        if address in self._there:
            return
        self._there.add(address)
        self.live_bytes += nbytes
        # The finalizer runs when the memory is freed, as the storage's object lives as long. At
        # exit nobody counts any more.
        weakref.finalize(storage, self._freed, address, nbytes).atexit = False
        self.pass_through(0, f"{nbytes:,} of {what}")

    def pass_through(self, nbytes: int, what: str) -> None:
        """Count bytes beside what is there, for a moment; raises as `watch`."""
        most = self.live_bytes + nbytes
        self.peak_bytes = max(self.peak_bytes, most)
        self._since_mark = max(self._since_mark, most)
        if self.capacity_bytes is not None and most > self.capacity_bytes:
            raise DeviceMemoryError(
                f"the step holds {most:,} bytes with the {what}, and the device has "
                f"{self.capacity_bytes:,}; plan with less memory, or give the device more"
            )

    def mark(self) -> int:
        """Most bytes held since the last mark, or the beginning."""
        most, self._since_mark = self._since_mark, self.live_bytes
        return most

    def _freed(self, address: int, nbytes: int) -> None:
        self._there.discard(address)
        self.live_bytes -= nbytes
