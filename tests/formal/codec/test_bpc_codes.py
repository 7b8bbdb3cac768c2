"""BPC's codes at the width that ships, 31 deltas and 33 planes: what coders write, readers read.

A reader gets a code with any bits behind it. It finds its length, the base or the plane that it was
made of, and nothing wrong; and any code that a reader finds nothing wrong with is the one that the
coder makes of what was read. So no value has two codes, and no code two values.
"""

import pytest
from amaranth.hdl import Cat, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib.wiring import In

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.hw.codec.bpc.code_readers import BaseCodeReader, PlaneCodeReader
from cdma.hw.codec.bpc.codes import BASE_CODE_BITS, PLANE_CODE_BITS, BaseCoder, PlaneCoder
from cdma.hw.codec.bpc.planes import PlaneClassifier, RunFinder
from cdma.hw.config import EntryConfig
from tests.formal.bench import Bench, anything_at
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.smtbmc import check, prove

WHOLE = EntryConfig(sector_bytes=128)
FIELDS = ("dbx", "zero", "plane_zero", "ones", "two", "one")
GATHERED = (
    *("gathered", "had_some", "had_one", "had_two"),
    *("had_ones", "had_plane", "had_place"),
)


def first_bits(bits, length):
    return bits & ((1 << length) - 1)[: len(bits)]


def any_number(bench, bits, name):
    number = Signal(bits, name=name)
    bench.m.d.comb += number.eq(AnyConst(len(number)))
    return number


def send(bench, coder, reader):
    """Give a reader what a coder has written, with any bits behind it; zeros are there before."""
    behind = any_number(bench, len(coder.code), "behind")
    sent = Signal.like(coder.code)
    bench.m.d.comb += [
        sent.eq(coder.code | (behind << coder.length)),
        # The first bit that is sent is the reader's highest.
        reader.code.eq(sent[::-1]),
    ]
    bench.require(coder.code == first_bits(coder.code, coder.length))


def is_written(coder, reader):
    """The conditions that a code which was read is the one that the coder writes."""
    return (
        coder.length == reader.length,
        coder.code == first_bits(reader.code[::-1], reader.length),
    )


def base_proof():
    bench = Bench()
    m = bench.m
    m.submodules.coder = coder = BaseCoder()
    m.submodules.reader = reader = BaseCodeReader()
    m.d.comb += coder.base.eq(AnyConst(32))
    send(bench, coder, reader)
    bench.require(reader.length == coder.length, reader.base == coder.base, ~reader.bad)
    bench.cover(*(coder.length == length for length in (3, 7, 11, 19, 33)))
    return bench


def read_base_proof():
    bench = Bench()
    m = bench.m
    m.submodules.coder = coder = BaseCoder()
    m.submodules.reader = reader = BaseCodeReader()
    m.d.comb += [reader.code.eq(AnyConst(len(reader.code))), coder.base.eq(reader.base)]
    bench.implies(~reader.bad, *is_written(coder, reader))
    bench.cover(reader.bad, *(~reader.bad & (reader.length == n) for n in (3, 7, 11, 19, 33)))
    return bench


def lengths_proof():
    """All codes have lengths in their bounds, and zeros behind them, as their joining assumes."""
    bench = Bench()
    m = bench.m
    m.submodules.base = base = BaseCoder()
    m.submodules.plane = plane = PlaneCoder()
    m.d.comb += [*anything_at(base, In), *anything_at(plane, In)]
    for coder, most in ((base, BASE_CODE_BITS), (plane, PLANE_CODE_BITS)):
        bench.require(coder.length <= most, coder.code == first_bits(coder.code, coder.length))
        bench.cover(coder.length == most)
    # What a place behind the last code gets.
    bench.implies(plane.symbol.zero & ~plane.run_ends, plane.length == 0)
    return bench


class PlaneCode:
    """A plane that is classified below another one, its code, and a reader.

    The reader is at the plane itself, or at the first one of the run of zeros that ends with it.
    """

    def __init__(self, bench: Bench) -> None:
        m = bench.m
        self.plane = Signal(DELTAS)
        self.above = Signal(DELTAS)
        m.submodules.classifier = classifier = PlaneClassifier(WHOLE)
        m.submodules.coder = self.coder = PlaneCoder()
        m.submodules.reader = self.reader = PlaneCodeReader()
        self.symbol = classifier.symbol
        self.number = any_number(bench, self.coder.number.shape(), "number")
        self.last = any_number(bench, self.coder.last.shape(), "last")
        bench.assume(self.number >= 1, self.number <= PLANES, self.last < self.number)
        m.d.comb += [
            self.above.eq(AnyConst(DELTAS)),
            classifier.plane.eq(self.plane),
            classifier.above.eq(self.above),
            self.coder.symbol.eq(self.symbol),
            self.coder.number.eq(self.number),
            self.coder.last.eq(self.last),
            self.reader.above.eq(self.above),
        ]


def plane_proof():
    bench = Bench()
    m = bench.m
    one = PlaneCode(bench)
    coder, reader, symbol = one.coder, one.reader, one.symbol
    after_run = any_number(bench, 1, "after_run")
    is_run = symbol.zero & coder.run_ends
    send(bench, coder, reader)
    m.d.comb += [
        one.plane.eq(AnyConst(DELTAS)),
        coder.run_ends.eq(AnyConst(1)),
        # What is before a run is no run.
        reader.after_run.eq(after_run & ~symbol.zero),
        reader.room.eq(Mux(symbol.zero, PLANES - one.last, PLANES + 1 - one.number)),
    ]
    bench.implies(
        ~symbol.zero | is_run,
        reader.length == coder.length,
        reader.plane == one.plane,
        ~reader.bad,
        reader.next_after_run == is_run,
    )
    bench.require((coder.length == 0) == (symbol.zero & ~coder.run_ends))
    # So many planes, the first one among them, are of the run that a code tells.
    planes = one.number - one.last
    bench.implies(
        is_run,
        (reader.length == 3) == (planes == 1),
        (reader.length == 7) == (planes >= 2),
        (planes == 1) | (reader.code[25:30] + 2 == planes),
    )
    bench.cover(
        *(~symbol.zero & (coder.length == length) for length in (5, 10, 32)),
        is_run & (planes == 1),
        is_run & (planes == PLANES),
        symbol.two & (symbol.place == DELTAS - 2) & ~symbol.plane_zero,
    )
    return bench


def read_plane_proof():
    bench = Bench()
    m = bench.m
    one = PlaneCode(bench)
    coder, reader = one.coder, one.reader
    is_run = reader.next_after_run
    planes = Signal(range(PLANES + 1))
    m.d.comb += [
        reader.code.eq(AnyConst(len(reader.code))),
        reader.after_run.eq(AnyConst(1)),
        reader.room.eq(PLANES - one.last),
        one.plane.eq(reader.plane),
        coder.run_ends.eq(1),
        planes.eq(Mux(reader.length == 3, 1, reader.code[25:30] + 2)),
    ]
    number = one.last + Mux(is_run, planes, 1)
    bench.assume((one.number == number) | (number > PLANES))
    bench.implies(
        ~reader.bad,
        *is_written(coder, reader),
        ~(is_run & reader.after_run),
        number <= PLANES,
    )
    bench.cover(reader.bad, *(~reader.bad & (reader.length == n) for n in (3, 5, 7, 10, 32)))
    return bench


def inside_proof():
    bench = Bench()
    bench.m.submodules.reader = reader = PlaneCodeReader()
    bench.m.d.comb += [
        reader.code.eq(AnyConst(len(reader.code))),
        reader.above.eq(AnyConst(DELTAS)),
        reader.after_run.eq(AnyConst(1)),
        reader.room.eq(AnyConst(len(reader.room))),
        reader.in_run.eq(1),
    ]
    bench.require(
        reader.length == 0, reader.plane == reader.above, ~reader.bad, reader.next_after_run
    )
    return bench


def run_proof():
    bench = Bench()
    m = bench.m
    m.submodules.runs = runs = RunFinder()
    code = any_number(bench, range(PLANES), "code")
    other = any_number(bench, range(PLANES), "other")
    last = Signal(range(PLANES))
    bench.assume(code < PLANES, other < PLANES)
    m.d.comb += [
        runs.zero.eq(AnyConst(PLANES)),
        last.eq(at([runs.last[k] for k in range(PLANES)], code)),
    ]
    zero = at([runs.zero[k] for k in range(PLANES)], other)
    bench.require(last <= code)
    # Number k of `zero` is of code k + 1.
    bench.implies((other >= last) & (other < code), zero)
    bench.implies(other + 1 == last, ~zero)
    bench.cover((last == 0) & (code == PLANES - 1), (last == code) & (code == PLANES - 1))
    return bench


def slices_proof(config):
    """Planes that come in slices, in cycles that follow one another, and as a whole."""
    bench = Bench()
    m = bench.m
    m.submodules.sliced = sliced = PlaneClassifier(config)
    m.submodules.whole = whole = PlaneClassifier(WHOLE)
    plane = Signal(DELTAS)
    above = Signal(DELTAS)
    index = Signal(range(sliced.slices))
    is_last = index == sliced.slices - 1
    m.d.comb += [
        whole.plane.eq(plane),
        whole.above.eq(above),
        # The first column is void.
        sliced.plane.eq(Cat(0, plane).word_select(index, sliced.columns)),
        sliced.above.eq(Cat(0, above).word_select(index, sliced.columns)),
        sliced.index.eq(index),
        sliced.take.eq(1),
    ]
    m.d.sync += index.eq(index + 1)
    with m.If(is_last):
        m.d.sync += [plane.eq(AnySeq(DELTAS)), above.eq(AnySeq(DELTAS))]
    for field in FIELDS:
        bench.implies(is_last, sliced.symbol[field] == whole.symbol[field])
    is_placed = whole.symbol.one | whole.symbol.two
    bench.implies(is_last & is_placed, sliced.symbol.place == whole.symbol.place)
    bench.cover(
        is_last & whole.symbol.two & (whole.symbol.place == sliced.columns - 2),
        is_last & whole.symbol.one & (whole.symbol.place == DELTAS - 1),
        is_last & whole.symbol.ones,
    )
    return bench


def held_slices_proof(config):
    """Registers while no slice is taken."""
    bench = Bench()
    inside = bench.add(classifier := PlaneClassifier(config))
    for port in (classifier.plane, classifier.above, classifier.index, classifier.take):
        bench.m.d.comb += port.eq(AnySeq(len(port)))
    was_taken = Signal(init=1)
    bench.m.d.sync += was_taken.eq(classifier.take)
    for name in GATHERED:
        register = inside.register(name)
        before = Signal.like(register, name=f"{register.name}_before")
        bench.m.d.sync += before.eq(register)
        bench.implies(~was_taken, register == before)
    return bench


PROOFS = {
    "bases that are written": base_proof,
    "bases that are read": read_base_proof,
    "planes that are written": plane_proof,
    "planes that are read": read_plane_proof,
    "planes inside a run": inside_proof,
    "lengths": lengths_proof,
    "where runs begin": run_proof,
}


@pytest.mark.parametrize("proof", list(PROOFS))
def test_what_is_written_is_read_and_nothing_else(proof, tmp_path):
    check(PROOFS[proof](), tmp_path, depth=1, cover_depth=1)


SLICED = {32: EntryConfig(sector_bytes=32), 64: EntryConfig(sector_bytes=64)}


@pytest.mark.parametrize("sector_bytes", list(SLICED))
def test_a_plane_in_slices_has_the_symbol_of_the_whole(sector_bytes, tmp_path):
    config = SLICED[sector_bytes]
    prove(slices_proof(config), tmp_path, depth=config.sectors + 2, cover_depth=8)


@pytest.mark.parametrize("sector_bytes", list(SLICED))
def test_slices_wait_for_the_next_one(sector_bytes, tmp_path):
    prove(held_slices_proof(SLICED[sector_bytes]), tmp_path, depth=2, cover_depth=2)


FAULTS = {
    "a byte that is no sign": (
        BaseCoder,
        "above = self.base[bits - 1 :]",
        "above = self.base[bits:]",
        base_proof,
    ),
    "a shorter code for a base": (
        BaseCodeReader,
        "self.bad.eq(fits(half, 8))",
        "self.bad.eq(fits(half, 4))",
        read_base_proof,
    ),
    "a run with a plane more": (
        PlaneCoder,
        "self.number - 2 - self.last",
        "self.number - 1 - self.last",
        plane_proof,
    ),
    "two neighbors for one": (
        PlaneCoder,
        "symbol.one, symbol.place[::-1]",
        "symbol.two, symbol.place[::-1]",
        plane_proof,
    ),
    "a run beyond the last plane": (
        PlaneCodeReader,
        "code[25:30] + 2 > self.room",
        "code[25:30] + 1 > self.room",
        read_plane_proof,
    ),
    "a run behind a run": (
        PlaneCodeReader,
        "~in_run & (self.after_run | kind.run & overruns)",
        "~in_run & kind.run & overruns",
        read_plane_proof,
    ),
    "a plane inside a run with a code": (
        PlaneCodeReader,
        "with m.If(in_run | kind.run | kind.single):",
        "with m.If(kind.run | kind.single):",
        inside_proof,
    ),
    "a code where none is": (
        PlaneCoder,
        "with m.Elif(self.run_ends):",
        "with m.Else():",
        lengths_proof,
    ),
    "a run that begins later": (RunFinder, "+ span - 1", "+ span", run_proof),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_wrong_code_is_found(fault, monkeypatch, tmp_path):
    component, right, wrong, proof = FAULTS[fault]
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(proof(), tmp_path, depth=1)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("had_one & gathered[-1] & one & lowest", "had_one & one & lowest"),
        ("(self.index - lowest)[:-1]", "self.index"),
    ],
)
def test_slices_that_are_gathered_wrongly_are_found(right, wrong, monkeypatch, tmp_path):
    break_elaborate(monkeypatch, PlaneClassifier, right, wrong)
    find_fault(slices_proof(SLICED[32]), tmp_path, depth=8)
