"""The planes of BPC from the codes of a step, and the first error in them."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.hw.codec.bpc.code_readers import PLANE_CODE_BITS, PlaneCodeReader
from cdma.hw.codec.entry.payloads import ENTRY_BITS


class PlaneBuilder(wiring.Component):
    """Builds the planes of some codes, and finds the first code that is bad or goes beyond the end.

    Latency: 0 cycles.

    Parameters
    ----------
    codes : int
        How many there are.

    Members
    -------
    code : `In(32 * codes)`, `in_run` : `In(codes)`
        As `codes` and `in_run` of `StepReader`.
    left : `In(range(1025))`
        Bits from the first code to the end of what there is.
    above, after_run, room : `In(31)`, `In(1)`, `In(range(34))`
        Of the first plane, as in `PlaneCodeReader`.
    planes : `Out(31 * codes)`
        The latest in the low bits.
    next_after_run : `Out(1)`
        For the plane behind these.
    fails : `Out(codes)`
        For each code whether the first error is there.
    truncated : `Out(1)`
        That error is that bits are missing.
    places : `Out(ArrayLayout(range(32 * codes + 1), codes + 1))`
        Where each code starts, and the last one ends, in bits from the first.
    """

    def __init__(self, codes: int) -> None:
        self.codes = codes
        super().__init__(
            {
                "code": In(PLANE_CODE_BITS * codes),
                "in_run": In(codes),
                "left": In(range(ENTRY_BITS + 1)),
                "above": In(DELTAS),
                "after_run": In(1),
                "room": In(range(PLANES + 1)),
                "planes": Out(DELTAS * codes),
                "next_after_run": Out(1),
                "fails": Out(codes),
                "truncated": Out(1),
                "places": Out(data.ArrayLayout(range(PLANE_CODE_BITS * codes + 1), codes + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        above, after_run = self.above, self.after_run
        planes: list[Value] = []
        lengths: list[Value] = []
        wrong = Signal(self.codes)
        exceeds = Signal(self.codes)
        for k in range(self.codes):
            m.submodules[f"plane_code_{k}"] = plane_code = PlaneCodeReader()
            m.d.comb += [
                plane_code.code.eq(self.code.word_select(k, PLANE_CODE_BITS)),
                plane_code.in_run.eq(self.in_run[k]),
                plane_code.above.eq(above),
                plane_code.after_run.eq(after_run),
                plane_code.room.eq(self.room - k),
                wrong[k].eq(plane_code.bad),
            ]
            above, after_run = plane_code.plane, plane_code.next_after_run
            planes.append(above)
            lengths.append(plane_code.length)
            end = self.places[k + 1]
            m.d.comb += [end.eq(_sum(lengths)), exceeds[k].eq(end > self.left)]

        failing = Signal(self.codes)
        m.d.comb += [
            failing.eq(exceeds | wrong),
            self.fails.eq(failing & (~failing + 1)),
            self.truncated.eq((self.fails & exceeds).any()),
            self.planes.eq(Cat(reversed(planes))),
            self.next_after_run.eq(after_run),
        ]
        return m


def _sum(values: Sequence[Value]) -> Value:
    """Sum of values, half and half."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return _sum(values[:half]) + _sum(values[half:])
