"""Memories that the drivers of a machine's rings share: no two of them get the same bytes."""

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from cdma.sim.driver.exclusive import Exclusive
from cdma.sim.driver.memory.allocator import Allocator, AllocatorShare
from cdma.sim.driver.memory.buffers import Memory
from cdma.sim.machine import Machine


class SharedMemories:
    """Device and host memory of a machine, and what each ring's driver has of them.

    Parameters
    ----------
    machine : Machine
    """

    def __init__(self, machine: Machine) -> None:
        self._memories = (
            ("device", machine.device, machine.device_base),
            ("host", machine.host, machine.host_base),
        )
        self._allocators = [Allocator(base, array.size) for _, array, base in self._memories]
        self._shares: dict[int, list[AllocatorShare]] = {}

    def rings(self) -> Iterator[int]:
        """The rings whose drivers, present or former ones, have memory."""
        return iter(tuple(self._shares))

    def give_back(self, ring: int) -> None:
        """Free all that a ring's former driver has; nothing may be in flight there."""
        for share in self._shares.pop(ring):
            share.give_all()

    def of_ring(self, ring: int, guard: Exclusive) -> tuple[Memory, Memory]:
        """Device and host memory, as a ring's driver with that guard sees them."""
        # The shares alone are kept: a memory would keep its driver's guard alive.
        self._shares[ring] = [AllocatorShare(allocator) for allocator in self._allocators]
        device, host = (
            Memory(name, array, base, guard, share)
            for (name, array, base), share in zip(self._memories, self._shares[ring], strict=True)
        )
        return device, host


_shared: WeakKeyDictionary[Machine, SharedMemories] = WeakKeyDictionary()


def shared_memories(machine: Machine) -> SharedMemories:
    """Return the memories of a machine, the same ones to each of its drivers."""
    if machine not in _shared:
        _shared[machine] = SharedMemories(machine)
    return _shared[machine]
