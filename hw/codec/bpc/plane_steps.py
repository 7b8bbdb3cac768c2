"""The decoding of BPC's planes: steps in a row, or one after the other on the same hardware."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.hw.codec.bpc.code_readers import PLANE_CODE_BITS, PlaneCodeKind, or_of
from cdma.hw.codec.bpc.plane_builder import PlaneBuilder
from cdma.hw.codec.bpc.step_reader import BLOCK_BITS, STEP_CODES, VIEW_BITS, StepReader
from cdma.hw.codec.entry.payloads import CODE_BYTES, ENTRY_BITS

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
        Bits from the start of the block that the next code starts in, the first the highest; no
        more than may matter.
    position
        Where the next code starts, in the whole code.
    not_high
        The complement of the highest bit of the place in the block: see `StepReader`.
    place_again, not_high_again
        The place in the block and that complement once more.
    size
        How many bytes there are of the code.
    failed, truncated
        There was an error: a code that goes beyond the end, or else a bad one. It was looked for in
        the base's code and in those of the planes that are built.
    base
        The first word.
    codes, in_run
        What the last step has found, as in `StepReader`; planes are built a step later.
    start, before_error
        Where those codes start; after an error, those that it is in, and how many bits of them are
        before it.
    run_left, after_run
        In front of those codes, as in `StepReader` and `PlaneCodeReader`.
    planes
        Those of the other steps, the latest in the low bits.
    """

    def __init__(self, steps: int) -> None:
        super().__init__(_members(rest_bits(steps), steps))


def rest_bits(steps: int) -> int:
    """Bits of the rest after some steps: all before the next code are those of its block."""
    codes = PLANES - steps * STEP_CODES
    return min(8 * CODE_BYTES, BLOCK_BITS - 1 + codes * PLANE_CODE_BITS + FILL_BITS)


def _members(rest: int, steps: int) -> dict[str, Any]:
    members: dict[str, Any] = {
        "rest": rest,
        "position": range(ENTRY_BITS + 1),
        "not_high": 1,
        "place_again": range(BLOCK_BITS),
        "not_high_again": 1,
        "size": range(CODE_BYTES + 1),
        "failed": 1,
        "truncated": 1,
        "base": 32,
    }
    if steps:
        members |= {
            "codes": STEP_CODES * PLANE_CODE_BITS,
            "in_run": STEP_CODES,
            "start": range(ENTRY_BITS + 1),
            "before_error": range(BLOCK_BITS - PLANE_CODE_BITS + 1),
            "run_left": range(PLANES),
            "after_run": 1,
            "planes": (steps - 1) * STEP_CODES * DELTAS,
        }
    return members


class PlaneSteps(wiring.Component):
    """Some of the steps, one after the other on the same hardware.

    A step finds the codes of some planes, and builds those of the step before it. The rest of the
    code moves by blocks: once a step by none or by one.

    Latency: as many cycles as steps. Throughput: an entry in each as many cycles.

    Parameters
    ----------
    first, last : int
        The steps, without the last one.

    Members
    -------
    i : `In(stream.Signature(PartlyRead(first)))`
    o : `Out(stream.Signature(PartlyRead(last)))`
    empty : `Out(1)`
        There is no entry.
    """

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last
        super().__init__(
            {
                "i": In(stream.Signature(PartlyRead(first))),
                "o": Out(stream.Signature(PartlyRead(last))),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        given = self.i.payload
        steps = self.last - self.first

        # How many of the steps are done: none if there is no entry.
        done = Signal(range(steps + 1))
        full = Signal()
        loads = Signal()
        takes = Signal()
        m.d.comb += [
            self.empty.eq(done == 0),
            full.eq(done == steps),
            loads.eq(self.empty | full),
            self.i.ready.eq(self.empty | self.o.ready & full),
            self.o.valid.eq(full),
            takes.eq(self.i.ready & self.i.valid),
        ]

        # What the step starts from: of the hardware's first step what is given, of others what is
        # held; nothing was found before the first of all.
        layout = data.StructLayout(_members(rest_bits(self.first), self.last))
        held = Signal(layout, reset_less=True)
        state = Signal(layout)
        step = Signal(range(steps))
        is_first = Signal()
        with m.If(loads):
            m.d.comb += _taken_over(state, given)
            m.d.comb += is_first.eq(self.first == 0)
        if steps > 1:
            with m.Else():
                m.d.comb += [state.eq(held), step.eq(done)]

        m.submodules.reader = reader = StepReader()
        m.d.comb += [
            reader.view.eq(state.rest[-VIEW_BITS:]),
            reader.place.eq(state.position),
            reader.not_high.eq(state.not_high),
            reader.place_again.eq(state.place_again),
            reader.not_high_again.eq(state.not_high_again),
        ]
        next_state = Signal(layout)
        blocks = state.position[len(reader.place) :]
        m.d.comb += [
            next_state.position.eq(Cat(reader.next_place, blocks + reader.moves)),
            next_state.not_high.eq(~reader.next_place[-1]),
            next_state.place_again.eq(reader.next_place),
            next_state.not_high_again.eq(~reader.next_place[-1]),
            next_state.size.eq(state.size),
            next_state.base.eq(state.base),
            next_state.codes.eq(reader.codes),
            next_state.in_run.eq(reader.in_run),
            next_state.run_left.eq(reader.run_left),
            next_state.failed.eq(state.failed),
            next_state.truncated.eq(state.truncated),
            next_state.start.eq(state.start),
            next_state.before_error.eq(state.before_error),
        ]
        with m.If(is_first & ~state.failed):
            m.d.comb += next_state.start.eq(state.position)
        if self.last > 1:
            m.submodules.builder = builder = PlaneBuilder(STEP_CODES)
            m.d.comb += [
                builder.code.eq(state.codes),
                builder.in_run.eq(state.in_run),
                builder.left.eq((state.size << 3) - state.start),
                builder.room.eq(PLANES - STEP_CODES * (self.first - 1 + step)),
                builder.above.eq(state.planes[:DELTAS]),
                builder.after_run.eq(state.after_run),
            ]
            with m.If(~is_first):
                m.d.comb += [
                    reader.run_left.eq(run_left_behind(m, state)),
                    next_state.planes.eq(Cat(builder.planes, state.planes)),
                    next_state.after_run.eq(builder.next_after_run),
                ]
                with m.If(~state.failed):
                    m.d.comb += [
                        next_state.failed.eq(builder.fails.any()),
                        next_state.truncated.eq(builder.truncated),
                        next_state.before_error.eq(
                            or_of(
                                fails.replicate(len(next_state.before_error)) & place
                                for fails, place in zip(builder.fails, builder.places, strict=False)
                            )
                        ),
                        next_state.start.eq(Mux(builder.fails.any(), state.start, state.position)),
                    ]

        works = Signal()
        m.d.comb += [works.eq(takes | ~loads), reader.works.eq(works)]
        with m.If(works):
            m.d.sync += [done.eq(step + 1), held.eq(next_state)]
        with m.Elif(self.i.ready):
            m.d.sync += done.eq(0)
        # Loaded if there is nothing to load, too: registers with the same enable would be merged.
        with m.If(self.i.ready | ~loads):
            m.d.sync += [
                held.place_again.eq(next_state.place_again),
                held.not_high_again.eq(next_state.not_high_again),
            ]

        # Of the rest, each step needs less: its highest bits. That it moves is known last, so
        # whether it is kept is decided in front of that; by gates, of which Yosys makes no enable.
        unneeded = rest_bits(self.first) - rest_bits(self.first + 1)
        needed = len(state.rest) - unneeded
        still = Signal(needed)
        moved = (state.rest << BLOCK_BITS)[unneeded : unneeded + needed]
        m.d.comb += still.eq(
            works.replicate(needed) & state.rest[unneeded:]
            | (~works).replicate(needed) & held.rest[unneeded:]
        )
        m.d.sync += held.rest[unneeded:].eq(Mux(reader.moves, moved, still))
        m.d.comb += _taken_over(self.o.payload, held)
        return m


def _taken_over(target: data.View, source: data.View) -> list[Any]:
    """Copy what both have: of the rest the first bits, of planes the latest."""
    members = [
        name for name, _ in source.shape() if name in dict(target.shape()) and name != "rest"
    ]
    width = min(len(target.rest), len(source.rest))
    return [
        *(target[name].eq(source[name]) for name in members),
        target.rest[len(target.rest) - width :].eq(source.rest[len(source.rest) - width :]),
    ]


def run_left_behind(m: Module, state: data.View) -> Value:
    """Planes that the last run still has behind the codes of a step."""
    left = Signal(range(PLANES), name="run_left")
    with m.If(state.run_left >= STEP_CODES):
        m.d.comb += left.eq(state.run_left - STEP_CODES)
    for k in range(STEP_CODES):
        code = state.codes.word_select(k, PLANE_CODE_BITS)
        # Planes of the run that are in the step, without the two that each has at least.
        within = STEP_CODES - k - 2
        number = code[25:30]
        with m.If(PlaneCodeKind(code).run & ~state.in_run[k]):
            m.d.comb += left.eq(
                Mux(number >= within, number - within, 0) if within > 0 else number - within
            )
    return left
