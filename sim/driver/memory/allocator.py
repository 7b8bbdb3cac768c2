"""The allocator of a memory: first fit over a sorted list of free pieces."""

from bisect import bisect_right, insort
from threading import Lock


class Allocator:
    """Ranges of addresses, handed out and taken back.

    Parameters
    ----------
    base, nbytes : int
        The range that all of them come from.
    """

    def __init__(self, base: int, nbytes: int) -> None:
        self._free = [(base, base + nbytes)] if nbytes else []
        # Drivers of several rings, each in its thread, may share an allocator.
        self._lock = Lock()

    @property
    def free_bytes(self) -> int:
        """Free bytes, summed over all pieces."""
        return sum(end - start for start, end in self._free)

    @property
    def largest_free_bytes(self) -> int:
        """Size of the largest free piece in bytes."""
        return max((end - start for start, end in self._free), default=0)

    def take(self, nbytes: int, alignment: int, within: range | None = None) -> int | None:
        """Allocate `nbytes` at the lowest free multiple of `alignment`, and return the address.

        They are in use from then on, and lie within a range of addresses, if one is given. None if
        there is no such address.
        """
        with self._lock:
            for start, end in self._free:
                lowest = start if within is None else max(start, within.start)
                address = -(-lowest // alignment) * alignment
                if address + nbytes <= (end if within is None else min(end, within.stop)):
                    self._cut(start, end, address, nbytes)
                    return address
        return None

    def take_at(self, address: int, nbytes: int) -> bool:
        """Allocate exactly these bytes; return whether they were free."""
        with self._lock:
            for start, end in self._free:
                if start <= address and address + nbytes <= end:
                    self._cut(start, end, address, nbytes)
                    return True
        return False

    def give(self, address: int, nbytes: int) -> None:
        """Return an allocation to the free pieces."""
        start, end = address, address + nbytes
        with self._lock:
            place = bisect_right(self._free, (start, end))
            if place < len(self._free) and self._free[place][0] == end:
                end = self._free.pop(place)[1]
            if place and self._free[place - 1][1] == start:
                start = self._free.pop(place - 1)[0]
            insort(self._free, (start, end))

    def _cut(self, start: int, end: int, address: int, nbytes: int) -> None:
        place = self._free.index((start, end))
        left = [(start, address)] if start < address else []
        right = [(address + nbytes, end)] if address + nbytes < end else []
        self._free[place : place + 1] = left + right


class AllocatorShare:
    """An owner's part of an allocator, which others take from as well.

    Parameters
    ----------
    allocator : Allocator
    """

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._taken: dict[int, int] = {}

    @property
    def free_bytes(self) -> int:
        """As of the allocator: bytes that no owner has."""
        return self._allocator.free_bytes

    @property
    def largest_free_bytes(self) -> int:
        """As of the allocator."""
        return self._allocator.largest_free_bytes

    def take(self, nbytes: int, alignment: int, within: range | None = None) -> int | None:
        """Allocate as the allocator does."""
        address = self._allocator.take(nbytes, alignment, within)
        if address is not None:
            self._taken[address] = nbytes
        return address

    def take_at(self, address: int, nbytes: int) -> bool:
        """Allocate as the allocator does."""
        found = self._allocator.take_at(address, nbytes)
        if found:
            self._taken[address] = nbytes
        return found

    def give(self, address: int, nbytes: int) -> None:
        """Return an allocation of this owner."""
        del self._taken[address]
        self._allocator.give(address, nbytes)

    def give_all(self) -> None:
        """Return all allocations of this owner."""
        while self._taken:
            self._allocator.give(*self._taken.popitem())
