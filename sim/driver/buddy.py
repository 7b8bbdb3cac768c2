"""The driver of the buddy controller: what a kernel would do, by registers alone."""

from collections.abc import Callable

from golden.buddy import METADATA_RATIO, AddressMap, PageFields, Target
from golden.buddy_pages import PageAllocator
from hw.buddy.payloads import AccessStatus
from hw.buddy.registers import register_map
from sim.driver.buddy_errors import AccessError
from sim.driver.buddy_shape import BuddyShape, read_buddy_shape
from sim.driver.errors import DriverError, StuckError
from sim.driver.registers import RegisterPort
from sim.machine.buddy_machine import BuddyMachine
from sim.machine.errors import HangError

TIMEOUT_CYCLES = 100_000
PATIENCE_CYCLES = 10_000_000
"""After so long, what should end by itself counts as stuck."""
POLL_CYCLES = 16
"""Between two looks at a register."""


class BuddyDriver:
    """Compressed memory: sets up the controller, and hands out logical memory in whole pages.

    Pages follow one another in logical memory, in device memory and in the carve-out, in the order
    in which they are allocated, as in `golden.buddy_memory.BuddyMemory`. One driver for a machine.

    Parameters
    ----------
    machine : BuddyMachine
        Its device memory's end is for metadata; all of its buddy memory is the carve-out.
    logical_bytes : int, optional
        Logical memory, whole pages: as much as the page table has, if not given.
    timeout_cycles : int
        After so much silence of a memory that owes an answer, an access fails. 0: never.
    interrupts : bool
        Wait for the end of flushes by interrupt, instead of looking at a register.

    Attributes
    ----------
    shape : BuddyShape
        The controller's configuration, from its registers.
    map : AddressMap
    registers : RegisterPort

    Raises
    ------
    EngineError
        There is no controller that this driver knows.
    DriverError
        An argument is out of range.
    """

    def __init__(
        self,
        machine: BuddyMachine,
        *,
        logical_bytes: int | None = None,
        timeout_cycles: int = TIMEOUT_CYCLES,
        interrupts: bool = False,
    ) -> None:
        if not 0 <= timeout_cycles < 2**32:
            raise DriverError(f"timeout_cycles must be 0 to {2**32 - 1}, not {timeout_cycles!r}")
        self.machine = machine
        self.timeout_cycles = timeout_cycles
        self.interrupts = interrupts
        self.registers = RegisterPort(machine, register_map())
        self.shape: BuddyShape = read_buddy_shape(self.registers)
        most = self.shape.pages * self.shape.page_bytes
        logical_bytes = most if logical_bytes is None else logical_bytes
        if logical_bytes > most:
            raise DriverError(
                f"logical_bytes must be at most the page table's {most}, not {logical_bytes}"
            )
        try:
            self.map = AddressMap(
                device_bytes=machine.device.size,
                logical_bytes=logical_bytes,
                carve_out_bytes=machine.buddy.size,
                gbbr=machine.buddy_base,
                page_bytes=self.shape.page_bytes,
            )
        except ValueError as error:
            raise DriverError(str(error)) from error
        if self.map.metadata_base % self.shape.cache_line_bytes:
            line = self.shape.cache_line_bytes
            raise DriverError(
                f"logical_bytes must be a multiple of {line * METADATA_RATIO}, so that lines of "
                f"{line} bytes hold nothing but metadata, not {logical_bytes}"
            )
        self._enabled = False
        self._allocator = PageAllocator(self.map)
        self.reset()

    def reset(self) -> None:
        """Forget all pages and what is in them, and set up the controller anew."""
        self.disable()
        self._control(clear=1)
        self._poll(lambda: not self.registers.read("STATUS")["clearing"], "unmapping does not end")
        for page in range(self._allocator.pages):
            self.unmap_page(page)
        self._allocator = PageAllocator(self.map)
        # No entry has data until it is written: metadata of zeros are those of zeros.
        self.machine.device[self.map.metadata_base :] = 0
        registers = self.registers
        registers.write_long("GBBR", self.map.gbbr)
        registers.write_long("CARVE_OUT_BYTES", self.map.carve_out_bytes)
        registers.write_long("LOGICAL_BYTES", self.map.logical_bytes)
        registers.write_long("METADATA_BASE", self.map.metadata_base)
        registers.write("TIMEOUT_CYCLES", value=self.timeout_cycles)
        registers.write("IRQ_STATUS", flushed=1, error=1, lost=1)
        registers.write("IRQ_ENABLE", flushed=self.interrupts)
        self.clear_counters()
        self.enable()

    # Pages

    def allocate(self, nbytes: int, target: Target, *, compressed: bool = True) -> int:
        """Map whole pages for `nbytes`; their logical address.

        Raises
        ------
        BuddyError
            Logical memory, device memory or the carve-out are used up. Nothing is mapped then.
        """
        address, pages = self._allocator.allocate(nbytes, target, compressed=compressed)
        for page in pages:
            self.map_page(*page)
        return address

    def map_page(self, page: int, fields: PageFields, frame: int) -> None:
        """Set a page-table entry as it is, right or wrong."""
        self._write_page(page, frame, mapped=1, fields=fields.pack())

    def unmap_page(self, page: int) -> None:
        """Let accesses to a page fail."""
        self._write_page(page, 0, mapped=0, fields=0)

    # Control

    def enable(self) -> None:
        """Serve accesses."""
        self._enabled = True
        self._control()

    def disable(self) -> None:
        """Refuse accesses; wait until those that are under way have ended."""
        self._enabled = False
        self._control()
        self._poll(lambda: bool(self.registers.read("STATUS")["idle"]), "the controller is busy")

    def flush(self) -> None:
        """Write back the metadata that the cache holds, and wait until all are in memory.

        Raises
        ------
        StuckError
            It does not end.
        """
        self._order(flush=1)

    def invalidate(self) -> None:
        """Flush, and drop what the cache holds: it takes from memory what it needs then."""
        self._order(invalidate=1)

    @property
    def lost(self) -> bool:
        """Metadata could not be written back: accesses are refused until `reset`."""
        return bool(self.registers.read("STATUS")["lost"])

    def counters(self) -> dict[str, int]:
        """The performance registers by their names, as `metadata_hits`, all of one moment."""
        self.registers.write("COUNTERS_CONTROL", freeze=1)
        counted = self.registers.counters()
        self.registers.write("COUNTERS_CONTROL", freeze=0)
        return counted

    def clear_counters(self) -> None:
        """Start counting from zero."""
        self.registers.write("COUNTERS_CONTROL", clear=1)

    def first_error(self) -> AccessError | None:
        """What went wrong first since `clear_error`."""
        if not self.registers.read("IRQ_STATUS")["error"]:
            return None
        what = self.registers.read("ERROR_STATUS")
        return AccessError(
            status=AccessStatus(what["status"]),
            write=bool(what["write"]),
            address=self.registers.read_long("ERROR_ADDR"),
        )

    def clear_error(self) -> None:
        """Let the next error be the first."""
        self.registers.write("IRQ_STATUS", error=1)

    def _write_page(self, page: int, frame: int, **fields: int) -> None:
        self.registers.write("PAGE_INDEX", index=page)
        self.registers.write("PAGE_FIELDS", **fields)
        # Stores the entry.
        self.registers.write("PAGE_FRAME", frame=frame)

    def _control(self, **pulses: int) -> None:
        self.registers.write("CONTROL", enable=self._enabled, **pulses)

    def _order(self, **pulse: int) -> None:
        self.registers.write("IRQ_STATUS", flushed=1)
        self._control(**pulse)
        what = "a flush does not end"
        if self.interrupts:
            try:
                self.machine.run_until_irq(PATIENCE_CYCLES)
            except HangError as error:
                raise StuckError(f"{what}: {error}") from error
        self._poll(lambda: bool(self.registers.read("IRQ_STATUS")["flushed"]), what)
        self.registers.write("IRQ_STATUS", flushed=1)

    def _poll(self, condition: Callable[[], bool], what: str) -> None:
        """Let time pass until it is so; `StuckError`, about `what`, if it never is."""
        start = self.machine.cycles
        while not condition():
            self.machine.run(POLL_CYCLES)
            if self.machine.cycles - start > PATIENCE_CYCLES:
                outstanding = self.machine.outstanding() or "nothing is outstanding"
                raise StuckError(f"{what}: {outstanding}")
