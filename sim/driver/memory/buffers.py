"""A memory's buffers: where they are, what is in them, and whether they may still be used."""

from dataclasses import dataclass

from cdma.golden import LINE_BYTES
from cdma.golden.formats.stream import ByteArray
from cdma.sim.driver.errors import (
    BusyError,
    DoubleFreeError,
    DriverError,
    OutOfMemoryError,
    OverlapError,
    UseAfterFreeError,
)
from cdma.sim.driver.exclusive import Exclusive, exclusive
from cdma.sim.driver.integers import is_integer, require_integer
from cdma.sim.driver.memory.allocator import Allocator, AllocatorShare


class Memory:
    """Device or host memory, handed out in buffers.

    Parameters
    ----------
    name : str
        For messages.
    array : uint8 array
        Its content.
    base : int
        The address of its first byte.
    guard : Exclusive, optional
        Its driver's; its own if not given.
    allocator : AllocatorShare, optional
        Of the same addresses, which others take from as well; its own if not given.
    """

    def __init__(
        self,
        name: str,
        array: ByteArray,
        base: int,
        guard: Exclusive | None = None,
        allocator: AllocatorShare | None = None,
    ) -> None:
        self.name = name
        self.array = array
        self.base = base
        self._guard = guard or Exclusive(f"this {name} memory")
        self._allocator = allocator or Allocator(base, array.size)

    @property
    def end(self) -> int:
        """One past the last address."""
        return self.base + self.array.size

    @property
    def free_bytes(self) -> int:
        """Bytes that no buffer occupies."""
        return self._allocator.free_bytes

    @exclusive
    def alloc(
        self,
        nbytes: int,
        *,
        alignment: int = LINE_BYTES,
        address: int | None = None,
        within: range | None = None,
    ) -> "Buffer":
        """Allocate a buffer that shares no byte with another. Its content is whatever was there.

        Parameters
        ----------
        nbytes
            At least 1.
        alignment
            The address is a multiple of it; a power of two.
        address
            There and nowhere else, whatever the other arguments are.
        within
            Only there, as in one of `Engine.windows`.

        Raises
        ------
        OutOfMemoryError
            There is no such piece.
        OverlapError
            At `address` is another buffer, or the end of the memory.
        """
        nbytes = require_integer("nbytes", nbytes, 1)
        if within is not None and not (isinstance(within, range) and within.step == 1):
            raise DriverError(f"within must be a range of addresses or None, not {within!r}")
        if not is_integer(alignment) or alignment < 1 or alignment & (alignment - 1):
            raise DriverError(f"alignment must be a power of two, not {alignment!r}")
        if address is not None:
            address = require_integer("address", address, 0)
            if not self._allocator.take_at(address, nbytes):
                raise OverlapError(
                    f"{nbytes} bytes at {address:#x} are not all free in {self.name} memory, "
                    f"{self.base:#x} to {self.end:#x}"
                )
            return Buffer(self, address, nbytes)
        found = self._allocator.take(nbytes, int(alignment), within)
        if found is None:
            place = "" if within is None else f" in {within.start:#x} to {within.stop:#x}"
            raise OutOfMemoryError(
                f"{self.name} memory has no {nbytes} bytes at a multiple of {alignment}{place}: "
                f"{self._allocator.free_bytes} are free, {self._allocator.largest_free_bytes} "
                "of them in one piece"
            )
        return Buffer(self, found, nbytes)

    @exclusive
    def free(self, buffer: "Buffer") -> None:
        """Free a buffer, so that its bytes can be allocated again.

        Raises
        ------
        DoubleFreeError
            It has been freed, or is of another memory.
        BusyError
            A transfer uses it. It does until the driver has seen its record: wait for it.
        """
        if not isinstance(buffer, Buffer):
            raise DriverError(f"what is freed must be a Buffer, not {buffer!r}")
        if buffer.memory is not self:
            raise DoubleFreeError(f"{buffer} is not of this {self.name} memory")
        if not buffer.live:
            raise DoubleFreeError(f"{buffer} has been freed before")
        if buffer.users:
            raise BusyError(f"{buffer} is used by {buffer.users} transfers; wait for them")
        buffer.live = False
        self._allocator.give(buffer.address, buffer.nbytes)

    def holds(self, address: int, nbytes: int) -> bool:
        """Return True if all of these addresses belong to this memory."""
        return self.base <= address and address + nbytes <= self.end

    def at(self, address: int, nbytes: int) -> ByteArray:
        """The bytes at an address, whoever has them."""
        assert self.holds(address, nbytes)
        return self.array[address - self.base :][:nbytes]


class Buffer:
    """A piece of a memory, from `Memory.alloc` to `Memory.free`.

    Attributes
    ----------
    memory : Memory
    address, nbytes : int
    live : bool
        It has not been freed.
    users : int
        Transfers in flight that use it.
    """

    def __init__(self, memory: Memory, address: int, nbytes: int) -> None:
        self.memory = memory
        self.address = address
        self.nbytes = nbytes
        self.live = True
        self.users = 0

    @property
    def array(self) -> ByteArray:
        """Its bytes, not a copy.

        Raises
        ------
        UseAfterFreeError
            It has been freed.
        """
        return self.span().array

    def span(self, offset: int = 0, nbytes: int | None = None) -> "Span":
        """A part of the buffer: from `offset` on, `nbytes` long or up to its end.

        Raises
        ------
        DriverError
            It is not all in the buffer.
        """
        for name, value in (("offset", offset), ("nbytes", nbytes)):
            if value is not None and not is_integer(value):
                raise DriverError(f"{name} must be an integer, not {value!r}")
        offset = int(offset)
        size = self.nbytes - offset if nbytes is None else int(nbytes)
        if offset < 0 or size < 0 or offset + size > self.nbytes:
            raise DriverError(f"{self} has no {size} bytes at offset {offset}")
        return Span(self, offset, size)

    def require_live(self) -> None:
        """Raise `UseAfterFreeError` if it has been freed."""
        if not self.live:
            raise UseAfterFreeError(f"{self} has been freed")

    def __repr__(self) -> str:
        return f"{self.memory.name} buffer of {self.nbytes} bytes at {self.address:#x}"


@dataclass(frozen=True)
class Span:
    """A part of a buffer.

    Attributes
    ----------
    buffer : Buffer
    offset, nbytes : int
    """

    buffer: Buffer
    offset: int
    nbytes: int

    @property
    def memory(self) -> Memory:
        return self.buffer.memory

    @property
    def address(self) -> int:
        return self.buffer.address + self.offset

    @property
    def end(self) -> int:
        """One past its last address."""
        return self.address + self.nbytes

    @property
    def array(self) -> ByteArray:
        """Its bytes, not a copy; `UseAfterFreeError` if its buffer has been freed."""
        self.buffer.require_live()
        return self.memory.at(self.address, self.nbytes)
