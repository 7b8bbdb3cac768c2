"""Single codes of BPC, read from the bits that come next, by the table of `cdma.golden`'s BPC."""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES

BASE_CODE_BITS = 33
PLANE_CODE_BITS = 32
"""Bits of the longest codes."""
RUN_CODE_BITS = 7
"""Bits of the code of a run of several planes."""


class BaseCodeReader(wiring.Component):
    """Reads the code of an entry's base.

    Latency: 0 cycles.

    Members
    -------
    code : `In(33)`
        The next bits; the first is the highest.
    length : `Out(range(34))`
        Bits that the code has: 3, 7, 11, 19 or 33.
    base : `Out(32)`
    bad : `Out(1)`
        A shorter code has this base.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "code": In(BASE_CODE_BITS),
                "length": Out(range(BASE_CODE_BITS + 1)),
                "base": Out(32),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        code = self.code
        # What stands in the places of the shorter numbers.
        short, byte, half, word = code[26:30], code[22:30], code[14:30], code[:32]

        def fits(value, bits):
            above = value[bits - 1 :]
            return above.all() | ~above.any()

        with m.If(code[32]):
            m.d.comb += [self.length.eq(33), self.base.eq(word), self.bad.eq(fits(word, 16))]
        with m.Elif(code[30:32] == 3):
            m.d.comb += [
                self.length.eq(19),
                self.base.eq(half.as_signed()),
                self.bad.eq(fits(half, 8)),
            ]
        with m.Elif(code[30:32] == 2):
            m.d.comb += [
                self.length.eq(11),
                self.base.eq(byte.as_signed()),
                self.bad.eq(fits(byte, 4)),
            ]
        with m.Elif(code[30:32] == 1):
            m.d.comb += [
                self.length.eq(7),
                self.base.eq(short.as_signed()),
                self.bad.eq(short == 0),
            ]
        with m.Else():
            m.d.comb += self.length.eq(3)
        return m


class PlaneCodeReader(wiring.Component):
    """Builds a plane from its code, or repeats the plane before it inside a run.

    Latency: 0 cycles.

    Members
    -------
    code : `In(32)`
        The next bits; the first is the highest.
    in_run : `In(1)`
        The plane is inside a run: it has no code, and is as `above`.
    above : `In(31)`
        The plane (DBP) before this one; zero for the first.
    after_run : `In(1)`
        The last code was a run's.
    room : `In(range(34))`
        Planes from this one to the last.
    length : `Out(range(33))`
        Bits that the code has: 3, 5, 7, 10 or 32; 0 inside a run.
    plane : `Out(31)`
        This plane.
    next_after_run : `Out(1)`
        For the plane behind this one.
    bad : `Out(1)`
        The table does not have this code here.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "code": In(PLANE_CODE_BITS),
                "in_run": In(1),
                "above": In(DELTAS),
                "after_run": In(1),
                "room": In(range(PLANES + 1)),
                "length": Out(range(PLANE_CODE_BITS + 1)),
                "plane": Out(DELTAS),
                "next_after_run": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        code, above, in_run = self.code, self.above, self.in_run
        kind = PlaneCodeKind(code)

        # Where the numbers are, in the codes that have them.
        raw = code[:DELTAS]
        place = code[22:27]
        one = Signal(DELTAS)
        m.d.comb += one.eq(1 << place)

        # A plane of zeros is as `above` too, up to the end.
        change = Signal(DELTAS)
        zero_plane = Signal()
        unchanged = Signal()
        with m.If(in_run | kind.run | kind.single):
            m.d.comb += unchanged.eq(1)
        with m.Elif(kind.raw):
            m.d.comb += change.eq(raw)
        with m.Elif(kind.places):
            m.d.comb += change.eq(one | Mux(code[27], 0, one << 1))
        with m.Else():
            m.d.comb += [change.eq((~code[27]).replicate(DELTAS)), zero_plane.eq(code[27])]
        m.d.comb += self.plane.eq((above ^ change) & ~zero_plane.replicate(DELTAS))

        # Another code has a raw plane of all ones, or with none but in one place or two neighbors:
        # one of the pairs that start at even places, or of those that start at odd ones.
        has_shorter = Signal()
        m.d.comb += has_shorter.eq(
            raw.all() | ~_has_several(_pairs(raw)) | ~_has_several(_pairs(Cat(C(0, 1), raw)))
        )
        # The planes of the run, this one included, are more than there are.
        overruns = Signal()
        m.d.comb += overruns.eq(code[25:30] + 2 > self.room)
        with m.If(unchanged):
            m.d.comb += self.bad.eq(~in_run & (self.after_run | kind.run & overruns))
        with m.Elif(zero_plane):
            m.d.comb += self.bad.eq(~above.any())
        with m.Else():
            # A single one has 31 places, two neighbors have 30.
            beyond = place[1:].all() & (place[0] | ~code[27])
            m.d.comb += self.bad.eq(
                kind.raw & has_shorter | kind.places & beyond | ~self.plane.any()
            )

        m.d.comb += self.next_after_run.eq(unchanged)
        with m.If(~in_run):
            m.d.comb += self.length.eq(
                or_of(
                    is_kind.replicate(len(self.length)) & length
                    for length, is_kind in kind.by_length.items()
                )
            )
        return m


class PlaneCodeKind:
    """Kind of a plane's code, by its first bits.

    Parameters
    ----------
    code : Value
        Bits; the first is the highest.

    Attributes
    ----------
    raw, run, single, places, constant : Value
        A plane's 31 bits; a run of several planes; a run of one; one or two places; a plane of
        zeros, or a change of all bits.
    by_length : dict of int to Value
        The same kinds by the bits that their codes have.
    """

    def __init__(self, code: Value) -> None:
        first, second, third, fourth = reversed(code[-4:])
        self.raw = first
        self.run = ~first & second
        self.single = ~first & ~second & third
        self.places = ~first & ~second & ~third & fourth
        self.constant = ~first & ~second & ~third & ~fourth
        self.by_length = {
            PLANE_CODE_BITS: self.raw,
            RUN_CODE_BITS: self.run,
            3: self.single,
            10: self.places,
            5: self.constant,
        }


def or_of(values: Iterable[Value]) -> Value:
    """Or of values; at least one."""
    return reduce(or_, values)


def _pairs(bits: Value) -> Value:
    """Tell of each two bits, from the lowest on, if one is set."""
    return Cat(bits[low : low + 2].any() for low in range(0, len(bits), 2))


def _has_several(bits: Value) -> Value:
    """Tell if more than one bit is set: by halves, each with one, or one with several."""

    def counted(part: Value) -> tuple[Value, Value]:
        if len(part) == 1:
            return part, C(0, 1)
        (low_any, low_several), (high_any, high_several) = (
            counted(half) for half in (part[: len(part) // 2], part[len(part) // 2 :])
        )
        return low_any | high_any, low_several | high_several | low_any & high_any

    return counted(bits)[1]
