"""Whether each bit of a block's registers is stored where software writes it, and no other."""

from collections.abc import Iterable
from random import Random

import pytest

from cdma.hw.registers.map import Kind, Register
from cdma.sim.machine import RegisterError
from cdma.sim.machine.bus.machine import BusMachine

WORD = 4

ONE_BY_ONE = 24
"""So many registers are written bit by bit."""


def stored(register: Register) -> int:
    """The bits that keep what is written; none of a register in which writes do something."""
    kinds = {field.kind for field in register.fields.values()}
    if kinds & {Kind.PULSE, Kind.LOCK}:
        return 0
    return sum(field.mask for field in register.fields.values() if field.kind is Kind.STORED)


def check_bits(machine: BusMachine, registers: Iterable[Register], rng: Random) -> int:
    """Write all registers that store something, in any order, and read back all of them each time.

    The block rests, so that nothing is locked, and nothing goes where its registers say. Returns
    how many bits there are.
    """
    masks = {register.offset: stored(register) for register in registers if stored(register)}
    expected = {r.offset: r.reset for r in registers if r.offset in masks}
    places = list(masks)

    def write(at: int, value: int) -> None:
        machine.write_register(at, value)
        expected[at] = expected[at] & ~masks[at] | value & masks[at]

    def check() -> None:
        assert {at: machine.read_register(at) for at in places} == expected

    check()
    for value in (0xFFFFFFFF, 0, *(rng.getrandbits(32) for _ in range(4)), 0):
        rng.shuffle(places)
        for at in places:
            write(at, value)
        check()
    for at in rng.sample(places, min(ONE_BY_ONE, len(places))):
        for bit in range(32):
            write(at, 1 << bit)
            assert machine.read_register(at) == expected[at]
    check()
    return sum(mask.bit_count() for mask in masks.values())


def check_gaps(machine: BusMachine, registers: Iterable[Register], nbytes: int) -> int:
    """Read and write wherever there is no register. Returns how many such words were refused."""
    registers = list(registers)
    gaps = sorted(set(range(0, nbytes, WORD)) - {register.offset for register in registers})
    for offset in gaps:
        with pytest.raises(RegisterError, match="SLVERR"):
            machine.read_register(offset)
        with pytest.raises(RegisterError, match="SLVERR"):
            machine.write_register(offset, 0xFFFFFFFF)
    # And what comes afterwards is not.
    at = next(register.offset for register in registers if stored(register))
    machine.write_register(at, machine.read_register(at))
    return len(gaps)
