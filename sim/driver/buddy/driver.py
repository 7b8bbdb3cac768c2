"""The driver of the buddy controller: what a kernel would do, by registers alone."""

from collections.abc import Callable

from cdma.golden.buddy.address_map import (
    FIELD_BITS,
    METADATA_RATIO,
    AddressMap,
    PageFields,
    Target,
)
from cdma.golden.buddy.entry import BEST_OF_THREE
from cdma.golden.buddy.pages import PageAllocator
from cdma.golden.buddy.xc_entry import CENTRE_BITS, PATTERN_BITS
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.buddy.registers import WITH_ALL_REGISTERS, register_map
from cdma.sim.driver.buddy.errors import AccessError
from cdma.sim.driver.buddy.shape import BuddyShape, read_buddy_shape
from cdma.sim.driver.errors import DriverError, StuckError
from cdma.sim.driver.exclusive import Exclusive, claimed, exclusive
from cdma.sim.driver.integers import require_integer
from cdma.sim.driver.registers import RegisterFile
from cdma.sim.machine.buddy.machine import BuddyMachine
from cdma.sim.machine.errors import HangError

TIMEOUT_CYCLES = 100_000
PATIENCE_CYCLES = 10_000_000
"""After so long, what should end by itself counts as stuck."""
POLL_CYCLES = 16
"""Between two looks at a register."""


class BuddyDriver:
    """Compressed memory: sets up the controller, and hands out logical memory in whole pages.

    Pages follow one another in logical memory, in device memory and in the carve-out, in the order
    in which they are allocated, as in `cdma.golden.buddy.memory.BuddyMemory`.

    A machine has one driver at a time, until the driver is closed or nothing refers to it any more.
    One thread at a time may call it; a second one gets `ConcurrentUseError`.

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
    registers : RegisterFile

    Raises
    ------
    EngineError
        There is no controller that this driver knows.
    DriverError
        An argument is out of range, or the machine has another driver.
    """

    def __init__(
        self,
        machine: BuddyMachine,
        *,
        logical_bytes: int | None = None,
        timeout_cycles: int = TIMEOUT_CYCLES,
        interrupts: bool = False,
    ) -> None:
        require_integer("timeout_cycles", timeout_cycles, 0, 2**32 - 1)
        if logical_bytes is not None:
            require_integer("logical_bytes", logical_bytes, 1)
        if not isinstance(interrupts, bool):
            raise DriverError(f"interrupts must be True or False, not {interrupts!r}")
        self._guard = Exclusive("this buddy controller's driver")
        self.machine = machine
        self.timeout_cycles = timeout_cycles
        self.interrupts = interrupts
        with claimed(machine, self._guard):
            self.registers = RegisterFile(machine, register_map(WITH_ALL_REGISTERS))
            self.shape: BuddyShape = read_buddy_shape(self.registers)
            self.map = self._address_map(logical_bytes)
            self._enabled = False
            self._allocator = PageAllocator(self.map)
            self.reset()

    @exclusive
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

    @exclusive
    def allocate(
        self,
        nbytes: int,
        target: Target,
        *,
        compressed: bool = True,
        centre: int = 0,
        pattern: int = 0,
    ) -> int:
        """Map whole pages for `nbytes` and return their logical address.

        `centre` and `pattern` are XC's for these pages, which have no entries of XC with centre 0.

        Raises
        ------
        BuddyError
            Logical memory, device memory or the carve-out are used up. Nothing is mapped then.
        DriverError
            An argument is not of the type that it should be, or out of range; or there is a centre,
            and the controller has no XC.
        """
        require_integer("nbytes", nbytes, 1)
        require_integer("centre", centre, 0, 2**CENTRE_BITS - 1)
        require_integer("pattern", pattern, 0, 2**PATTERN_BITS - 1 if centre else 0)
        self._require_parameters(centre)
        if target not in list(Target):
            names = ", ".join(f"Target.{one.name}" for one in Target)
            raise DriverError(f"target must be one of {names}, not {target!r}")
        if not isinstance(compressed, bool):
            raise DriverError(f"compressed must be True or False, not {compressed!r}")
        address, pages = self._allocator.allocate(
            nbytes, target, compressed=compressed, centre=centre, pattern=pattern
        )
        for page in pages:
            self.map_page(*page)
        return address

    @exclusive
    def map_page(self, page: int, fields: PageFields, frame: int) -> None:
        """Set a page-table entry to the given fields, which are not checked.

        Entries of XC that a page has are those of its old parameters: they have to be written anew
        with other ones.

        Raises
        ------
        DriverError
            An argument is not of the type that it should be, or out of range; or there is a centre,
            and the controller has no XC.
        """
        if not isinstance(fields, PageFields):
            raise DriverError(f"fields must be PageFields, not {fields!r}")
        self._require_parameters(fields.centre)
        self._write_page(page, fields, frame)

    @exclusive
    def unmap_page(self, page: int) -> None:
        """Unmap a page, so that accesses to it fail."""
        self._write_page(page, None, 0)

    # Control

    @exclusive
    def enable(self) -> None:
        """Let the controller serve accesses."""
        self._enabled = True
        self._control()

    @exclusive
    def disable(self) -> None:
        """Refuse accesses; wait until those in flight have ended."""
        self._enabled = False
        self._control()
        self._poll(lambda: bool(self.registers.read("STATUS")["idle"]), "the controller is busy")

    def close(self) -> None:
        """Give up the machine, so that it can have another driver. Closing twice does no harm."""
        if not self._guard.closed:
            with self._guard:
                self._guard.close()

    @exclusive
    def flush(self) -> None:
        """Write back the metadata that the cache holds, and wait until all are in memory.

        Raises
        ------
        StuckError
            It does not end.
        """
        self._order(flush=1)

    @exclusive
    def invalidate(self) -> None:
        """Flush, and drop what the cache holds: it takes from memory what it needs then."""
        self._order(invalidate=1)

    @property
    @exclusive
    def lost(self) -> bool:
        """True if metadata could not be written back: accesses are refused until `reset`."""
        return bool(self.registers.read("STATUS")["lost"])

    @exclusive
    def counters(self) -> dict[str, int]:
        """Performance counters by their names, as `metadata_hits`, all read at one moment."""
        self.registers.write("COUNTERS_CONTROL", freeze=1)
        counted = self.registers.counters()
        self.registers.write("COUNTERS_CONTROL", freeze=0)
        return counted

    @exclusive
    def clear_counters(self) -> None:
        """Set all counters to zero."""
        self.registers.write("COUNTERS_CONTROL", clear=1)

    @exclusive
    def first_error(self) -> AccessError | None:
        """First error since `clear_error`; None if there was none."""
        if not self.registers.read("IRQ_STATUS")["error"]:
            return None
        what = self.registers.read("ERROR_STATUS")
        return AccessError(
            status=AccessStatus(what["status"]),
            write=bool(what["write"]),
            address=self.registers.read_long("ERROR_ADDR"),
        )

    @exclusive
    def clear_error(self) -> None:
        """Clear the error registers, so that the next error is the first."""
        self.registers.write("IRQ_STATUS", error=1)

    def _address_map(self, logical_bytes: int | None) -> AddressMap:
        """Set the layout of the memories; `DriverError` if it is invalid."""
        most = self.shape.pages * self.shape.page_bytes
        logical_bytes = most if logical_bytes is None else logical_bytes
        if logical_bytes > most:
            raise DriverError(
                f"logical_bytes must be at most the page table's {most}, not {logical_bytes}"
            )
        try:
            address_map = AddressMap(
                device_bytes=self.machine.device.size,
                logical_bytes=logical_bytes,
                carve_out_bytes=self.machine.buddy.size,
                gbbr=self.machine.buddy_base,
                page_bytes=self.shape.page_bytes,
            )
        except ValueError as error:
            raise DriverError(str(error)) from error
        line = self.shape.cache_line_bytes
        if address_map.metadata_base % line:
            raise DriverError(
                f"logical_bytes must be a multiple of {line * METADATA_RATIO}, so that lines of "
                f"{line} bytes hold nothing but metadata, not {logical_bytes}"
            )
        return address_map

    def _require_parameters(self, centre: int) -> None:
        if centre and not self.shape.has_parameters:
            raise DriverError(
                f"centre must be 0, not {centre}: entries of XC need a controller of the mode "
                f"{BEST_OF_THREE}, not of {self.shape.mode}"
            )

    def _write_page(self, page: int, fields: PageFields | None, frame: int) -> None:
        """Write a page-table entry; without fields the page does not exist."""
        require_integer("page", page, 0, self.shape.pages - 1)
        frames = self.registers.map["PAGE_FRAME"].fields["frame"]
        require_integer("frame", frame, 0, 2**frames.width - 1)
        self.registers.write("PAGE_INDEX", index=page)
        bits = fields.pack() & (1 << FIELD_BITS) - 1 if fields else 0
        self.registers.write("PAGE_FIELDS", mapped=fields is not None, fields=bits)
        if self.shape.has_parameters:
            centre, pattern = (fields.centre, fields.pattern) if fields else (0, 0)
            self.registers.write("PAGE_PARAMETERS", centre=centre, pattern=pattern)
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
