"""A step of the decoding of BPC: several codes in one cycle."""

from amaranth.hdl import C, Cat, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.hw.codec.bpc.code_readers import (
    BASE_CODE_BITS,
    BASE_LENGTHS,
    PLANE_CODE_BITS,
    PLANE_LENGTHS,
    BaseCodeReader,
    PlaneCodeReader,
)
from cdma.hw.codec.entry.payloads import ENTRY_BITS

STEP_CODES = 4
"""Codes that are read in a cycle; the base's counts as one."""
CODES = 1 + PLANES
STEPS = -(-CODES // STEP_CODES)


class StepReader(wiring.Component):
    """Reads a step's codes, and finds the first that is bad or goes beyond the end.

    Each code's length determines the start of the next one, a choice of six places in a window that
    gets shorter. What is behind an error is read as well, and means nothing.

    Latency: 0 cycles.

    Parameters
    ----------
    first : int
        The first of the steps that this reads. 0: it reads bases too. The last step of all has
        fewer codes than others.

    Members
    -------
    starts : `In(1)`
        The step's first code is the base's, which stands for a plane of zeros inside a run: the
        planes' inputs are those of one. Only if `first` is 0.
    code : `In(window_bits)`
        The next bits; the first is the highest.
    left : `In(range(1025))`
        Bits up to the end of what there is.
    position : `In(range(1025))`
        Bits that were read before.
    above, run_left, after_run, room : `In(31)`, `In(range(33))`, `In(1)`, `In(range(35))`
        Of the step's first plane, as in `PlaneCodeReader`.
    length : `Out(range(window_bits + 1))`
        Bits that the codes have.
    left_behind : `Out(range(1025))`
        Bits that are left.
    next_position : `Out(range(1025))`
        Bits that were read, up to an error.
    fails, truncated : `Out(1)`
        There is an error; the first one is that bits are missing.
    base : `Out(32)`
        Only if `first` is 0, and meant if `starts`.
    planes : `Out(31 * codes)`
        The latest in the low bits.
    next_run_left, next_after_run : `Out(range(33))`, `Out(1)`
        For the next step.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.codes = min(STEP_CODES, CODES - first * STEP_CODES)
        self.window_bits = self.codes * PLANE_CODE_BITS + (first == 0)
        super().__init__(
            {
                **({} if first else {"starts": In(1)}),
                "code": In(self.window_bits),
                "left": In(range(ENTRY_BITS + 1)),
                "position": In(range(ENTRY_BITS + 1)),
                "above": In(DELTAS),
                "run_left": In(range(PLANES)),
                "after_run": In(1),
                "room": In(range(CODES + 1)),
                "length": Out(range(self.window_bits + 1)),
                "left_behind": Out(range(ENTRY_BITS + 1)),
                "next_position": Out(range(ENTRY_BITS + 1)),
                "fails": Out(1),
                "truncated": Out(1),
                **({} if first else {"base": Out(32)}),
                "planes": Out(self.codes * DELTAS),
                "next_run_left": Out(range(PLANES)),
                "next_after_run": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        window: Value = self.code
        above, run_left, after_run = self.above, self.run_left, self.after_run
        total: Value = C(0)
        before: list[Value] = []
        planes: list[Value] = []
        exceeds = Signal(self.codes)
        wrong = Signal(self.codes)
        for j in range(self.codes):
            m.submodules[f"plane_code_{j}"] = plane_code = PlaneCodeReader()
            length = Signal(range(BASE_CODE_BITS + 1), name=f"length_{j}")
            m.d.comb += [
                plane_code.code.eq(window[len(window) - PLANE_CODE_BITS :]),
                plane_code.above.eq(above),
                plane_code.run_left.eq(run_left),
                plane_code.after_run.eq(after_run),
                plane_code.room.eq(self.room - j),
                length.eq(plane_code.length),
                wrong[j].eq(plane_code.bad),
            ]
            lengths: tuple[int, ...] = PLANE_LENGTHS
            if self.first == 0 and j == 0:
                lengths = tuple(sorted({*BASE_LENGTHS, *PLANE_LENGTHS}))
                m.submodules.base_code = base_code = BaseCodeReader()
                m.d.comb += [
                    base_code.code.eq(window[len(window) - BASE_CODE_BITS :]),
                    self.base.eq(base_code.base),
                ]
                with m.If(self.starts):
                    m.d.comb += [length.eq(base_code.length), wrong[j].eq(base_code.bad)]
            above, run_left = plane_code.plane, plane_code.next_run_left
            after_run = plane_code.next_after_run
            planes.append(above)

            # What is behind the code, as far as the step's other codes may need it.
            if j + 1 < self.codes:
                width = (self.codes - 1 - j) * PLANE_CODE_BITS
                behind = Signal(width, name=f"window_{j + 1}")
                with m.Switch(length):
                    for bits in lengths:
                        with m.Case(bits):
                            end = len(window) - bits
                            m.d.comb += behind.eq(window[end - width : end])
                window = behind

            so_far = Signal.like(self.length, name=f"total_{j}")
            left = Signal(signed(len(self.left) + 1), name=f"left_{j}")
            m.d.comb += [
                so_far.eq(total + length),
                left.eq(self.left - so_far),
                exceeds[j].eq(left < 0),
            ]
            before.append(total)
            total = so_far

        fails = Signal(self.codes)
        m.d.comb += [
            fails.eq(exceeds | wrong),
            self.fails.eq(fails.any()),
            self.length.eq(total),
            self.left_behind.eq(left),
            self.next_position.eq(self.position + total),
            self.planes.eq(Cat(reversed(planes))),
            self.next_run_left.eq(run_left),
            self.next_after_run.eq(after_run),
        ]
        for j in reversed(range(self.codes)):
            with m.If(fails[j]):
                m.d.comb += [
                    self.next_position.eq(self.position + before[j]),
                    self.truncated.eq(exceeds[j]),
                ]
        return m
