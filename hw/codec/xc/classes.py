"""The class coder: an exponent's distance from the centre to class and index, and back.

The tables are those of `cdma.golden.formats.xc.patterns`. Distances are numbers modulo 256, as
exponents are, so that every code stands for an exponent of 8 bits, and there is no range to check.

                         pattern
                            |
    exponent --> centre - x --> d --> table: class, index --> width of the index
                                 d <-- table <-- class, index
    exponent <-- centre - d <---+

All of it is combinational. Distances with a code are from -5 to 25: eight bits are decoded as a
sign, whether the others repeat it, and five bits.
"""

from amaranth.hdl import Cat, Module, Signal, Value, unsigned
from amaranth.lib import data

from cdma.golden.formats.xc.patterns import (
    CLASS_BITS,
    ESCAPE_CLASS,
    ESCAPE_INDEX,
    EXTRA_BITS,
    PATTERNS,
    classes,
    code_table,
    distance_table,
)

CENTRE_BITS = 8
PATTERN_BITS = 2
INDEX_BITS = 4
"""The widest index."""
WIDTH_BITS = 3
"""Bits of an index's width, which is at most `INDEX_BITS`."""
_NEAR = 5
"""Bits of a distance that has a code, beside its sign."""


class Parameters(data.StructLayout):
    """A transfer's parameters, as they stand in `Sector.parameters`."""

    def __init__(self) -> None:
        super().__init__({"centre": CENTRE_BITS, "pattern": PATTERN_BITS})


class Code(data.StructLayout):
    """An exponent's class, and which of the class's distances it is; zero above the width."""

    def __init__(self) -> None:
        super().__init__({"number": CLASS_BITS, "index": INDEX_BITS})


def code_of(m: Module, distance: Value, pattern: Value, *, name: str) -> data.View:
    """Code a distance: a `Code`; that of the escape for a distance that no class has.

    Parameters
    ----------
    distance
        Centre less exponent, modulo 256.
    pattern
    name
        Of the signals that it is made of.
    """
    code = Signal(Code(), name=name)
    near = Signal(name=f"{name}_near")
    negative = distance[-1]
    m.d.comb += near.eq(distance[_NEAR:] == negative.replicate(len(distance) - _NEAR))
    escape = ESCAPE_CLASS | ESCAPE_INDEX << CLASS_BITS
    m.d.comb += code.as_value().eq(escape)
    with m.If(near):
        with m.Switch(Cat(distance[: _NEAR + 1], pattern)):
            for number in PATTERNS:
                for place, value in enumerate(code_table(number)):
                    signed = place - 256 if place >= 128 else place
                    if value != escape and -32 <= signed < 32:
                        with m.Case(place % (2 << _NEAR) | number << _NEAR + 1):
                            m.d.comb += code.as_value().eq(int(value))
    return code


def distance_of(m: Module, code: data.View, pattern: Value, *, name: str) -> Signal:
    """The distance that a code stands for, modulo 256; worthless for the escape."""
    distance = Signal(CENTRE_BITS, name=name)
    with m.Switch(Cat(code.as_value(), pattern)):
        for number in PATTERNS:
            table = distance_table(number)
            for group, distances in enumerate(classes(number)):
                for index in range(len(distances)):
                    value = group | index << CLASS_BITS
                    with m.Case(value | number << CLASS_BITS + INDEX_BITS):
                        m.d.comb += distance.eq(int(table[value]))
    return distance


def is_escape(code: data.View) -> Value:
    """True if a code is the escape's."""
    return (code.number == ESCAPE_CLASS) & (code.index == ESCAPE_INDEX)


def width_of(m: Module, number: Value, pattern: Value, *, name: str) -> Signal:
    """Bits of a class's index."""
    width = Signal(WIDTH_BITS, name=name)
    with m.Switch(Cat(number, pattern)):
        for pattern_number, widths in enumerate(EXTRA_BITS):
            for group, bits in enumerate(widths):
                with m.Case(group | pattern_number << CLASS_BITS):
                    m.d.comb += width.eq(bits)
    return width


def centre_less(m: Module, centre: Value, number: Value, *, name: str) -> Signal:
    """Exponent to distance and distance to exponent: centre - number, modulo 256."""
    difference = Signal(unsigned(CENTRE_BITS), name=name)
    m.d.comb += difference.eq(centre - number)
    return difference
