"""The steps that decode BPC's planes: four codes are found at once as a walk finds them in turn.

`StepReader` finds its codes by flags of all places that they may start at. Here it is compared with
a walk that reads a code, learns its length from a table and goes on behind it. A theorem by itself
is that the reader's window is the view from the place on; the walk is then in the window, which is
anything. The logic has no state: the first cycle is all there is.
"""

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst

from cdma.hw.codec.bpc import step_reader
from cdma.hw.codec.bpc.code_readers import PlaneCodeReader
from cdma.hw.codec.bpc.plane_builder import PlaneBuilder
from cdma.hw.codec.bpc.step_reader import BLOCK_BITS, STEP_CODES, StepReader
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.smtbmc import check
from tests.lib.shares import configs, names

CODE_BITS = 32
"""Bits that the longest code has, and that are given of each."""

LENGTHS = {"1---": 32, "01--": 7, "001-": 3, "0001": 10, "0000": 5}
"""Bits of a code by its first ones, as the format has them."""

RUN = "01--"
"""First bits of the code of a run, of two planes and as many more as its last five bits tell."""


class WalkedStep:
    """The reference: a walk over bits, a plane at a time.

    Parameters
    ----------
    m
        Where its logic is put.
    window : Value
        Bits from where the first plane's code starts; the first is the highest.
    run_left : Value
        Planes that a run still has.

    Attributes
    ----------
    in_run : list of Value
        Planes that have no code.
    starts : list of Signal
        Bits in front of each plane's code; the last number is where the last code ends.
    codes : list of Signal
        Bits from there on, the first the highest.
    run_left : Value
        Planes that a run still has behind the step.
    """

    def __init__(self, m: Module, window: Value, run_left: Value) -> None:
        self.in_run: list[Value] = []
        self.starts = [Signal(8, name="walked_0")]
        self.codes: list[Signal] = []
        left = run_left
        for k in range(STEP_CODES):
            start = self.starts[k]
            code = Signal(CODE_BITS, name=f"walked_code_{k}")
            m.d.comb += code.eq(bits_from(window, start, CODE_BITS))
            behind = Signal(8, name=f"walked_{k + 1}")
            left_behind = Signal(6, name=f"left_behind_{k}")
            in_run = left != 0
            with m.If(in_run):
                m.d.comb += [behind.eq(start), left_behind.eq(left - 1)]
            with m.Else():
                m.d.comb += behind.eq(start + length_of(m, code, name=f"length_{k}"))
                with m.If(code[-4:].matches(RUN)):
                    m.d.comb += left_behind.eq(code[-7:-2] + 2 - 1)
            self.in_run.append(in_run)
            self.starts.append(behind)
            self.codes.append(code)
            left = left_behind
        self.run_left = left


def bits_from(bits: Value, start: Value, width: int) -> Value:
    """So many bits from the start on; in both, the first is the highest."""
    return bits[::-1].bit_select(start, width)[::-1]


def length_of(m: Module, code: Value, *, name: str) -> Signal:
    """Bits of the code that these bits start with."""
    length = Signal(range(CODE_BITS + 1), name=name)
    with m.Switch(code[-4:]):
        for first_bits, bits in LENGTHS.items():
            with m.Case(first_bits):
                m.d.comb += length.eq(bits)
    return length


def any_step(bench: Bench) -> StepReader:
    """A reader of any view, at any place, which all its registers agree about."""
    m = bench.m
    reader = StepReader()
    bench.add(reader)
    for free in (reader.view, reader.place, reader.run_left, reader.works):
        m.d.comb += free.eq(AnyConst(len(free)))
    m.d.comb += [
        reader.not_high.eq(~reader.place[-1]),
        reader.place_again.eq(reader.place),
        reader.not_high_again.eq(~reader.place[-1]),
    ]
    return reader


def window_proof(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The window is the view from the place on: in it, any bit is that so far behind the place."""
    bench = Bench()
    windows = []
    real = step_reader.aligned

    def listed(*arguments):
        windows.append(real(*arguments))
        return windows[-1]

    with monkeypatch.context() as patch:
        patch.setattr(step_reader, "aligned", listed)
        reader = any_step(bench)
    (window,) = windows
    index = Signal(range(BLOCK_BITS))
    bench.m.d.comb += index.eq(AnyConst(len(index)))
    there = bits_from(reader.view, reader.place + index, 1)
    bench.require(bits_from(window, index, 1) == there)
    bench.cover((reader.place == 127) & (window == 1), (reader.place == 0) & window[-1])
    return bench


def step_proof(part: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """In any window, a step finds what the walk finds."""
    bench = Bench()
    m = bench.m
    window = Signal(BLOCK_BITS)
    m.d.comb += window.eq(AnyConst(BLOCK_BITS))
    with monkeypatch.context() as patch:
        patch.setattr(step_reader, "aligned", lambda *_: window)
        reader = any_step(bench)
    walked = WalkedStep(m, window, reader.run_left)
    in_run = Cat(walked.in_run)
    end = Signal(8)
    m.d.comb += end.eq(reader.place + walked.starts[STEP_CODES])
    if part == "planes":
        bench.require(reader.in_run == in_run)
    elif part == "next_place":
        bench.require(reader.next_place == end[:7], reader.moves == (reader.works & end[7]))
    else:
        k = int(part.removeprefix("code_"))
        bench.require(reader.codes.word_select(k, CODE_BITS) == walked.codes[k])
    bench.cover(
        end == 255,
        (end == 128) & reader.works,
        (end == 127) & reader.works,
        (in_run == 0b1010) & (reader.run_left == 0),
        (in_run == 0b0111) & (reader.run_left == 3),
        (in_run == 0b0100) & (walked.starts[2] == 39),
    )
    return bench


def behind_proof(width: int) -> Bench:
    """Behind a code of any length are the bits from there on, or all if there is no code."""
    bench = Bench()
    m = bench.m
    window, length = Signal(width + CODE_BITS), Signal(range(CODE_BITS + 1))
    m.d.comb += [window.eq(AnyConst(len(window))), length.eq(AnyConst(len(length)))]
    bench.assume(Cat(length == bits for bits in (0, *LENGTHS.values())).any())
    kinds = {bits: length == bits for bits in LENGTHS.values()}
    behind = step_reader.behind_code(window, length == 0, kinds, width)
    bench.require(behind == bits_from(window, length, width))
    bench.cover(*(length == bits for bits in (0, *LENGTHS.values())))
    return bench


def builder_proof() -> Bench:
    """A builder's planes and errors are those of readers in a row, each behind the one before it.

    There are as many planes as codes.
    """
    bench = Bench()
    m = bench.m
    builder = PlaneBuilder(STEP_CODES)
    bench.add(builder)
    inputs = (builder.code, builder.in_run, builder.left, builder.above, builder.after_run)
    for free in (*inputs, builder.room):
        m.d.comb += free.eq(AnyConst(len(free)))
    bench.assume(builder.room >= STEP_CODES)
    above, after_run = builder.above, builder.after_run
    end: Value = Const(0)
    has_failed: Value = Const(0)
    truncated: list[Value] = []
    bench.require(builder.places[0] == 0)
    for k in range(STEP_CODES):
        code = builder.code.word_select(k, CODE_BITS)
        reader = PlaneCodeReader()
        bench.add(reader)
        m.d.comb += [
            reader.code.eq(code),
            reader.in_run.eq(builder.in_run[k]),
            reader.above.eq(above),
            reader.after_run.eq(after_run),
            reader.room.eq(builder.room - k),
        ]
        above, after_run = reader.plane, reader.next_after_run
        length = length_of(m, code, name=f"length_{k}")
        end = end + Mux(builder.in_run[k], 0, length)
        is_beyond = end > builder.left
        fails = ~has_failed & (reader.bad | is_beyond)
        truncated.append(fails & is_beyond)
        # The latest plane is in the low bits.
        plane = builder.planes.word_select(STEP_CODES - 1 - k, len(above))
        bench.require(
            builder.places[k + 1] == end, builder.fails[k] == fails, plane == reader.plane
        )
        bench.cover(fails & is_beyond, fails & ~is_beyond)
        has_failed = has_failed | fails
    bench.require(builder.next_after_run == after_run, builder.truncated == Cat(truncated).any())
    bench.cover((end == 128) & ~has_failed, (end == 0) & ~has_failed)
    return bench


PARTS = ("planes", "next_place", *(f"code_{k}" for k in range(STEP_CODES)))
QUICK = ("planes", "code_0", "code_1")
"""Parts that the solver is quick to decide."""


def test_window_is_the_view_from_the_place_on(tmp_path, monkeypatch):
    check(window_proof(monkeypatch), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("part", names(PARTS, quick=QUICK))
def test_step_finds_what_a_walk_finds(part, tmp_path, monkeypatch):
    check(step_proof(part, monkeypatch), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("codes", [1, 2, 3])
def test_bits_behind_a_code_are_those_from_its_end_on(codes, tmp_path):
    check(behind_proof(codes * CODE_BITS), tmp_path, depth=1, cover_depth=1)


def test_builder_builds_what_readers_in_a_row_build(tmp_path):
    check(builder_proof(), tmp_path, depth=1, cover_depth=1)


FAULTS = {
    "a run of two counts as three": ("planes", "number == planes - 2", "number == planes - 3"),
    "a run that is left ends too early": ("planes", "self.run_left == k", "self.run_left == k + 1"),
    "a carry is lost": ("next_place", "Mux(carry, further, still)", "Mux(0, further, still)"),
    "a step to the end of a block stays": ("next_place", "self.place >= ", "self.place > "),
    "codes wait for no run": ("code_1", "window, self.in_run[k]", "window, C(0)"),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_step_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    part, right, wrong = fault
    break_elaborate(monkeypatch, StepReader, right, wrong)
    find_fault(step_proof(part, monkeypatch), tmp_path, depth=1)


@pytest.mark.verify
def test_codes_that_are_chosen_one_bit_beside_are_found(tmp_path, monkeypatch):
    real = step_reader.behind_code

    def beside(window, in_run, kinds, width):
        return real(window, in_run, {length - 1: flag for length, flag in kinds.items()}, width)

    monkeypatch.setattr(step_reader, "behind_code", beside)
    for name, bench in (("step", step_proof("code_1", monkeypatch)), ("behind", behind_proof(32))):
        (tmp_path / name).mkdir()
        find_fault(bench, tmp_path / name, depth=1)


@pytest.mark.verify
def test_window_that_ignores_a_bit_of_the_place_is_found(tmp_path, monkeypatch):
    break_elaborate(monkeypatch, StepReader, "self.place_again[-2], ", "self.place_again[-1], ")
    find_fault(window_proof(monkeypatch), tmp_path, depth=1)


BUILDER_FAULTS = {
    "a code to the end exceeds it": ("end > self.left", "end >= self.left"),
    "each error counts": ("failing & (~failing + 1)", "failing"),
    "planes are all of the first room": ("self.room - k", "self.room"),
}


@pytest.mark.parametrize("fault", configs(BUILDER_FAULTS, quick=()))
def test_builder_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, PlaneBuilder, *fault)
    find_fault(builder_proof(), tmp_path, depth=1)
