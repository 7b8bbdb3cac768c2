"""One of an entry's codes is kept, of the least class that has room for it.

The codecs are cut out: they give any codes, in order. The solver picks an entry by its number.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst

from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, SIZES, XC_METADATA, ZVC_FLAG
from cdma.hw.codec.entry import best_of_three, compressor
from cdma.hw.codec.entry.best_of_three import BestOfThreeCompressor
from cdma.hw.codec.entry.compressor import EntryCompressor, ZvcCode, ZvcCollector
from cdma.hw.config import EntryConfig
from tests.formal.bench import Bench, CutOut
from tests.formal.broken import break_elaborate, break_function, find_fault
from tests.formal.queues import FollowedFifo, sampled
from tests.formal.smtbmc import prove
from tests.formal.wiring import leave_out
from tests.lib.shares import configs

SECTOR_BITS = 256
NUMBER_BITS = 5
"""Fewer entries are on the way."""
CONFIGS = {"32-best-of": EntryConfig()}
THREE = {"64": EntryConfig(sector_bytes=64, mode="best-of-three")}


def cut(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    """Put a stand-in with the same ports and latencies in the place of a component."""
    kind = getattr(module, name)

    def stand_in(*arguments: Any, **options: Any) -> CutOut:
        component = kind(*arguments, **options)
        leave_out(component)
        stands = CutOut(component)
        for attribute in ("entry_latency", "line_latency", "code_latency"):
            if hasattr(component, attribute):
                setattr(stands, attribute, getattr(component, attribute))
        return stands

    monkeypatch.setattr(module, name, stand_in)


def open_compressor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the codecs out, and what puts ZVC's beats together; follow one code in its queue."""
    for name in ("BpcCompressor", "ZvcCompressor", "ZvcCollector"):
        cut(monkeypatch, compressor, name)

    def fifo(shape: Any, depth: int = 1) -> FollowedFifo:
        return FollowedFifo(shape, depth, seen=seen_code)

    # A register is a queue for one as well as any.
    monkeypatch.setattr(compressor, "PipelineRegister", fifo)
    monkeypatch.setattr(compressor, "Fifo", fifo)


def seen_code(bits: Value) -> Value:
    """A code's class, and some bits of it."""
    code = ZvcCode()(bits)
    return Cat(code.size_class, seen(code.data))


def seen(bits: Value) -> Value:
    return sampled(bits, SECTOR_BITS)


def moves(stream: Any) -> Value:
    return stream.valid & stream.ready


def room_of(number: Value) -> Value:
    """Bytes of a class."""
    size: Value = Const(SIZES[0], 8)
    for k, own in enumerate(SIZES):
        size = Mux(number == k, own, size)
    return size


def compressor_proof(config: EntryConfig) -> Bench:
    """Any codes of both codecs, in any order of arrival."""
    bench = Bench()
    m = bench.m
    component = EntryCompressor(config)
    inside = bench.add(component)
    sector, out = bench.drive(component.i), bench.watch(component.o)
    bpc = inside.component("bpc")
    bench.trust(bpc.o, lambda _bench, _port: [])
    has_zvc = config.mode != "bpc"

    def number(name: str) -> Signal:
        return Signal(NUMBER_BITS, name=name)

    picked, coded, left, zvc_came = map(number, ("picked", "coded", "left", "zvc_came"))
    m.d.comb += picked.eq(AnyConst(NUMBER_BITS))
    code = bpc.o.payload
    m.d.sync += [coded.eq(coded + moves(bpc.o)), left.eq(left + out.moves)]
    own_bpc = Signal.like(Value.cast(code), name="own_bpc")
    own_zvc = Signal(ZvcCode(), name="own_zvc")
    with m.If(moves(bpc.o) & (coded == picked)):
        m.d.sync += own_bpc.eq(Value.cast(code))
    # Each codec gets each sector.
    bench.require(moves(bpc.i) == sector.moves)
    bench.implies(bpc.i.valid, Value.cast(bpc.i.payload) == Value.cast(sector.payload))
    if has_zvc:
        zvc, collector, queue = (inside.component(n) for n in ("zvc", "collector", "queue"))
        bench.trust(collector.o, lambda _bench, _port: [])
        bench.require(moves(zvc.i) == sector.moves)
        elements = Cat(zvc.i.payload.elements[k] for k in range(config.zvc.lanes))
        bench.implies(zvc.i.valid, elements == sector.payload.data)
        bench.require(moves(queue.o) == moves(bpc.o))
        m.d.sync += zvc_came.eq(zvc_came + moves(collector.o))
        takes_zvc = zvc_came == picked
        with m.If(moves(collector.o) & takes_zvc):
            m.d.sync += own_zvc.eq(collector.o.payload)
        m.d.comb += queue.follows.eq(takes_zvc)
        waiting, ahead = number("waiting"), number("ahead")
        m.d.comb += [
            waiting.eq(queue.require(bench, inside, "queue.")),
            ahead.eq(picked - coded),
        ]
        bench.require(
            (zvc_came - coded)[:NUMBER_BITS] == waiting, queue.followed == (ahead < waiting)
        )
        bench.implies(
            queue.followed, queue.ahead == ahead, queue.item == seen_code(own_zvc.as_value())
        )
    held = inside["kept.held_valid"]
    bench.require((coded - left)[:NUMBER_BITS] == held)

    # By the document: the least class of either code, BPC's where both are the same; all zeros are
    # of class 0, and what fits no class of codes is kept as it is.
    shape = code.shape()
    own = SimpleNamespace(bits=shape(own_bpc).bits, data=shape(own_bpc).data)
    length = Signal(12, name="bytes")
    m.d.comb += length.eq((own.bits + 7) >> 3)
    is_zero = own.bits == 10
    by_bpc, class_now = Signal(3, name="by_bpc"), Signal(3, name="class_now")
    m.d.comb += by_bpc.eq(AS_IT_IS)
    for k in reversed(range(1, AS_IT_IS)):
        with m.If(length <= SIZES[k]):
            m.d.comb += by_bpc.eq(k)
    with m.If(is_zero):
        m.d.comb += by_bpc.eq(0)
    of_zvc = (own_zvc.size_class < by_bpc) if has_zvc else Const(0)
    m.d.comb += class_now.eq(Mux(of_zvc, own_zvc.size_class, by_bpc))
    own_data, zvc_data = seen(own.data), seen(Cat(own_zvc.data, Const(0, SECTOR_BITS)))
    code_kept = Mux(of_zvc, zvc_data, own_data) if has_zvc else own_data
    is_own = out.valid & (left == picked)
    kept = out.payload
    bench.implies(
        is_own,
        kept.metadata == Mux(of_zvc, class_now | ZVC_FLAG, class_now),
        seen(kept.data) == Mux(is_zero, 0, code_kept),
        # The code that is kept has room in its class, and in no lesser one.
        of_zvc | (class_now == AS_IT_IS) | (class_now == 0) | (length <= room_of(class_now)),
        of_zvc | (class_now <= 1) | (length > room_of((class_now - 1)[:3])),
        class_now <= by_bpc,
    )
    bench.cover(
        *(out.moves & is_own & ~of_zvc & (by_bpc == k) for k in (0, 1, 6, 7)),
    )
    if has_zvc:
        bench.cover(
            out.moves & is_own & of_zvc & (class_now == 6) & (by_bpc == 7),
            out.moves & is_own & ~of_zvc & (by_bpc == own_zvc.size_class),
        )
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("config", configs(CONFIGS, quick=()))
def test_least_code_of_an_entry_is_kept(config, tmp_path, monkeypatch):
    open_compressor(monkeypatch)
    prove(compressor_proof(config), tmp_path, depth=1, cover_depth=8)


FAULTS = {
    "prefers ZVC": ("size_class < bpc_class", "size_class <= bpc_class"),
    "tells the codec wrongly": ("bpc_class), of_zvc)", "bpc_class), ~of_zvc)"),
    "keeps the other code": (
        "Mux(of_zvc, zvc.o.payload.data, code.data)",
        "Mux(of_zvc, code.data, zvc.o.payload.data)",
    ),
    "takes codes of different entries": (
        "zvc.o.ready.eq(control.i_ready & bpc.o.valid)",
        "zvc.o.ready.eq(control.i_ready)",
    ),
    "keeps a code of zeros": ("Mux(all_zero, 0, bits)", "bits"),
    "gives a sector to one of them": (
        "zvc.i.valid.eq(self.i.valid & bpc.i.ready)",
        "zvc.i.valid.eq(self.i.valid)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_compressor_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    open_compressor(monkeypatch)
    break_elaborate(monkeypatch, EntryCompressor, *fault)
    find_fault(compressor_proof(CONFIGS["32-best-of"]), tmp_path, depth=6)


@pytest.mark.verify
def test_class_that_is_too_small_is_found(tmp_path, monkeypatch):
    open_compressor(monkeypatch)
    break_function(monkeypatch, compressor, "_class_of", "length > limit", "length > limit + 8")
    find_fault(compressor_proof(CONFIGS["32-best-of"]), tmp_path, depth=6)


def collector_proof(config: EntryConfig) -> Bench:
    """Any lines of an entry, beat by beat."""
    bench = Bench()
    m = bench.m
    collector = ZvcCollector(config)
    inside = bench.add(collector)
    zvc = config.zvc
    i, out = bench.drive(collector.i), bench.watch(collector.o)
    beat = i.payload
    number, before = Signal(range(zvc.sectors + 1), name="number"), Signal(8, name="before")
    mask = Signal(zvc.elements, name="mask")
    with m.If(i.moves):
        m.d.sync += [
            number.eq(Mux(beat.eol, 0, number + 1)),
            before.eq(Mux(beat.eol, 0, before + beat.count)),
        ]
        with m.If(number == 0):
            m.d.sync += mask.eq(beat.mask)
    bench.assume(
        ~i.valid
        | (
            (beat.sol == (number == 0))
            & (beat.eol | ((beat.count == zvc.lanes) & (number < zvc.sectors - 1)))
            & (beat.count <= zvc.lanes)
        )
    )
    # The payload follows the mask, beat by beat; behind its beats are zeros.
    bits = 8 * zvc.sector_bytes
    now = Cat(Value.cast(beat.elements[k]) for k in range(zvc.lanes))
    words = [Signal(bits, name=f"beat_{k}") for k in range(zvc.sectors)]

    def seen_beat(word: Value) -> Value:
        return sampled(word, bits)

    words_now = [Mux(number == k, now, Mux(number > k, word, 0)) for k, word in enumerate(words)]
    with m.If(i.moves):
        m.d.sync += [word.eq(word_now) for word, word_now in zip(words, words_now, strict=True)]
    total, mask_now = Signal(8, name="total"), Signal(zvc.elements, name="mask_now")
    m.d.comb += [
        total.eq(before + beat.count),
        mask_now.eq(Mux(number == 0, beat.mask, mask)),
    ]
    bench.require(before == number * zvc.lanes, number < zvc.sectors)
    if zvc.sectors > 1:
        bench.require(inside["number"] == number)
        bench.implies(number != 0, inside["held_mask"] == mask)
    for k, word in enumerate(words[:-1]):
        if f"held_{k}" in inside.signals:
            bench.implies(number > k, seen_beat(inside[f"held_{k}"]) == seen_beat(word))
    code = out.payload
    size = zvc.mask_bytes + total * zvc.element_bytes
    fits = code.size_class < AS_IT_IS
    bench.require((out.valid & out.ready) == (i.moves & beat.eol))
    payload = code.data[zvc.elements :]
    bench.implies(
        out.valid,
        code.size_class >= 1,
        ~fits | (size <= room_of(code.size_class)),
        (code.size_class == 1) | (size > room_of((code.size_class - 1)[:3])),
        code.data[: zvc.elements] == mask_now,
        # A code has room for a part of its last beat.
        *(
            seen_beat(Cat(part, Const(0, bits - len(part))))
            == seen_beat(word & ((1 << len(part)) - 1))
            for k, word in enumerate(words_now)
            if len(part := payload[k * bits : (k + 1) * bits])
        ),
    )
    bench.cover(
        out.moves & (code.size_class == 1),
        out.moves & (code.size_class == 6),
        out.moves & (code.size_class == 7),
    )
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("config", configs(CONFIGS, quick=()))
def test_beats_of_a_line_become_its_code_and_class(config, tmp_path):
    prove(collector_proof(config), tmp_path, depth=1, cover_depth=8)


COLLECTOR_FAULTS = {
    "counts the last beat alone": ("number * config.lanes + beat.count", "beat.count"),
    "shifts beats": ("with m.If(number > k)", "with m.If(number == k + 1)"),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", COLLECTOR_FAULTS.values(), ids=COLLECTOR_FAULTS)
def test_collector_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, ZvcCollector, *fault)
    find_fault(collector_proof(CONFIGS["32-best-of"]), tmp_path, depth=8)


def three_proof(config: EntryConfig) -> Bench:
    """Any results of the two codes, and any of XC."""
    bench = Bench()
    m = bench.m
    component = BestOfThreeCompressor(config)
    inside = bench.add(component)
    sector, out = bench.drive(component.i), bench.watch(component.o)
    parameters = Value.cast(component.parameters)
    m.d.comb += parameters.eq(AnyConst(len(parameters)))
    two, xc = inside.component("two"), inside.component("xc")
    for stream in (two.o, xc.o):
        bench.trust(stream, lambda _bench, _port: [])
    for codec in (two, xc):
        bench.require(moves(codec.i) == sector.moves)
        bench.implies(codec.i.valid, Value.cast(codec.i.payload) == Value.cast(sector.payload))
    bench.require(Value.cast(xc.parameters) == parameters)
    # The code of XC waits in registers for what the two others take longer for.
    stages = [
        (inside[f"coded_{k}.held_valid"], inside[f"coded_{k}.held"])
        for k in range(component.entry_latency - 2 * config.sectors - 3)
    ]

    def number(name: str) -> Signal:
        return Signal(NUMBER_BITS, name=name)

    picked, came, left = map(number, ("picked", "came", "left"))
    m.d.comb += picked.eq(AnyConst(NUMBER_BITS))
    m.d.sync += [came.eq(came + moves(xc.o)), left.eq(left + out.moves)]
    shape = xc.o.payload.shape()

    def seen_xc(item: Any) -> Value:
        code = shape(Value.cast(item))
        return Cat(code.fits, seen(Cat(code.data, Const(0, 8 * ENTRY_BYTES - len(code.data)))))

    bits = len(seen_xc(xc.o.payload))
    own_xc = Signal(bits, name="own_xc")
    own_now = Signal(bits, name="own_now")
    takes_own = came == picked
    m.d.comb += own_now.eq(seen_xc(xc.o.payload) if not stages else own_xc)
    with m.If(moves(xc.o) & takes_own):
        m.d.sync += own_xc.eq(seen_xc(xc.o.payload))
    ahead: Value = left
    for there, held in reversed(stages):
        mine = number("mine")
        m.d.comb += mine.eq(ahead)
        bench.implies(there & (mine == picked), seen_xc(held) == own_xc)
        ahead = mine + there
    bench.require(ahead[:NUMBER_BITS] == came)
    fits, own_data = own_now[0], own_now[1:]
    first = two.o.payload
    is_own = out.valid & (left == picked)
    bench.require(moves(two.o) == out.moves)
    of_xc = (first.metadata == AS_IT_IS) & fits
    bench.implies(
        is_own,
        two.o.valid,
        out.payload.metadata == Mux(of_xc, XC_METADATA, first.metadata),
        seen(out.payload.data) == Mux(of_xc, own_data, seen(first.data)),
    )
    bench.cover(
        out.moves & is_own & of_xc & (picked == 1),
        out.moves & is_own & fits & (first.metadata == 6),
        out.moves & is_own & ~fits & (first.metadata == AS_IT_IS),
    )
    return bench


def open_three(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EntryCompressor", "XcEntryCompressor"):
        cut(monkeypatch, best_of_three, name)


@pytest.mark.verify
@pytest.mark.parametrize("config", configs(THREE, quick=()))
def test_xc_is_kept_where_the_others_would_keep_an_entry_as_it_is(config, tmp_path, monkeypatch):
    open_three(monkeypatch)
    prove(three_proof(config), tmp_path, depth=1, cover_depth=8)


THREE_FAULTS = {
    "keeps what does not fit": (
        "(kept.metadata == AS_IT_IS) & code.fits",
        "kept.metadata == AS_IT_IS",
    ),
    "prefers XC": ("(kept.metadata == AS_IT_IS) & code.fits", "code.fits"),
    "takes codes of different entries": (
        "coded.ready.eq(self.o.ready & two.o.valid)",
        "coded.ready.eq(self.o.ready)",
    ),
    "tells no codec": ("Mux(of_xc, XC_METADATA, kept.metadata)", "kept.metadata"),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", THREE_FAULTS.values(), ids=THREE_FAULTS)
def test_best_of_three_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    open_three(monkeypatch)
    break_elaborate(monkeypatch, BestOfThreeCompressor, *fault)
    find_fault(three_proof(THREE["64"]), tmp_path, depth=6)
