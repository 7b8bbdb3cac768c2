"""The lossy lane's numbers from differences, and the values that stand for them.

The differences to the numbers before them are given of any numbers of a line: sums of them, in
levels of a tree and from sector to sector, have to be these numbers. Values are cut out;
`test_quantize.py` has what they are. Pipeline registers are left out (`Straight`); behind those
between levels there are the sums that have to be in front of them (`GivenLanes`), as whole trees
are too much for the solvers.
"""

import pytest
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.hdl._ast import AnySeq
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.lossy.fixed_width import RAW_HEADER
from cdma.hw.codec.quantize.arithmetic import HalfNormal, Scale
from cdma.hw.codec.quantize.decompressor import restorer
from cdma.hw.codec.quantize.decompressor.restorer import SUM_LEVELS, Restorer
from cdma.hw.codec.quantize.decompressor.symbol_reader import STEP_BITS
from cdma.hw.codec.quantize.payloads import NUMBER_BITS, lanes_of, own_config
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench, anything
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import any_number, straighten
from tests.formal.parts import prove_part
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

PLAIN, ZIGZAG, LORENZO, RAW = range(4)
"""Kinds of lines."""
STAGES = ("moved", "summed", "halves", "words")
"""Registers behind the sums, in the order in which they are made; those of sums come last."""
LIMIT = 1 << NUMBER_BITS - 1
"""Numbers are less than that, and more than its negative."""


class CutValues:
    """Stand-ins for values of numbers, which note of what they are."""

    def __init__(self, bench, patch):
        self.words, self.halves, self.values = [], [], []

        def free(bits, name):
            signal = Signal(bits, name=name)
            bench.m.d.comb += Value.cast(signal).eq(AnySeq(len(Value.cast(signal))))
            return signal

        def scale_of(m, word, k, *, name):
            scale = free(Scale(), f"{name}_scale")
            self.words.append((word, k, scale))
            return scale

        def half_normal(m, number, *, name):
            self.halves.append((number, free(HalfNormal(), f"{name}_half")))
            return self.halves[-1][1]

        def restored(m, half, k, *, name):
            word, infinite = free(32, f"{name}_word"), free(1, f"{name}_infinite")
            self.values.append((half.as_value(), k, word, infinite))
            return word, infinite

        for stand_in in (scale_of, half_normal, restored):
            patch.setattr(restorer, stand_in.__name__, stand_in)


class GivenLanes(wiring.Component):
    """Stands for a register of sectors: what goes in goes out at once, but for the lanes.

    Attributes
    ----------
    lanes : list of Signal
        What goes out of them.
    """

    def __init__(self, shape):
        self.lanes = [Signal(32, name=f"lane_{i}") for i in range(shape["lanes"].shape.length)]
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += [
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
            self.o.payload.tag.eq(self.i.payload.tag),
            *(out.eq(lane) for out, lane in zip(self.o.payload.lanes, self.lanes, strict=True)),
        ]
        return m


def cut_sums(patch):
    """Put a stand-in in the place of each register behind levels of sums; they are listed."""
    straight = restorer.PipelineRegister
    given, others = [], []

    def make(shape):
        # Those behind sums are made last.
        into, kind = (given, GivenLanes) if len(others) == len(STAGES) else (others, straight)
        into.append(kind(shape))
        return into[-1]

    patch.setattr(restorer, "PipelineRegister", make)
    return given


def restorer_proof(bench, sector_bytes, kind, patch):
    """Any numbers of lines of a kind come back from their steps, and values are of them."""
    config = own_config(CodecConfig(sector_bytes=sector_bytes))
    lanes = lanes_of(config)
    m = bench.m
    with patch.context() as context:
        values = CutValues(bench, context)
        made = straighten(context, restorer)
        given = cut_sums(context) if kind == LORENZO else []
        block = Restorer(config)
        inside = bench.add(block)
    moved, summed = (made[STAGES.index(name)].i.payload for name in ("moved", "summed"))
    sector, tag = block.i.payload, block.i.payload.tag
    payload = anything(block.i)
    numbers = [Signal(STEP_BITS, name=f"number_{i}") for i in range(lanes)]
    last = Signal(STEP_BITS, name="last_number")
    m.d.comb += [
        payload[0],
        sector.tag.as_value().eq(AnySeq(len(sector.tag.as_value()))),
        block.o.ready.eq(AnySeq(1)),
        block.numbered.ready.eq(AnySeq(1)),
        *(own.eq(AnySeq(STEP_BITS)) for own in numbers),
    ]
    words = [Signal(32, name=f"step_{i}") for i in range(lanes)]
    for i, before in enumerate([last, *numbers[:-1]]):
        step = (numbers[i] - before)[:STEP_BITS] if kind == LORENZO else numbers[i]
        high = Signal(32 - STEP_BITS, name=f"high_{i}")
        m.d.comb += [
            high.eq(AnySeq(len(high))),
            words[i].eq(Cat(step, high)),
            sector.lanes[i].eq(words[i]),
        ]
    for stage, sums in enumerate(given):
        # Each lane's is of all steps of its block up to it.
        block_lanes = min(1 << SUM_LEVELS * (stage + 1), lanes)
        for i, (into, out) in enumerate(zip(sums.i.payload.lanes, sums.lanes, strict=True)):
            first = i - i % block_lanes
            m.d.comb += out.eq((numbers[i] - [last, *numbers][first])[:STEP_BITS])
            bench.require(into == out)
    header = Signal(8)
    low = Signal(6)
    m.d.comb += [low.eq(AnySeq(6)), header.eq(RAW_HEADER if kind == RAW else Cat(low, C(kind, 2)))]
    m.d.comb += tag.layout.header.eq(header)
    fires = Signal()
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    with m.If(fires):
        m.d.sync += last.eq(Mux(tag.ends, 0, numbers[-1]) if kind == LORENZO else 0)
    bench.require(inside.register("before") == last)
    out, numbered = block.o.payload, block.numbered.payload
    raw = kind == RAW
    for i in range(lanes):
        bench.require(
            moved.lanes[i] == words[i] if raw else moved.lanes[i][:STEP_BITS] == numbers[i]
        )
    # A lane that the solver picks: its number is told, or the line has none.
    lane = any_number(bench, range(lanes), "lane")
    number = Signal(signed(STEP_BITS), name="own_number")
    m.d.comb += number.eq(at(numbers, lane))
    beyond = Cat((own.as_signed() >= LIMIT) | (own.as_signed() <= -LIMIT) for own in numbers).any()
    if raw:
        beyond = Cat(scale.raw for _, _, scale in values.words).any()
        bench.require(
            *(word == own for (word, _, _), own in zip(values.words, words, strict=True)),
            *(k == tag.layout.k for _, k, _ in values.words),
        )
    else:
        bench.implies(
            ~numbered.raw & ~tag.layout.empty,
            at([numbered.numbers[i].as_unsigned() for i in range(lanes)], lane)
            == number[:NUMBER_BITS],
            (number < LIMIT) & (number > -LIMIT),
            at([own.as_unsigned() for own, _ in values.halves], lane) == number[:NUMBER_BITS],
        )
        bench.require(
            at([half for half, _, _, _ in values.values], lane)
            == at([half.as_value() for _, half in values.halves], lane),
            *(k == tag.layout.k for _, k, _, _ in values.values),
        )
    bench.require(
        numbered.raw == (beyond & ~tag.layout.empty),
        numbered.ends == tag.ends,
        numbered.last == tag.last,
        numbered.empty == tag.layout.empty,
        summed.tag.as_value() == tag.as_value(),
        out.tag.as_value() == tag.as_value(),
        at(list(out.words), lane)
        == (at(words, lane) if raw else at([word for _, _, word, _ in values.values], lane)),
        out.infinite == (0 if raw else Cat(inf for _, _, _, inf in values.values).any()),
    )
    bench.cover(fires & ~tag.ends, fires & tag.ends & ~numbered.raw, fires & numbered.raw)


CASES = {
    f"{name}-S{sector_bytes}": (sector_bytes, kind)
    for sector_bytes in (32, 64, 128)
    for name, kind in (("plain", PLAIN), ("zigzag", ZIGZAG), ("lorenzo", LORENZO), ("raw", RAW))
}


AT_ONCE = {name: case for name, case in CASES.items() if name != "lorenzo-S128"}
"""Of the widest sums a solver decides some at a time."""
PARTS = 8


@pytest.mark.parametrize("case", configs(AT_ONCE, quick=[]))
def test_numbers_come_back_from_their_differences(case, tmp_path, monkeypatch):
    bench = Bench()
    restorer_proof(bench, *case, patch=monkeypatch)
    prove(bench, tmp_path, depth=1, cover_depth=6)


@pytest.mark.verify
@pytest.mark.parametrize("part", range(PARTS))
def test_numbers_of_the_widest_lines_come_back(part, tmp_path, monkeypatch):
    def proof(bench):
        restorer_proof(bench, 128, LORENZO, monkeypatch)

    prove_part(proof, tmp_path, part, parts=PARTS)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("(i & ~(2 * span - 1)) + span - 1", "i - span", LORENZO),
        ("header.lorenzo & ~sector.tag.ends", "header.lorenzo", LORENZO),
        ("(sign & (number[: NUMBER_BITS - 1] == 0))", "0", ZIGZAG),
        ("Mux(header.raw, scale.raw, beyond)", "beyond", RAW),
        ("~header.raw & Cat(infinite).any()", "Cat(infinite).any()", RAW),
    ],
    ids=["sums", "the line before", "the least number", "raw values", "raw infinities"],
)
def test_other_numbers_are_found(right, wrong, kind, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, Restorer, right, wrong)
    bench = Bench()
    restorer_proof(bench, 64, kind, monkeypatch)
    find_fault(bench, tmp_path, depth=4)
