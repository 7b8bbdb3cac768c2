"""A watchdog that tells whether the engine still makes progress."""

from cdma.sim.driver.errors import StuckError
from cdma.sim.driver.registers import RegisterFile
from cdma.sim.machine import Machine

MOVEMENT = (
    "RING_DONE",
    "RING_HEAD",
    "HOST_WRITE_BEATS_LO",
    "HOST_READ_BEATS_LO",
    "RAW_BYTES_OUT_LO",
    "RAW_BYTES_IN_LO",
)
"""Registers of which one changes whenever data moves."""


class Watch:
    """Raises an exception when nothing has moved for long.

    Parameters
    ----------
    machine : Machine
    registers : RegisterFile
    patience_cycles : int
    """

    def __init__(self, machine: Machine, registers: RegisterFile, patience_cycles: int) -> None:
        self.machine = machine
        self.registers = registers
        self.patience_cycles = patience_cycles
        self._seen: list[dict[str, int]] = []
        self._moved = machine.cycles

    def look(self, what: str) -> None:
        """Raise `StuckError`, about `what`, if nothing has moved for too long."""
        now = [self.registers.read(name) for name in MOVEMENT]
        if now != self._seen:
            self._seen = now
            self._moved = self.machine.cycles
        quiet = self.machine.cycles - self._moved
        if quiet >= self.patience_cycles:
            raise StuckError(
                f"{what}, and nothing has moved for {quiet} cycles: "
                + (self.machine.outstanding() or "nothing is outstanding")
            )
