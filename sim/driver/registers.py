"""A block's registers by their names in its `registers.rdl`."""

from cdma.hw.dma.control.registers import ring_register_map
from cdma.hw.registers.map import Kind, Register
from cdma.sim.machine.bus.machine import BusMachine

HALF = 32


class RegisterFile:
    """Reads and writes registers and their fields. Each access takes the cycles that it takes.

    Parameters
    ----------
    machine : BusMachine
    registers : dict of str to Register, optional
        The map; that of ring 0 of an engine if not given.
    """

    def __init__(self, machine: BusMachine, registers: dict[str, Register] | None = None) -> None:
        self.machine = machine
        # Offsets and fields are the same in all configurations, constants' values are not used.
        self.map: dict[str, Register] = registers or ring_register_map(0)

    def read(self, name: str) -> dict[str, int]:
        """Read all fields of a register at one moment."""
        register = self.map[name]
        return register.values(self.machine.read_register(register.offset))

    def write(self, name: str, **fields: int) -> int:
        """Write these fields and zeros to the others, and return the cycle of the write."""
        register = self.map[name]
        word = sum(register.fields[field].put(value) for field, value in fields.items())
        return self.machine.write_register(register.offset, word)

    def read_long(self, name: str) -> int:
        """Read a value of 64 bits from its two halves."""
        low = self.machine.read_register(self.map[f"{name}_LO"].offset)
        high = self.machine.read_register(self.map[f"{name}_HI"].offset)
        return high << HALF | low

    def write_long(self, name: str, value: int) -> None:
        """Write a value of 64 bits into its two halves."""
        self.machine.write_register(self.map[f"{name}_LO"].offset, value % 2**HALF)
        self.machine.write_register(self.map[f"{name}_HI"].offset, value >> HALF)

    def counters(self) -> dict[str, int]:
        """The performance registers, as `raw_bytes_out`, each of the moment in which it is read."""
        return {
            register.group: self.read_long(register.group.upper())
            for name, register in self.map.items()
            if name.endswith("_LO")
            and any(f.kind in (Kind.COUNTER, Kind.MAXIMUM) for f in register.fields.values())
        }
