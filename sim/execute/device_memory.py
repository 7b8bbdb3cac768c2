"""The device's memory with the limit that a plan was made for."""

from cdma.golden import LINE_BYTES
from cdma.sim.driver import Buffer
from cdma.sim.driver.memory.buffers import Memory

POISON = 0xA5
"""The byte that fills what has been freed."""

ADDRESSES_PER_BYTE = 2
"""The machine has so many addresses for each byte that may be allocated at once. So holes between
buffers do not matter, as they do not where pages are mapped."""


class MemoryLimitError(RuntimeError):
    """Raised if a step needs more memory than the limit; the message has both."""


class DeviceMemory:
    """Buffers of the simulated device, and a count of what no plan decides about.

    Together they never exceed the limit. Weights, inputs, gradients and scratch are bytes that are
    counted; the tensors of a plan are buffers, which share no byte.

    Parameters
    ----------
    memory : Memory
        The driver's.
    limit : int
        Bytes.

    Attributes
    ----------
    peak : int
        The most that was ever taken, counted bytes included.
    """

    def __init__(self, memory: Memory, limit: int) -> None:
        self.limit = limit
        self.peak = 0
        self._memory = memory
        self._counted = 0
        self._taken = 0

    def has_room(self, nbytes: int, counted: int | None = None) -> bool:
        """Return True if so many bytes fit; beside other counted bytes, if these are given."""
        beside = self._counted if counted is None else counted
        return beside + self._taken + nbytes <= self.limit

    def count(self, nbytes: int) -> None:
        """Set the counted bytes."""
        self._counted = nbytes
        assert self.has_room(0), "counted more bytes than there is room for"
        self.peak = max(self.peak, self._counted + self._taken)

    def take(self, nbytes: int) -> Buffer:
        """Allocate a buffer, of whole lines, for which there must be room."""
        assert self.has_room(nbytes), f"no room for {nbytes} bytes"
        self._taken += nbytes
        self.peak = max(self.peak, self._counted + self._taken)
        return self._memory.alloc(-(-nbytes // LINE_BYTES) * LINE_BYTES)

    def give(self, buffer: Buffer, nbytes: int) -> None:
        """Free a buffer that was taken for so many bytes, and overwrite it."""
        buffer.array[:] = POISON
        self._memory.free(buffer)
        self._taken -= nbytes
