"""Single codes of BPC, read from the bits that come next, by the table of `cdma.golden`'s BPC."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES

BASE_LENGTHS = (3, 7, 11, 19, 33)
PLANE_LENGTHS = (0, 3, 5, 7, 10, 32)
"""Bits that codes have; none inside a run."""
BASE_CODE_BITS = max(BASE_LENGTHS)
PLANE_CODE_BITS = max(PLANE_LENGTHS)


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
    """Reads the code of a plane, unless the plane is inside a run.

    Latency: 0 cycles.

    Members
    -------
    code : `In(32)`
        The next bits; the first is the highest.
    above : `In(31)`
        The plane (DBP) before this one; zero for the first.
    run_left : `In(range(33))`
        Planes, from this one on, that the last run still has: without a code, and as `above`.
    after_run : `In(1)`
        The last code was a run's.
    room : `In(range(34))`
        Planes from this one to the last.
    length : `Out(range(33))`
        Bits that the code has: 3, 5, 7, 10 or 32; 0 inside a run.
    plane : `Out(31)`
        This plane.
    next_run_left : `Out(range(33))`
    next_after_run : `Out(1)`
        For the plane behind this one.
    bad : `Out(1)`
        The table does not have this code here.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "code": In(PLANE_CODE_BITS),
                "above": In(DELTAS),
                "run_left": In(range(PLANES)),
                "after_run": In(1),
                "room": In(range(PLANES + 1)),
                "length": Out(range(PLANE_CODE_BITS + 1)),
                "plane": Out(DELTAS),
                "next_run_left": Out(range(PLANES)),
                "next_after_run": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        code, above = self.code, self.above
        all_ones = (1 << DELTAS) - 1

        # Where the numbers are, in the codes that have them.
        raw = code[:DELTAS]
        run_field = code[25:30]
        place = code[22:27]
        alone = Signal(DELTAS)
        pair = Signal(DELTAS)
        # Another code has a raw plane that is zero, of a single one, of two neighbors, or all ones.
        lowest = Signal(DELTAS)
        has_shorter = Signal()
        m.d.comb += [
            alone.eq(1 << place),
            pair.eq(alone | alone << 1),
            lowest.eq(raw & (~raw + 1)),
            has_shorter.eq((raw == lowest) | (raw == (lowest | lowest << 1)) | raw.all()),
        ]

        inside = Signal()
        plane = Signal(DELTAS)
        run = Signal.like(self.next_run_left)
        wrong = Signal()
        m.d.comb += inside.eq(self.run_left != 0)
        with m.If(inside):
            m.d.comb += [
                plane.eq(above),
                run.eq(self.run_left - 1),
                self.next_after_run.eq(self.after_run),
            ]
        with m.Elif(code[31]):
            m.d.comb += [
                self.length.eq(32),
                plane.eq(above ^ raw),
                wrong.eq(has_shorter | ~plane.any()),
            ]
        with m.Elif(code[29:31] != 0):
            m.d.comb += [
                self.length.eq(Mux(code[30], 7, 3)),
                plane.eq(above),
                run.eq(Mux(code[30], run_field + 1, 0)),
                self.next_after_run.eq(1),
                wrong.eq(self.after_run | (run >= self.room)),
            ]
        with m.Elif(code[28]):
            m.d.comb += [
                self.length.eq(10),
                plane.eq(above ^ Mux(code[27], alone, pair)),
                # A single one has 31 places, two neighbors have 30.
                wrong.eq((place[1:].all() & (place[0] | ~code[27])) | ~plane.any()),
            ]
        with m.Elif(code[27]):
            m.d.comb += [self.length.eq(5), plane.eq(0), wrong.eq(~above.any())]
        with m.Else():
            m.d.comb += [self.length.eq(5), plane.eq(above ^ all_ones), wrong.eq(~plane.any())]

        m.d.comb += [self.plane.eq(plane), self.next_run_left.eq(run), self.bad.eq(wrong)]
        return m
