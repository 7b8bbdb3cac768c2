"""Windows: the addresses that the engine keeps to, as its registers say them."""

from dataclasses import dataclass

from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS
from cdma.sim.driver.errors import DriverError
from cdma.sim.driver.registers import RegisterFile

ADDRESS_BITS = {
    "descriptors": HOST_ADDRESS_BITS,
    "records": HOST_ADDRESS_BITS,
    "host": HOST_ADDRESS_BITS,
    "device": DEVICE_ADDRESS_BITS,
}
"""Width of an address in each window."""

REGISTERS = {
    "descriptors": "DESCRIPTOR_WINDOW",
    "records": "RECORD_WINDOW",
    "host": "HOST_WINDOW",
    "device": "DEVICE_WINDOW",
}
"""What the names of each window's registers begin with."""


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The addresses that the engine may use, in whole pages of 4 KiB; None: all of them.

    Attributes
    ----------
    descriptors, records : range or None
        Addresses in host memory for the ring and for records. The driver allocates both there.
    host, device : range or None
        Addresses of data in host and in device memory, to be read or written. An empty range
        allows none.
    lock : bool
        Nobody can change them until the block is reset; `Engine.reset` does not unlock them.

    Raises
    ------
    DriverError
        A window is no range of pages, or leaves its address space.
    """

    descriptors: range | None = None
    records: range | None = None
    host: range | None = None
    device: range | None = None
    lock: bool = False

    def __post_init__(self) -> None:
        for name, bits in ADDRESS_BITS.items():
            _check(name, getattr(self, name), bits)
        if not isinstance(self.lock, bool):
            raise DriverError(f"lock must be True or False, not {self.lock!r}")

    def holds(self, name: str, start: int, nbytes: int) -> bool:
        """Return True if a window holds all of these addresses; if there are none, any does."""
        window: range | None = getattr(self, name)
        return (
            window is None
            or not nbytes
            or (window.start <= start and start + nbytes <= window.stop)
        )

    def ends(self, name: str) -> tuple[int, int]:
        """The first and the last address of a window, as the registers have them."""
        window: range | None = getattr(self, name)
        if window is None:
            return 0, (1 << ADDRESS_BITS[name]) - 1
        if window.start == window.stop:
            return PAGE_BYTES, PAGE_BYTES - 1
        return window.start, window.stop - 1


def _check(name: str, window: object, bits: int) -> None:
    if window is None:
        return
    if not isinstance(window, range) or window.step != 1:
        raise DriverError(
            f"windows.{name} must be a range of addresses, as range(start, stop), or None, not "
            f"{window!r}"
        )
    if window.start % PAGE_BYTES or window.stop % PAGE_BYTES:
        raise DriverError(
            f"windows.{name} must start and stop at multiples of {PAGE_BYTES}, not at "
            f"{window.start:#x} and {window.stop:#x}"
        )
    if not 0 <= window.start <= window.stop <= 1 << bits:
        raise DriverError(
            f"windows.{name} must lie in the {bits} bits of an address, its start not behind its "
            f"stop, not from {window.start:#x} to {window.stop:#x}"
        )


OPEN = Windows()
"""All addresses, as after the block's reset."""


def write_windows(registers: RegisterFile, windows: Windows) -> None:
    """Set the engine's windows, while it is disabled and idle.

    Raises
    ------
    DriverError
        They are locked, and other ones than these.
    """
    locked = registers.read("WINDOW_LOCK")["lock"]
    for name, prefix in REGISTERS.items():
        ends = windows.ends(name)
        if not locked:
            for end, value in zip(("BASE", "LAST"), ends, strict=True):
                registers.write_long(f"{prefix}_{end}", value)
            continue
        found = (
            registers.read_long(f"{prefix}_BASE"),
            registers.read_long(f"{prefix}_LAST") | (PAGE_BYTES - 1),
        )
        both_empty = found[0] > found[1] and ends[0] > ends[1]
        if found != ends and not both_empty:
            raise DriverError(
                f"windows.{name} must be {found[0]:#x} to {found[1]:#x}, which is locked, not "
                f"{ends[0]:#x} to {ends[1]:#x}; only a reset of the block unlocks it"
            )
    if windows.lock and not locked:
        registers.write("WINDOW_LOCK", lock=1)
