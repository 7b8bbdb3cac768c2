"""Ringing the doorbell, and letting time pass until records come."""

from collections.abc import Callable

from cdma.hw.dma.control.descriptor import Status
from cdma.sim.driver.errors import RingError
from cdma.sim.driver.registers import RegisterFile
from cdma.sim.driver.ring.queue import Queue
from cdma.sim.driver.ring.record import FirstError
from cdma.sim.driver.ring.ring import INDEXES, PHASE_MASK
from cdma.sim.driver.watch import Watch
from cdma.sim.machine import HangError, Machine

SLICE_CYCLES = 10_000
"""So often the driver looks whether the engine is still well, if no record comes."""

POLL_CYCLES = 16
"""Between two looks at a register."""


class Waiter:
    """The part of the driver that lets the machine's time pass.

    Parameters
    ----------
    machine : Machine
    registers : RegisterFile
    queue : Queue
    interrupts : bool
        Sleep until an interrupt; otherwise look at the oldest transfer's record.
    patience_cycles : int
        After so long without any movement, the engine counts as stuck.
    ring : int
        Whose interrupt it is.
    """

    def __init__(
        self,
        machine: Machine,
        registers: RegisterFile,
        queue: Queue,
        *,
        interrupts: bool,
        patience_cycles: int,
        ring: int = 0,
    ) -> None:
        self.machine = machine
        self.registers = registers
        self.queue = queue
        self.interrupts = interrupts
        self.patience_cycles = patience_cycles
        self.ring = ring
        self.restart()

    def restart(self) -> None:
        """Note that the engine starts again with the ring's slot 0."""
        # How far the engine was told that there are descriptors, and was seen to be done.
        self._announced = 0
        self._done = 0

    def doorbell(self) -> int:
        """Let the engine fetch all that is in the ring, and return the cycle of the write."""
        # A record is in memory before RING_DONE counts it, and the tail must stay close to that.
        self.poll(self._ring_done_is_near, "RING_DONE lags behind the records")
        self._announced = self.queue.ring.tail
        return self.registers.write("RING_TAIL", index=self._announced % INDEXES)

    def wait(self, done: Callable[[], bool]) -> None:
        """Let time pass, and take records, until it is done.

        Raises
        ------
        RingError, StuckError
            It will never be.
        """
        self.queue.collect()
        if not done() and self._announced != self.queue.ring.tail:
            self.doorbell()
        watch = self._watch()
        while not done():
            self._sleep()
            # Even if something has come: of a ring that has stopped, a record that is in memory may
            # be one that is not to be believed, and then it ends every sleep at once.
            if not self.queue.collect():
                self._require_ring()
                watch.look(f"{self.queue.oldest} has no record")

    def poll(self, condition: Callable[[], bool], what: str) -> None:
        """Run the machine until a condition on registers holds; `StuckError` if it never does."""
        if condition():
            return
        watch = self._watch()
        while not condition():
            self.machine.run(POLL_CYCLES)
            watch.look(what)

    def first_error(self) -> FirstError | None:
        """Contents of the error registers; None if they hold no error."""
        if not self.registers.read("IRQ_STATUS")["error"]:
            return None
        what = self.registers.read("ERROR_STATUS")
        return FirstError(
            status=Status(what["status"]),
            detail=what["detail"],
            tag=self.registers.read("ERROR_TAG")["value"],
            fault_address=self.registers.read_long("ERROR_ADDR"),
        )

    def look_at_ring(self) -> bool:
        """Return True if the ring has stopped; then only descriptors that RING_DONE counts have
        records.
        """
        stopped = bool(self.registers.read("STATUS")["ring_error"])
        if stopped:
            self.queue.stop(self.registers.read("RING_DONE")["index"])
        return stopped

    def _sleep(self) -> None:
        """Let time pass until something happens, or nothing does for a while."""
        try:
            if self.interrupts:
                self.machine.run_until_irq(SLICE_CYCLES, line=self.ring)
                events = self.registers.read("IRQ_STATUS")
                seen = {name: events[name] for name in ("done", "ring_error")}
                self.registers.write("IRQ_STATUS", **seen)
                return
            awaited = self.queue.ring.waits_for()
            if awaited is None:
                self.machine.run(SLICE_CYCLES)
                return
            address, before = awaited
            self.machine.run_until_word(address, SLICE_CYCLES, mask=PHASE_MASK, unlike=before)
        except HangError:
            pass

    def _watch(self) -> Watch:
        return Watch(self.machine, self.registers, self.patience_cycles)

    def _ring_done_is_near(self) -> bool:
        ring = self.queue.ring
        if ring.tail - self._done > ring.entries:
            self._done += (self.registers.read("RING_DONE")["index"] - self._done) % INDEXES
            self._require_ring()
        return ring.tail - self._done <= ring.entries

    def _require_ring(self) -> None:
        """Raise `RingError` if no record will come any more."""
        if not (self.look_at_ring() and self.registers.read("STATUS")["idle"]):
            return
        # The last records may have come since.
        if self.queue.collect():
            return
        raise RingError(
            f"the ring has stopped, and {self.queue.oldest} has no record; first error: "
            f"{self.first_error()}; reset the engine"
        )
