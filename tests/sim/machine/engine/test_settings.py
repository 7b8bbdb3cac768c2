"""Settings of an engine, every bit of them in both values, where they are used."""

from cdma.hw.dma.control.registers import register_map
from cdma.hw.registers.map import Kind
from tests.sim.machine.engine.bench import EngineBench

OPERATING = ("CONTROL", "RING_TAIL", "WINDOW_LOCK")
"""Registers that make an engine do something, or refuse what is written later."""


def test_every_bit_of_every_setting_keeps_both_values():
    bench = EngineBench()
    bench.engine.close()
    machine = bench.machine
    # Where the ring lies cannot be changed while descriptors may be fetched.
    machine.write_register(register_map()["CONTROL"].offset, 0)
    for name, register in register_map().items():
        stored = [field for field in register.fields.values() if field.kind is Kind.STORED]
        if name in OPERATING or not stored:
            continue
        before = machine.read_register(register.offset)
        for chosen in (~0, 0, 0x55555555, 0xAAAAAAAA):
            word = sum(field.put(chosen >> field.low & (1 << field.width) - 1) for field in stored)
            machine.write_register(register.offset, word)
            machine.run(4)
            mask = sum(field.mask for field in stored)
            assert machine.read_register(register.offset) & mask == word, name
        machine.write_register(register.offset, before)
    bench.close()
