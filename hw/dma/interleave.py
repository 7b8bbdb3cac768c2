"""Interleaving of lines over the units: each line belongs to one memory controller."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value

from cdma.hw.config import EngineConfig


def unit_of(m: Module, config: EngineConfig, address: Value) -> Signal:
    """Return the unit at the memory controller of the line at an address.

    It is the line's number modulo the units, by the remainders of the powers of two.
    """
    line_bits = (config.codec.line_bytes - 1).bit_length()
    number = address[line_bits:]
    weights = [(1 << bit) % config.units for bit in range(len(number))]
    total = Signal(range(sum(weights) + 1), name="remainders")
    unit = Signal(range(config.units), name="first_unit")
    m.d.comb += [
        total.eq(
            sum((Mux(number[bit], weight, 0) for bit, weight in enumerate(weights)), Const(0))
        ),
        unit.eq(Array(n % config.units for n in range(sum(weights) + 1))[total]),
    ]
    return unit
