"""The decoding of BPC's planes: steps in a row, or one after the other on the same hardware."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.hw.codec.bpc.code_readers import PLANE_CODE_BITS
from cdma.hw.codec.bpc.step_reader import CODES, STEP_CODES, StepReader
from cdma.hw.codec.entry.payloads import ENTRY_BITS

FILL_BITS = 7
"""At most, behind a code and in its last byte."""


class PartlyRead(data.StructLayout):
    """A code of which some steps are done.

    Parameters
    ----------
    steps
        How many.

    Members
    -------
    rest
        Bits that were not read yet, the first the highest; no more than may matter.
    left
        How many there are up to the end of what there is; unspecified after an error.
    position
        How many were read, before the first error.
    failed, truncated
        There was an error: a code that goes beyond the end, or else a bad one.
    base, planes, run_left, after_run
        What was read, the latest plane in the low bits, and as in `PlaneCodeReader`. None of them
        before the first step.
    """

    def __init__(self, steps: int) -> None:
        members: dict[str, Any] = {
            "rest": _rest_bits(steps),
            "left": range(ENTRY_BITS + 1),
            "position": range(ENTRY_BITS + 1),
            "failed": 1,
            "truncated": 1,
        }
        if steps:
            members |= {
                "base": 32,
                "planes": _planes_read(steps) * DELTAS,
                "run_left": range(PLANES),
                "after_run": 1,
            }
        super().__init__(members)


def _rest_bits(steps: int) -> int:
    codes = max(0, CODES - steps * STEP_CODES)
    return min(ENTRY_BITS, codes * PLANE_CODE_BITS + FILL_BITS + (steps == 0))


def _planes_read(steps: int) -> int:
    return min(CODES, steps * STEP_CODES) - 1


class PlaneSteps(wiring.Component):
    """Some of the steps, one after the other on the same hardware.

    The rest of the code moves once a cycle, by the length of all that was read.

    Latency: as many cycles as steps. Throughput: an entry in each as many cycles.

    Parameters
    ----------
    first, last : int
        The steps, without the last one.

    Members
    -------
    i : `In(stream.Signature(PartlyRead(first)))`
    o : `Out(stream.Signature(PartlyRead(last)))`
    """

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last
        super().__init__(
            {
                "i": In(stream.Signature(PartlyRead(first))),
                "o": Out(stream.Signature(PartlyRead(last))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        given = self.i.payload
        steps = self.last - self.first
        rest_bits = _rest_bits(self.first)
        held_bits = _rest_bits(self.first + 1)
        planes_bits = _planes_read(self.last) * DELTAS

        # How many of the steps are done: none if there is no entry.
        done = Signal(range(steps + 1))
        empty = Signal()
        full = Signal()
        loads = Signal()
        takes = Signal()
        m.d.comb += [
            empty.eq(done == 0),
            full.eq(done == steps),
            loads.eq(empty | full),
            self.i.ready.eq(empty | self.o.ready & full),
            self.o.valid.eq(full),
            takes.eq(self.i.ready & self.i.valid),
        ]

        held_rest = Signal(held_bits, reset_less=True)
        held_left = Signal.like(given.left, name="held_left", reset_less=True)
        held_position = Signal.like(given.position, name="held_position", reset_less=True)
        held_failed = Signal(reset_less=True)
        held_truncated = Signal(reset_less=True)
        held_base = Signal(32, reset_less=True)
        held_planes = Signal(planes_bits, reset_less=True)
        held_run_left = Signal(range(PLANES), reset_less=True)
        held_after_run = Signal(reset_less=True)

        # What the step starts from.
        m.submodules.reader = reader = StepReader(self.first)
        step = Signal(range(steps))
        rest = Signal(rest_bits)
        failed = Signal()
        truncated = Signal()
        base = Signal(32)
        planes = Signal(planes_bits)
        m.d.comb += [
            reader.code.eq(rest[rest_bits - reader.window_bits :]),
            reader.above.eq(planes[:DELTAS]),
            reader.room.eq(CODES - STEP_CODES * (self.first + step)),
        ]
        with m.If(loads):
            m.d.comb += [
                rest.eq(given.rest),
                failed.eq(given.failed),
                truncated.eq(given.truncated),
                reader.left.eq(given.left),
                reader.position.eq(given.position),
            ]
            if self.first == 0:
                m.d.comb += [reader.starts.eq(1), base.eq(reader.base), reader.run_left.eq(1)]
            else:
                m.d.comb += [
                    base.eq(given.base),
                    planes.eq(given.planes),
                    reader.run_left.eq(given.run_left),
                    reader.after_run.eq(given.after_run),
                ]
        if steps > 1:
            with m.Else():
                m.d.comb += [
                    step.eq(done),
                    rest.eq(Cat(C(0, rest_bits - held_bits), held_rest)),
                    failed.eq(held_failed),
                    truncated.eq(held_truncated),
                    base.eq(held_base),
                    planes.eq(held_planes),
                    reader.left.eq(held_left),
                    reader.position.eq(held_position),
                    reader.run_left.eq(held_run_left),
                    reader.after_run.eq(held_after_run),
                ]

        moved = Signal(rest_bits)
        m.d.comb += moved.eq(rest << reader.length)
        works = Signal()
        m.d.comb += works.eq(takes | ~loads)
        with m.If(works):
            m.d.sync += [
                done.eq(step + 1),
                held_rest.eq(moved[rest_bits - held_bits :]),
                held_left.eq(reader.left_behind),
                held_position.eq(Mux(failed, reader.position, reader.next_position)),
                held_failed.eq(failed | reader.fails),
                held_truncated.eq(Mux(failed, truncated, reader.truncated)),
                held_base.eq(base),
                held_planes.eq(Cat(reader.planes, planes)),
                held_run_left.eq(reader.next_run_left),
                held_after_run.eq(reader.next_after_run),
            ]
        with m.Elif(self.i.ready):
            m.d.sync += done.eq(0)

        out = self.o.payload
        m.d.comb += [
            out.rest.eq(held_rest[held_bits - _rest_bits(self.last) :]),
            out.left.eq(held_left),
            out.position.eq(held_position),
            out.failed.eq(held_failed),
            out.truncated.eq(held_truncated),
            out.base.eq(held_base),
            out.planes.eq(held_planes),
            out.run_left.eq(held_run_left),
            out.after_run.eq(held_after_run),
        ]
        return m
