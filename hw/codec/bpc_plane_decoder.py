"""From BPC codes to bases and planes, four planes at a time."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.bit_planes import DELTAS, PLANES
from golden.bpc import MAX_CODE_BITS
from golden.entry import ENTRY_BYTES
from golden.stream import StreamStatus
from hw.codec.bpc_code_readers import (
    BASE_CODE_BITS,
    BASE_LENGTHS,
    PLANE_CODE_BITS,
    PLANE_LENGTHS,
    BaseCodeReader,
    PlaneCodeReader,
)
from hw.codec.payloads import ENTRY_BITS, STATUS_BITS
from hw.config import EntryConfig

STEP_CODES = 4
"""Codes that are read in a cycle; the base's counts as one."""
CODES = 1 + PLANES
STEPS = -(-CODES // STEP_CODES)
_FILL_BITS = 7
"""At most, behind a code and in its last byte."""


class SizedCode(data.StructLayout):
    """A code and what there is of it.

    Members
    -------
    data
        Bytes, the first in the low bits; the first bit of the code is bit 7 of its byte.
    size
        How many bytes there are. What is behind them is not looked at.
    """

    def __init__(self) -> None:
        super().__init__({"data": ENTRY_BITS, "size": range(ENTRY_BYTES + 1)})


class DecodedPlanes(data.StructLayout):
    """An entry as a base and 33 planes; see `golden.bit_planes`.

    Members
    -------
    base
        The first word.
    planes
        Plane p (DBP_p) is at bit 31 p. Unspecified, as is the base, if the code is bad.
    bits
        Length of the code up to its end or the first error.
    status
        A `golden.stream.StreamStatus`; that the planes are those of words is not checked.
    offset
        The byte that the bad code, or the bad fill, starts in; 0 when OK.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "base": 32,
                "planes": PLANES * DELTAS,
                "bits": range(MAX_CODE_BITS + 1),
                "status": STATUS_BITS,
                "offset": range(ENTRY_BYTES + 1),
            }
        )


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
    return min(ENTRY_BITS, codes * PLANE_CODE_BITS + _FILL_BITS + (steps == 0))


def _planes_read(steps: int) -> int:
    return min(CODES, steps * STEP_CODES) - 1


class PlaneSteps(wiring.Component):
    """Some of the steps, one after the other on the same hardware.

    Within a step each code's length tells where the next one starts, a choice of six places in a
    short window; all of the rest moves once, by their sum. Whether the codes are right is found
    beside this.

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
        codes = min(STEP_CODES, CODES - self.first * STEP_CODES)
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
        step = Signal(range(steps))
        rest = Signal(rest_bits)
        left = Signal.like(held_left, name="left")
        position = Signal.like(held_position, name="position")
        failed = Signal()
        truncated = Signal()
        earlier_base = Signal(32)
        earlier_planes = Signal(planes_bits)
        run_left: Value = Signal.like(held_run_left, name="run_left")
        after_run: Value = Signal()
        with m.If(loads):
            m.d.comb += [
                rest.eq(given.rest),
                left.eq(given.left),
                position.eq(given.position),
                failed.eq(given.failed),
                truncated.eq(given.truncated),
            ]
            if self.first:
                m.d.comb += [
                    earlier_base.eq(given.base),
                    earlier_planes.eq(given.planes),
                    run_left.eq(given.run_left),
                    after_run.eq(given.after_run),
                ]
        if steps > 1:
            with m.Else():
                m.d.comb += [
                    step.eq(done),
                    rest.eq(Cat(C(0, rest_bits - held_bits), held_rest)),
                    left.eq(held_left),
                    position.eq(held_position),
                    failed.eq(held_failed),
                    truncated.eq(held_truncated),
                    earlier_base.eq(held_base),
                    earlier_planes.eq(held_planes),
                    run_left.eq(held_run_left),
                    after_run.eq(held_after_run),
                ]
        above: Value = earlier_planes[:DELTAS]

        # Each code, and what it leaves for the next.
        window = rest[rest_bits - codes * PLANE_CODE_BITS - (self.first == 0) :]
        total: Value = C(0)
        totals = []
        exceeds = Signal(codes)
        wrong = Signal(codes)
        planes: list[Value] = []
        base: Value = earlier_base
        for j in range(codes):
            length = Signal(range(BASE_CODE_BITS + 1), name=f"length_{j}")
            if self.first == 0 and j == 0:
                m.submodules.base_code = base_code = BaseCodeReader()
                m.d.comb += base_code.code.eq(window[len(window) - BASE_CODE_BITS :])
                base = Mux(loads, base_code.base, earlier_base)
            if self.first or j or steps > 1:
                m.submodules[f"plane_code_{j}"] = plane_code = PlaneCodeReader()
                m.d.comb += [
                    plane_code.code.eq(window[len(window) - PLANE_CODE_BITS :]),
                    plane_code.above.eq(above),
                    plane_code.run_left.eq(run_left),
                    plane_code.after_run.eq(after_run),
                    plane_code.room.eq(CODES - self.first * STEP_CODES - j - (step << 2)),
                ]
            if self.first or j:
                m.d.comb += [length.eq(plane_code.length), wrong[j].eq(plane_code.bad)]
                above, run_left = plane_code.plane, plane_code.next_run_left
                after_run = plane_code.next_after_run
                planes.append(above)
            elif steps == 1:
                m.d.comb += [length.eq(base_code.length), wrong[j].eq(base_code.bad)]
            else:
                # The first step's first code is the base's, and no plane is behind it.
                m.d.comb += [
                    length.eq(Mux(loads, base_code.length, plane_code.length)),
                    wrong[j].eq(Mux(loads, base_code.bad, plane_code.bad)),
                ]
                above = Signal(DELTAS, name="first_above")
                run_left = Signal.like(run_left, name="first_run_left")
                after_run = Signal(name="first_after_run")
                with m.If(~loads):
                    m.d.comb += [
                        above.eq(plane_code.plane),
                        run_left.eq(plane_code.next_run_left),
                        after_run.eq(plane_code.next_after_run),
                    ]
                planes.append(above)

            so_far = Signal(range(STEP_CODES * PLANE_CODE_BITS + 2), name=f"total_{j}")
            left_behind = Signal(signed(len(left) + 1), name=f"left_behind_{j}")
            m.d.comb += [
                so_far.eq(total + length),
                left_behind.eq(left - so_far),
                exceeds[j].eq(left_behind < 0),
            ]
            totals.append(total)
            total = so_far
            if j + 1 < codes:
                remaining = (codes - 1 - j) * PLANE_CODE_BITS
                behind = Signal(remaining, name=f"window_{j + 1}")
                lengths = BASE_LENGTHS if self.first == 0 and j == 0 else ()
                if self.first or j or steps > 1:
                    lengths = (*lengths, *PLANE_LENGTHS)
                with m.Switch(length):
                    for bits in lengths:
                        with m.Case(bits):
                            start = len(window) - bits
                            m.d.comb += behind.eq(window[start - remaining : start])
                window = behind

        # The first error ends it; what is moved and read behind that does not matter.
        next_position = Signal.like(position, name="next_position")
        next_failed = Signal()
        next_truncated = Signal()
        fails = Signal(codes)
        m.d.comb += [
            fails.eq(exceeds | wrong),
            next_failed.eq(failed | fails.any()),
            next_position.eq(position + total),
        ]
        with m.If(failed):
            m.d.comb += [next_position.eq(position), next_truncated.eq(truncated)]
        for j, before in enumerate(totals):
            with m.Elif(fails[j]):
                m.d.comb += [next_position.eq(position + before), next_truncated.eq(exceeds[j])]

        moved = Signal(rest_bits)
        m.d.comb += moved.eq(rest << total)
        works = Signal()
        m.d.comb += works.eq(takes | ~loads)
        with m.If(works):
            m.d.sync += [
                done.eq(step + 1),
                held_rest.eq(moved[rest_bits - held_bits :]),
                held_left.eq(left_behind),
                held_position.eq(next_position),
                held_failed.eq(next_failed),
                held_truncated.eq(next_truncated),
                held_base.eq(base),
                held_planes.eq(Cat(*reversed(planes), earlier_planes)),
                held_run_left.eq(run_left),
                held_after_run.eq(after_run),
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


class BpcPlaneDecoder(wiring.Component):
    """Decodes a code per `sectors` cycles, whole or damaged, as `golden.bpc_decoder` does.

    `STEP_CODES` codes are read in a cycle, the base's and those of three planes in the first. Steps
    stand in a row, and where there are more cycles per entry, as many of them share one hardware.

    Latency: `STEPS` = 9 cycles. Throughput: an entry per `sectors` cycles.

    Resources: for sectors of 128, 64 and 32 B, readers for 34, 18 and 10 codes, and registers for
    9, 5 and 3 entries.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    i : `In(stream.Signature(SizedCode()))`
    o : `Out(stream.Signature(DecodedPlanes()))`
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(SizedCode())),
                "o": Out(stream.Signature(DecodedPlanes())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sectors = self.config.sectors
        code = self.i.payload

        upstream = None
        for group, first in enumerate(range(0, STEPS, sectors)):
            steps = PlaneSteps(first, min(STEPS, first + sectors))
            m.submodules[f"steps_{group}"] = steps
            if upstream is None:
                entering = steps.i.payload
                m.d.comb += [
                    steps.i.valid.eq(self.i.valid),
                    self.i.ready.eq(steps.i.ready),
                    # The first byte, and of each byte the first bit, are now the highest.
                    entering.rest.eq(
                        Cat(code.data.word_select(k, 8) for k in reversed(range(ENTRY_BYTES)))
                    ),
                    entering.left.eq(code.size << 3),
                ]
            else:
                wiring.connect(m, upstream, steps.i)
            upstream = steps.o
        assert upstream is not None

        read = upstream.payload
        out = self.o.payload
        # As many bits of the rest as there are up to the next byte.
        fill = Signal(_FILL_BITS)
        m.d.comb += [
            fill.eq(read.rest >> ~read.left[:3]),
            self.o.valid.eq(upstream.valid),
            upstream.ready.eq(self.o.ready),
            out.base.eq(read.base),
            out.planes.eq(read.planes),
            out.bits.eq(read.position),
        ]
        with m.If(read.failed):
            m.d.comb += [
                out.status.eq(
                    Mux(read.truncated, StreamStatus.PAYLOAD_TRUNCATED, StreamStatus.BAD_TOKEN)
                ),
                out.offset.eq(read.position[3:]),
            ]
        with m.Elif(fill.any()):
            m.d.comb += [
                out.status.eq(StreamStatus.NONZERO_FILL),
                out.offset.eq(read.position[3:]),
            ]
        return m
