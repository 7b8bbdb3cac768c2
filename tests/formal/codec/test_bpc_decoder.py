"""The planes that `BpcPlaneDecoder` gives are those that its parts find, step after step, in order.

What finds codes and what builds planes is cut out. The solver picks a code, and what these parts
make of it: of a step's first code the place, four codes and the place behind them, the run that is
left, four planes, and where the first error is. Of a part's outputs no more is known than that they
are these if its inputs are those of that step, as the code has them. What a part does with its
inputs is proven of it by itself, in `test_bpc_steps.py` and here. So the proof is about all that is
between: which bits of a code a step sees, what it starts from, and what is kept for later ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import data
from amaranth.lib.wiring import In

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc import last_step, plane_decoder, plane_steps
from cdma.hw.codec.bpc.last_step import LastStep
from cdma.hw.codec.bpc.plane_decoder import BpcPlaneDecoder
from cdma.hw.codec.bpc.plane_steps import PartlyRead, PlaneSteps
from cdma.hw.codec.bpc.step_reader import STEP_CODES, STEPS, StepReader
from cdma.hw.config import EntryConfig
from tests.formal.bench import Bench, Contract, CutOut, anything, anything_at
from tests.formal.broken import break_elaborate, break_function, find_fault
from tests.formal.codec.test_bpc_steps import CODE_BITS, WalkedStep, bits_from, length_of
from tests.formal.order import Order, one
from tests.formal.parts import prove_part
from tests.formal.rules import ALWAYS
from tests.formal.smtbmc import check, prove

SECTORS = (32, 64, 128)
BLOCK = 128
"""Bits that the rest of a code moves by."""
KEPT = 768
"""Bits of the longest code that is kept."""
CHUNK = 128
REGISTERS, REST = "registers", "rest"
"""The subject of a proof: all that goes from step to step but the rest of the code, or that."""
VIEW = 255
FILL = 7
"""Bits behind a code in its last byte, at most."""


@dataclass
class OwnStep:
    """A step of the code that is picked.

    Attributes
    ----------
    place : Value
        Where its first code starts.
    moves : Value
        The next step's first code starts in the next block.
    run_left : Value
        Planes that the last run still has there.
    codes, in_run : Value
        What `StepReader` finds.
    after_run : Value
        The plane before it is of a run.
    planes, fails, truncated, places : Value
        What `PlaneBuilder` makes of the codes.
    """

    place: Value
    moves: Value
    run_left: Value
    codes: Value
    in_run: Value
    after_run: Value
    planes: Value
    fails: Value
    truncated: Value
    places: list[Value]


@dataclass
class OwnError:
    """The first error in front of a step's codes.

    Attributes
    ----------
    there, truncated : Value
        There is one, and it is that bits are missing.
    start, place : Value
        Where the codes that it is in start, and how many bits of them are before it.
    """

    there: Value
    truncated: Value
    start: Value
    place: Value


class OwnCode:
    """A code that the solver picks, and what the parts make of it in some of its steps.

    Of the last of all steps, which is the last plane's, only what is in front of it is meant.

    Parameters
    ----------
    steps : range
        Those whose first codes' places are meant. What is in front of them is anything.

    Attributes
    ----------
    rests : dict of int to Value
        What may matter of the code's bits from the start of a step's block on: the bits, moved by
        a block in each step that moves.
    errors : dict of int to OwnError
        The first error in front of a step's codes.
    """

    def __init__(self, bench: Bench, steps: range) -> None:
        self.bench = bench
        self.bits = self.any(KEPT, "own_bits")
        self.size = self.any(7, "own_size")
        self.base = self.any(32, "own_base")
        self.base_bad = self.any(1, "own_base_bad")
        self.last_plane = self.any(DELTAS, "own_last_plane")
        self.last_bad = self.any(1, "own_last_bad")
        self.end = (self.size << 3)[:10]
        bench.assume(self.size <= KEPT // 8)
        # Planes of earlier steps stay.
        self.steps = {s: self._step(s) for s in range(steps.stop)}
        self.errors: dict[int, OwnError] = {}
        self.rests: dict[int, Value] = {}
        for s in steps:
            if s == 0:
                self._begin()
            elif s == steps.start:
                self.errors[s] = OwnError(
                    self.any(1, f"own_failed_{s}"),
                    self.any(1, f"own_truncated_{s}"),
                    self.any(11, f"own_error_start_{s}"),
                    self.any(8, f"own_error_place_{s}"),
                )
                self.rests[s] = self.any(needed_bits(s), f"own_rest_{s}")
                # So many bits at most are in front of this step's first code, and with no error
                # there, no more than there are.
                bench.assume(
                    self.errors[s].there | (self.steps[s].place <= self.end),
                    self.steps[s].place <= 33 + BLOCK * s,
                    self.errors[s].start <= 33 + BLOCK * s,
                    self.errors[s].place <= BLOCK - CODE_BITS,
                )
            else:
                self._go_on(s)

    def _begin(self) -> None:
        first = self.steps[0]
        # What the theorems of the parts say of their outputs, beside what they are.
        self.bench.assume(first.place <= 33, first.run_left == 0, first.after_run == 0)
        truncated = first.place > self.end
        self.errors[0] = OwnError(truncated | self.base_bad, truncated, Const(0), Const(0))
        self.rests[0] = self.bits

    def _go_on(self, s: int) -> None:
        step, behind = self.steps[s - 1], self.steps[s]
        fails = step.fails.any()
        self.bench.assume(
            behind.place == step.place + step.places[STEP_CODES],
            step.moves == (step.place[7:] != behind.place[7:]),
            (step.fails & (step.fails - 1)[:STEP_CODES]) == 0,
            fails | ~step.truncated,
            fails | (step.place > self.end) | (behind.place <= self.end),
            step.places[0] == 0,
            *(place <= CODE_BITS * k for k, place in enumerate(step.places)),
        )
        before = self.errors[s - 1]
        there, truncated, start, place = (
            before.there,
            *(before.truncated, before.start, before.place),
        )
        own = reduce(or_, (Mux(step.fails[k], step.places[k], 0) for k in range(STEP_CODES)))
        self.errors[s] = OwnError(
            self._named(there | fails, f"own_failed_{s}"),
            self._named(Mux(there, truncated, step.truncated), f"own_truncated_{s}"),
            self._named(Mux(there, start, step.place), f"own_error_start_{s}"),
            self._named(Mux(there, place, own), f"own_error_place_{s}"),
        )
        rest = self.rests[s - 1]
        moved = Mux(step.moves, (rest << BLOCK)[: len(rest)], rest)
        self.rests[s] = self._named(moved[-needed_bits(s) :], f"own_rest_{s}")

    def any(self, bits: int, name: str) -> Signal:
        number = Signal(bits, name=name)
        self.bench.m.d.comb += number.eq(AnyConst(bits))
        return number

    def _named(self, value: Value, name: str) -> Signal:
        number = Signal(len(value), name=name)
        self.bench.m.d.comb += number.eq(value)
        return number

    def _step(self, s: int) -> OwnStep:
        return OwnStep(
            place=self.any(11, f"own_place_{s}"),
            moves=self.any(1, f"own_moves_{s}"),
            run_left=self.any(6, f"own_run_left_{s}"),
            codes=self.any(STEP_CODES * CODE_BITS, f"own_codes_{s}"),
            in_run=self.any(STEP_CODES, f"own_in_run_{s}"),
            after_run=self.any(1, f"own_after_run_{s}"),
            planes=self.any(STEP_CODES * DELTAS, f"own_planes_{s}"),
            fails=self.any(STEP_CODES, f"own_fails_{s}"),
            truncated=self.any(1, f"own_truncated_by_{s}"),
            places=[self.any(8, f"own_places_{s}_{k}") for k in range(STEP_CODES + 1)],
        )

    def planes_before(self, s: int) -> Value:
        """The planes of all steps before this one, the latest in the low bits."""
        return Cat(self.steps[k].planes for k in reversed(range(s)))


def needed_bits(s: int) -> int:
    """All that the codes behind so many steps may have, wherever in a block they start."""
    return min(KEPT, BLOCK - 1 + CODE_BITS * (PLANES - STEP_CODES * s) + FILL)


def when(premise: Value, *conclusions: Value) -> Value:
    condition = ~Cat(premise).all() | Cat(conclusions).all()
    # A failure names the line of what does not follow.
    condition.src_loc = conclusions[0].src_loc
    return condition


class Parts:
    """The parts that are cut out of a component, and what is known of them.

    While they are at the picked code, their inputs are claimed to be of it, and their outputs, of
    which these do not depend in the same cycle, are assumed to be.
    """

    def __init__(self, bench: Bench, own: OwnCode, about: str) -> None:
        self.bench = bench
        self.own = own
        self.about = about

    def cut(self, patch: pytest.MonkeyPatch) -> None:
        """Let components that are elaborated now have no parts of their own."""
        self.bases = _cut(patch, plane_decoder, "BaseCodeReader")
        self.readers = _cut(patch, plane_steps, "StepReader")
        self.builders = _cut(patch, plane_steps, "PlaneBuilder")
        self.last_builders = _cut(patch, last_step, "PlaneBuilder")
        self.last_readers = _cut(patch, last_step, "PlaneCodeReader")
        self.runs: list[tuple[data.View, Signal]] = []
        for module in (plane_steps, last_step):
            patch.setattr(module, "run_left_behind", self._run_left)

    def _run_left(self, m: Module, state: data.View) -> Signal:
        left = Signal(range(PLANES), name="run_left")
        m.d.comb += left.eq(AnySeq(len(left)))
        self.runs.append((state, left))
        return left

    def _state(self, at: Value, inputs: list[Value], outputs: list[Value]) -> None:
        self.bench.implies(at, *inputs)
        self.bench.assume(*(when(at, output) for output in outputs))

    def base(self, at: Value) -> None:
        """State what the reader of the base gets and gives."""
        own = self.own
        (reader,) = self.bases
        gives = [
            reader.length == own.steps[0].place,
            reader.base == own.base,
            reader.bad == own.base_bad,
        ]
        self._state(at, [reader.code == own.bits[-33:]], gives)

    def step(self, at: Value, s: int) -> None:
        """State what the reader of a step's codes gets and gives."""
        own = self.own
        step, behind = own.steps[s], own.steps[s + 1]
        place = step.place[:7]
        (reader,) = self.readers
        gets = [
            reader.place == place,
            reader.place_again == place,
            reader.not_high == ~place[-1],
            reader.not_high_again == ~place[-1],
            reader.run_left == step.run_left,
        ]
        gives = [
            reader.codes == step.codes,
            reader.in_run == step.in_run,
            reader.next_place == behind.place[:7],
            reader.moves == step.moves,
        ]
        if self.about == REST:
            gets, gives = [reader.view == own.rests[s][-VIEW:]], gives[3:]
        self._state(at, gets, gives)
        # Wherever it is, and whether its registers agree about that or not.
        self.bench.assume(~reader.moves | reader.works)

    def planes(self, at: Value, s: int) -> None:
        """State what the builder of a step's planes gets and gives."""
        own = self.own
        step, behind = own.steps[s], own.steps[s + 1]
        (builder,) = (*self.builders, *self.last_builders)
        gets = [
            builder.code == step.codes,
            builder.in_run == step.in_run,
            builder.left == (own.end - step.place)[:11],
            builder.room == PLANES - STEP_CODES * s,
            builder.above == (own.steps[s - 1].planes[:DELTAS] if s else 0),
            builder.after_run == step.after_run,
        ]
        gives = [
            builder.planes == step.planes,
            builder.next_after_run == behind.after_run,
            builder.fails == step.fails,
            builder.truncated == step.truncated,
            *(builder.places[k] == place for k, place in enumerate(step.places)),
        ]
        self._state(at & ~own.errors[s].there, gets, gives)
        ((state, left),) = self.runs
        gets = [
            state.run_left == step.run_left,
            state.codes == step.codes,
            state.in_run == step.in_run,
        ]
        self._state(at, gets, [left == behind.run_left])

    def last(self, at: Value) -> None:
        """State what the reader of the last plane gets and gives."""
        own, step = self.own, self.own.steps[STEPS - 1]
        (reader,) = self.last_readers
        view = own.rests[STEPS - 1]
        gets = [
            reader.code == bits_from(view, step.place[:7], CODE_BITS),
            reader.in_run == (step.run_left != 0),
            reader.above == own.steps[STEPS - 2].planes[:DELTAS],
            reader.after_run == step.after_run,
            reader.room == 1,
        ]
        gives = [reader.plane == own.last_plane, reader.bad == own.last_bad]
        self._state(at & ~own.errors[STEPS - 1].there, gets, gives)


def _cut(patch: pytest.MonkeyPatch, module: Any, name: str) -> list[CutOut]:
    real, made = getattr(module, name), []

    def cut(*arguments):
        made.append(CutOut(real(*arguments)))
        return made[-1]

    patch.setattr(module, name, cut)
    return made


def is_partly_read(own: OwnCode, state: data.View, s: int, about: str) -> list[Value]:
    """The conditions that this is what is known of the picked code behind so many steps."""
    step = own.steps[s]
    place = step.place[:7]
    if about == REST:
        return list(_same_blocks(state.rest[-needed_bits(s) :], own.rests[s]))
    conditions = [
        state.position == step.place,
        state.place_again == place,
        state.not_high == ~place[-1],
        state.not_high_again == ~place[-1],
        state.size == own.size,
        state.base == own.base,
    ]
    if s == 0:
        error = own.errors[0]
        return [*conditions, state.failed == error.there, state.truncated == error.truncated]
    before = own.steps[s - 1]
    # In the base, and in the planes that are built.
    error = own.errors[s - 1]
    built = DELTAS * STEP_CODES * (s - 1)
    return [
        *conditions,
        state.codes == before.codes,
        state.in_run == before.in_run,
        state.run_left == before.run_left,
        state.failed == error.there,
        when(error.there, state.truncated == error.truncated),
        when(error.there, state.start == error.start),
        when(error.there, state.before_error == error.place),
        when(~error.there, state.start == before.place),
        when(~error.there, state.after_run == before.after_run),
        when(~error.there, state.planes[:built] == own.planes_before(s - 1)),
        # Above the first plane is none.
        *([state.planes[:DELTAS] == 0] if s == 1 and len(state.planes) else []),
    ]


def _same_blocks(bits: Value, others: Value) -> Iterator[Value]:
    """The conditions that two rests are the same, a condition for some bits each."""
    for low in range(0, len(bits), CHUNK):
        yield bits[low : low + CHUNK] == others[low : low + CHUNK]


def partly_read(own: OwnCode, s: int, about: str) -> Contract:
    """Contract of what is known of the picked code behind so many steps."""
    return Contract(
        f"{about} behind {s} steps",
        lambda _, port: [(ALWAYS, c) for c in is_partly_read(own, port.payload, s, about)],
    )


class OwnEnd:
    """The planes and the status that are given of the picked code at the end.

    Attributes
    ----------
    status, bits : Value
    has_failed : Value
        There is an error in a code.
    fails_last : Value
        It is in the last one.
    """

    def __init__(self, own: OwnCode) -> None:
        m, step, error = own.bench.m, own.steps[STEPS - 1], own.errors[STEPS - 1]
        window = Signal(CODE_BITS + FILL, name="own_window")
        m.d.comb += window.eq(bits_from(own.rests[STEPS - 1], step.place[:7], len(window)))
        in_run = step.run_left != 0
        length = Signal(range(CODE_BITS + 1), name="own_last_length")
        code_length = length_of(m, window[FILL:], name="own_last_code_length")
        m.d.comb += length.eq(Mux(in_run, 0, code_length))
        end = Signal(12, name="own_end")
        m.d.comb += end.eq(step.place + length)
        # So many bits are behind the end in its byte.
        behind = bits_from(window, length, FILL)[::-1]
        many = (8 - end[:3])[:3]
        self.nonzero = Cat(behind[k] & (many > k) for k in range(FILL)).any()
        is_beyond = end > own.end
        self.fails_last = ~error.there & (is_beyond | own.last_bad)
        self.has_failed = Signal(name="own_has_failed")
        self.bits = Signal(12, name="own_code_bits")
        self.status = Signal(4, name="own_status")
        m.d.comb += self.has_failed.eq(error.there | self.fails_last)
        with m.If(error.there):
            m.d.comb += self.bits.eq(error.start + error.place)
        with m.Elif(self.fails_last):
            m.d.comb += self.bits.eq(step.place)
        with m.Else():
            m.d.comb += self.bits.eq(end)
        truncated = Mux(error.there, error.truncated, is_beyond)
        with m.If(self.has_failed & truncated):
            m.d.comb += self.status.eq(StreamStatus.PAYLOAD_TRUNCATED)
        with m.Elif(self.has_failed):
            m.d.comb += self.status.eq(StreamStatus.BAD_TOKEN)
        with m.Elif(self.nonzero):
            m.d.comb += self.status.eq(StreamStatus.NONZERO_FILL)


def steps_proof(bench: Bench, steps: range, about: str, patch: pytest.MonkeyPatch) -> None:
    """A hardware of some steps makes of the picked code what the walk does, whatever comes in."""
    m = bench.m
    own = OwnCode(bench, range(max(0, steps.start - 1), steps.stop + 1))
    parts = Parts(bench, own, about)
    stage = PlaneSteps(steps.start, steps.stop)
    with patch.context() as patched:
        parts.cut(patched)
        inside = bench.add(stage)
    m.d.comb += [*anything(stage.i), stage.o.ready.eq(AnySeq(1))]
    is_own, has_own = Signal(name="is_own"), Signal(name="has_own")
    m.d.comb += is_own.eq(AnySeq(1))
    with m.If(stage.i.valid & stage.i.ready):
        m.d.sync += has_own.eq(is_own)
    bench.assume_item(is_own & stage.i.valid, stage.i.payload, partly_read(own, steps.start, about))

    done = inside["done"]
    for s in steps:
        if s == steps.start:
            at = stage.i.valid & stage.i.ready & is_own
        else:
            at = has_own & (done == s - steps.start)
        parts.step(at, s)
        if s and about == REGISTERS:
            parts.planes(at, s - 1)
    layout = data.StructLayout(plane_steps._members(plane_steps.rest_bits(steps.start), steps.stop))
    held = data.View(layout, inside.register("held"))
    bench.require(done <= len(steps))
    for many in range(1, len(steps)):
        state = is_partly_read(own, held, steps.start + many, about)
        bench.implies(has_own & (done == many), *state)
    bench.assert_item(has_own & stage.o.valid, stage.o.payload, partly_read(own, steps.stop, about))
    errors = own.errors[max(0, steps.start - 1)].there, own.errors[steps.stop - 1].there
    bench.cover(
        has_own & stage.o.valid & ~errors[1],
        has_own & stage.o.valid & errors[0],
    )
    if steps.stop > 1:
        bench.cover(has_own & stage.o.valid & ~errors[0] & errors[1])


def last_proof(bench: Bench, patch: pytest.MonkeyPatch) -> None:
    """The last step gives the picked code's planes, its length, and how it ends."""
    m = bench.m
    own = OwnCode(bench, range(STEPS - 2, STEPS))
    end = OwnEnd(own)
    parts = Parts(bench, own, REGISTERS)
    stage = LastStep()
    with patch.context() as patched:
        parts.cut(patched)
        bench.add(stage)
    m.d.comb += [*anything(stage.i), stage.o.ready.eq(AnySeq(1))]
    is_own, has_own = Signal(name="is_own"), Signal(name="has_own")
    m.d.comb += is_own.eq(AnySeq(1))
    moves = stage.i.valid & stage.i.ready
    with m.If(moves):
        m.d.sync += has_own.eq(is_own)
    for about in (REGISTERS, REST):
        contract = partly_read(own, STEPS - 1, about)
        bench.assume_item(is_own & stage.i.valid, stage.i.payload, contract)
    parts.planes(moves & is_own, STEPS - 2)
    parts.last(moves & is_own)
    out = stage.o.payload
    is_out = stage.o.valid & has_own
    bench.implies(
        is_out,
        out.status == end.status,
        out.bits == end.bits,
        out.offset == Mux(end.status == StreamStatus.OK, 0, end.bits >> 3),
    )
    bench.implies(
        is_out & ~end.has_failed,
        out.base == own.base,
        out.planes == Cat(own.last_plane, own.planes_before(STEPS - 1)),
    )
    errors = own.errors[STEPS - 2].there, own.errors[STEPS - 1].there
    bench.cover(
        is_out & (out.status == StreamStatus.OK) & (out.bits == KEPT),
        is_out & (out.status == StreamStatus.NONZERO_FILL) & (out.bits[:3] == 1),
        is_out & (out.status == StreamStatus.PAYLOAD_TRUNCATED) & end.fails_last,
        is_out & (out.status == StreamStatus.BAD_TOKEN) & end.fails_last,
        is_out & ~errors[0] & errors[1],
    )


def decoder_proof(config: EntryConfig, patch: pytest.MonkeyPatch) -> Bench:
    """Codes go through all steps and come out in the order in which they came, each once."""
    bench = Bench()
    m = bench.m
    own = OwnCode(bench, range(1))
    parts = Parts(bench, own, REGISTERS)
    decoder = BpcPlaneDecoder(config)
    with patch.context() as patched:
        parts.cut(patched)
        inside = bench.add(decoder)
    m.d.comb += [*anything(decoder.i), decoder.o.ready.eq(AnySeq(1))]

    # The first bit is the highest of its byte, and the first byte is the lowest.
    given = decoder.i.payload
    is_own = Signal(name="is_own")
    in_order = Cat(given.data.word_select(k, 8) for k in reversed(range(KEPT // 8)))
    m.d.comb += is_own.eq((in_order == own.bits) & (given.size == own.size))
    parts.base(is_own)

    groups = range(0, STEPS - 1, config.sectors)
    names = [*(f"steps_{g}" for g in range(len(groups))), "last"]
    stages = [inside.component(name) for name in names]
    for about in (REGISTERS, REST):
        contract = partly_read(own, 0, about)
        bench.assert_item(is_own & stages[0].i.valid, stages[0].i.payload, contract)
    for stage, behind in pairwise(stages):
        bench.require(
            behind.i.payload == stage.o.payload,
            behind.i.valid == stage.o.valid,
            stage.o.ready == behind.i.ready,
        )
    bench.require(
        stages[0].i.valid == decoder.i.valid,
        decoder.i.ready == stages[0].i.ready,
        decoder.o.valid == stages[-1].o.valid,
        decoder.o.payload == stages[-1].o.payload,
    )
    order = Order(bench, 1, count_bits=4)
    order.comes(one(decoder.i.valid & decoder.i.ready, is_own))
    on_the_way = []
    moved = is_own
    for name, stage in zip(names, stages, strict=True):
        has_own = Signal(name=f"{name}_has_own")
        with m.If(stage.i.valid & stage.i.ready):
            m.d.sync += has_own.eq(moved)
        moved = has_own
        if name == "last":
            there = stage.o.valid
        else:
            done = inside[f"{name}.done"]
            there = done != 0
            bench.require(done <= config.sectors)
        on_the_way.append(one(there, has_own))
    order.on_the_way(*reversed(on_the_way))
    order.leaves(one(decoder.o.valid & decoder.o.ready, moved))
    waiting = Signal(name="waiting")
    m.d.sync += waiting.eq(decoder.o.valid & ~decoder.o.ready)
    bench.implies(waiting & ~ResetSignal(), decoder.o.valid)
    full = [stage.o.valid for stage in stages]
    bench.cover(Cat(full).all() & moved, Cat(full).all() & decoder.i.ready, waiting)
    return bench


def left_proof() -> Bench:
    """The planes that a run has behind a step are those that a walk finds, in any window."""
    bench = Bench()
    m = bench.m
    window, run_left = Signal(BLOCK), Signal(range(PLANES))
    m.d.comb += [window.eq(AnyConst(BLOCK)), run_left.eq(AnyConst(len(run_left)))]
    walked = WalkedStep(m, window, run_left)
    state = Signal(PartlyRead(1))
    m.d.comb += [
        state.run_left.eq(run_left),
        state.codes.eq(Cat(walked.codes)),
        state.in_run.eq(Cat(walked.in_run)),
    ]
    # A run of more planes than an entry has is an error, but is followed.
    bench.require(plane_steps.run_left_behind(m, state) == walked.run_left)
    bench.cover(
        (walked.run_left == 32) & (run_left == 3),
        (walked.run_left == 28) & (run_left == 32),
        (walked.run_left == 0) & Cat(walked.in_run).any(),
    )
    return bench


def still_proof() -> Bench:
    """A step that is not done does not move, whatever its registers tell."""
    bench = Bench()
    bench.add(reader := StepReader())
    bench.m.d.comb += anything_at(reader, In)
    bench.require(~reader.moves | reader.works)
    bench.cover(reader.moves)
    return bench


GROUPS = {
    f"{first}-{first + many}": range(first, first + many)
    for many in (4, 2, 1)
    for first in range(0, STEPS - 1, many)
}
LAST_PARTS = 6
REST_PARTS = 3
"""Parts of the induction about a rest, for each step that shares the hardware."""


@pytest.mark.verify
@pytest.mark.parametrize("group", list(GROUPS))
def test_registers_behind_each_step_are_of_the_code(group, tmp_path, monkeypatch):
    bench = Bench()
    steps_proof(bench, GROUPS[group], REGISTERS, monkeypatch)
    prove(bench, tmp_path, depth=1, cover_depth=8)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("group", "part"),
    [(g, k) for g, steps in GROUPS.items() for k in range(REST_PARTS * len(steps))],
)
def test_rest_behind_each_step_is_of_the_code(group, part, tmp_path, monkeypatch):
    steps = GROUPS[group]

    def proof(bench):
        steps_proof(bench, steps, REST, monkeypatch)

    prove_part(proof, tmp_path, part, parts=REST_PARTS * len(steps))


@pytest.mark.verify
@pytest.mark.parametrize("part", list(range(LAST_PARTS)))
def test_last_step_ends_the_code(part, tmp_path, monkeypatch):
    prove_part(lambda bench: last_proof(bench, monkeypatch), tmp_path, part, parts=LAST_PARTS)


@pytest.mark.verify
@pytest.mark.parametrize("sector_bytes", SECTORS)
def test_codes_go_through_all_steps_in_order(sector_bytes, tmp_path, monkeypatch):
    bench = decoder_proof(EntryConfig(sector_bytes=sector_bytes), monkeypatch)
    # The more steps a hardware has, the longer it takes until all of them have something.
    prove(bench, tmp_path, depth=1, cover_depth=20)


REGISTER_FAULTS = {
    "codes behind an error are where it starts": (
        "Mux(builder.fails.any(), state.start, state.position)",
        "state.position",
    ),
    "planes of an earlier step": ("Cat(builder.planes, state.planes)", "state.planes"),
    "blocks do not count": ("blocks + reader.moves", "blocks"),
    "room of the step behind": ("(self.first - 1 + step)", "(self.first + step)"),
    "errors of the first step alone": (
        "next_state.failed.eq(builder.fails.any())",
        "next_state.failed.eq(builder.fails[0])",
    ),
    "the second register of the place stays": (
        "held.place_again.eq(next_state.place_again)",
        "held.place_again.eq(state.place_again)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", list(REGISTER_FAULTS))
def test_registers_with_a_fault_are_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, PlaneSteps, *REGISTER_FAULTS[fault])
    bench = Bench()
    steps_proof(bench, range(2, 4), REGISTERS, monkeypatch)
    find_fault(bench, tmp_path, depth=4)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Mux(reader.moves, moved, still)", "still"),
        ("(state.rest << BLOCK_BITS)", "(state.rest << BLOCK_BITS - 1)"),
    ],
)
def test_rest_with_a_fault_is_found(right, wrong, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, PlaneSteps, right, wrong)
    bench = Bench()
    steps_proof(bench, range(2, 4), REST, monkeypatch)
    find_fault(bench, tmp_path, depth=4)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(fill >> (end - 1)[:3])", "(fill >> end[:3])"),
        ("last_place + length > left", "last_place + length >= left"),
        (
            "Cat(plane_code.plane, builder.planes, given.planes)",
            "Cat(builder.planes, given.planes)",
        ),
        ("Mux(fails_last, last_start, end)", "end"),
    ],
)
def test_last_step_with_a_fault_is_found(right, wrong, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, LastStep, right, wrong)
    bench = Bench()
    last_proof(bench, monkeypatch)
    find_fault(bench, tmp_path, depth=2)


@pytest.mark.verify
def test_bytes_in_another_order_are_found(tmp_path, monkeypatch):
    right, wrong = "for k in reversed(range(CODE_BYTES))", "for k in range(CODE_BYTES)"
    break_elaborate(monkeypatch, BpcPlaneDecoder, right, wrong)
    find_fault(decoder_proof(EntryConfig(sector_bytes=32), monkeypatch), tmp_path, depth=6)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("within = STEP_CODES - k - 2", "within = STEP_CODES - k - 1"), (" & ~state.in_run[k]", "")],
)
def test_run_that_is_left_wrongly_is_found(right, wrong, tmp_path, monkeypatch):
    break_function(monkeypatch, plane_steps, "run_left_behind", right, wrong)
    find_fault(left_proof(), tmp_path, depth=1)


THEOREMS = {"run left": left_proof, "still": still_proof}


@pytest.mark.parametrize("theorem", list(THEOREMS))
def test_theorem_of_a_part(theorem, tmp_path):
    check(THEOREMS[theorem](), tmp_path, depth=1, cover_depth=1)
