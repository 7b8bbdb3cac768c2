"""Kept entries on their way through the decoders, each of which gets its own, and back to sectors.

The codecs are cut out: they give anything, in order. The solver picks an entry by its number.
"""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, SIZES, XC_METADATA
from cdma.golden.formats.bpc.bpc import encode_entries
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.entry import best_of_three, decompressor, sectors
from cdma.hw.codec.entry.best_of_three import BestOfThreeDecompressor
from cdma.hw.codec.entry.decompressor import EntryDecompressor
from cdma.hw.codec.entry.payloads import CODE_BYTES, ENTRY_BITS, EntrySector
from cdma.hw.codec.entry.sectors import LineCutter, SectorCutter
from cdma.hw.config import EntryConfig
from tests.formal.bench import Bench, Inside, Port
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.test_entry_compressor import CONFIGS, THREE, cut, moves, seen
from tests.formal.queues import FollowedFifo
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

NUMBER_BITS = 6
"""Fewer entries and sectors are on the way."""
CODE_OF_ZEROS = int.from_bytes(
    encode_entries(np.zeros(ENTRY_BYTES, np.uint8)).data[0].tobytes(), "little"
)


def no_rules(_bench: Bench, _port: Port) -> list[Any]:
    return []


def seen_entry(entry: Any) -> Value:
    """An entry's metadata, and some bits of each of its sectors."""
    return Cat(entry.metadata, seen(entry.data))


class Branches:
    """The outputs of a fork: each gets every entry once, as it came."""

    def __init__(self, bench: Bench, inside: Inside, entry: Port, outputs: int) -> None:
        self.fork = inside.component("fork")
        for k in range(outputs):
            output = self.fork.o[k]
            given = Signal(name=f"given_{k}")
            now = given | moves(output)
            bench.m.d.sync += given.eq(now & ~entry.moves)
            bench.require(inside["fork.sent"][k] == given)
            bench.implies(entry.moves, now)
            bench.implies(moves(output), entry.valid, ~given)
            bench.implies(output.valid, seen_entry(output.payload) == seen_entry(entry.payload))


def follow_queue(bench: Bench, inside: Inside, path: str, source: Any, sink: Any) -> None:
    """A queue gives what its source gave, in order."""
    m = bench.m
    queue = inside.component(path)
    picked = Signal(NUMBER_BITS, name=f"{path}_picked")
    came, left = Signal(NUMBER_BITS, name=f"{path}_came"), Signal(NUMBER_BITS, name=f"{path}_left")
    own = Signal(len(queue.item), name=f"{path}_own")
    held, ahead = (
        Signal(NUMBER_BITS, name=f"{path}_held"),
        Signal(NUMBER_BITS, name=f"{path}_ahead"),
    )
    takes = came == picked
    m.d.comb += [
        picked.eq(AnyConst(NUMBER_BITS)),
        queue.follows.eq(takes),
        held.eq(queue.require(bench, inside, f"{path}.")),
        ahead.eq(picked - left),
    ]
    m.d.sync += [came.eq(came + moves(source)), left.eq(left + moves(sink))]
    with m.If(moves(source) & takes):
        m.d.sync += own.eq(queue.seen(source.payload))
    bench.require((came - left)[:NUMBER_BITS] == held, queue.followed == (ahead < held))
    bench.implies(queue.followed, queue.ahead == ahead, queue.item == own)
    bench.implies(sink.valid & (left == picked), queue.seen(sink.payload) == own)
    bench.cover(moves(sink) & (left == picked) & (picked == 2))


def open_decompressor(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BpcPlaneDecoder", "BpcWordBuilder", "EntryPrechecker", "PlainSectors"):
        cut(monkeypatch, decompressor, name)

    def fifo(shape: Any, depth: int) -> FollowedFifo:
        return FollowedFifo(shape, depth, seen=seen if isinstance(shape, EntrySector) else None)

    monkeypatch.setattr(decompressor, "Fifo", fifo)


def decompressor_proof(config: EntryConfig) -> Bench:
    """Any entries; decoders that give anything, in order."""
    bench = Bench()
    component = EntryDecompressor(config)
    inside = bench.add(component)
    entry, out = bench.drive(component.i), bench.watch(component.o)
    kept = entry.payload
    decoder, builder, appraiser, judge, plain = (
        inside.component(name)
        for name in ("plane_decoder", "word_builder", "appraiser", "judge", "plain")
    )
    notes, waiting = inside.component("notes"), inside.component("waiting")
    for stream in (decoder.o, builder.o, appraiser.o, plain.o):
        bench.trust(stream, no_rules)
    branches = Branches(bench, inside, entry, 3)
    sinks = (decoder.i, appraiser.i, plain.i)
    for output, sink in zip(branches.fork.o, sinks, strict=True):
        bench.require(moves(output) == moves(sink))
    for sink in sinks[1:]:
        bench.implies(sink.valid, seen_entry(sink.payload) == seen_entry(kept))
    zeros = Const(CODE_OF_ZEROS, ENTRY_BITS)
    # BPC's decoder gets the codes of BPC, within their classes, and for all else that of zeros.
    code = decoder.i.payload
    of_bpc = (kept.metadata >= 1) & (kept.metadata < AS_IT_IS)
    size: Value = Const(CODE_BYTES, 8)
    for number in range(1, AS_IT_IS):
        size = Mux(kept.metadata == number, SIZES[number], size)
    bench.implies(
        decoder.i.valid,
        seen(code.data) == Mux(of_bpc, seen(kept.data), seen(zeros))[: len(seen(code.data))],
        code.size == size,
        of_bpc | (code.data[:16] == CODE_OF_ZEROS),
    )
    # What is noted of an entry meets its planes, and its words the sectors beside them.
    follow_queue(bench, inside, "notes", appraiser.o, notes.o)
    follow_queue(bench, inside, "waiting", plain.o, waiting.o)
    for stream in (judge.planes, judge.note, builder.i):
        bench.require(moves(stream) == moves(judge.o))
    bench.require(moves(notes.o) == moves(judge.note), moves(decoder.o) == moves(judge.planes))
    bench.require(moves(builder.o) == out.moves, moves(waiting.o) == out.moves)
    built, stored, given = builder.o.payload, waiting.o.payload, out.payload
    is_good = built.status == StreamStatus.OK
    bench.implies(
        out.valid,
        builder.o.valid,
        waiting.o.valid,
        given.status == built.status,
        given.offset == built.offset,
    )
    # Of the two, at least one is zero.
    built_bits, stored_bits, bits = seen(built.data), seen(stored.data), seen(given.data)
    bench.implies(out.valid & is_good, bits == built_bits | stored_bits)
    bench.implies(out.valid & ~is_good, bits == built_bits)
    bench.cover(
        moves(decoder.i) & of_bpc & (code.size == 80),
        moves(decoder.i) & ~of_bpc & (kept.metadata == AS_IT_IS),
        out.moves & is_good & (bits != 0) & (built_bits == 0),
        out.moves & ~is_good & (stored_bits != 0),
    )
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("config", configs(CONFIGS, quick=()))
def test_entries_get_to_their_decoders_and_back_together(config, tmp_path, monkeypatch):
    open_decompressor(monkeypatch)
    prove(decompressor_proof(config), tmp_path, depth=1, cover_depth=10)


FAULTS = {
    "decodes ZVC as BPC": ("m.Switch(kept.metadata)", "m.Switch(kept.metadata[:3])"),
    "decodes all of it": ("code.size.eq(SIZES[number])", "code.size.eq(CODE_BYTES)"),
    "restores what is wrong": (
        "Mux(built.status == StreamStatus.OK, stored.data, 0)",
        "stored.data",
    ),
    "takes sectors of different entries": (
        "waiting.o.ready.eq(self.o.ready & word_builder.o.valid)",
        "waiting.o.ready.eq(self.o.ready)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_decompressor_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    open_decompressor(monkeypatch)
    break_elaborate(monkeypatch, EntryDecompressor, *fault)
    find_fault(decompressor_proof(CONFIGS["32-best-of"]), tmp_path, depth=6)


def open_three(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EntryDecompressor", "XcEntryDecompressor"):
        cut(monkeypatch, best_of_three, name)


def three_proof(config: EntryConfig) -> Bench:
    """Any entries; decoders that give anything, in order."""
    bench = Bench()
    m = bench.m
    component = BestOfThreeDecompressor(config)
    inside = bench.add(component)
    entry, out = bench.drive(component.i), bench.watch(component.o)
    parameters = Value.cast(component.parameters)
    m.d.comb += parameters.eq(AnySeq(len(parameters)))
    two, xc = inside.component("two"), inside.component("xc")
    for stream in (two.o, xc.o):
        bench.trust(stream, no_rules)
    branches = Branches(bench, inside, entry, 2)
    bench.require(moves(branches.fork.o[0]) == moves(two.i))
    bench.require(moves(branches.fork.o[1]) == moves(xc.i))
    kept = entry.payload
    of_xc = (kept.metadata == XC_METADATA) & (component.parameters.centre != 0)
    given = xc.i.payload
    bench.implies(
        two.i.valid,
        two.i.payload.metadata == Mux(of_xc, 0, kept.metadata),
        seen(two.i.payload.data) == seen(kept.data),
    )
    bench.implies(
        xc.i.valid,
        given.of_xc == of_xc,
        seen(given.data) == seen(kept.data[: len(given.data)]),
        Value.cast(given.parameters) == parameters,
    )
    bench.require(moves(two.o) == out.moves, moves(xc.o) == out.moves)
    first, second, restored = two.o.payload, xc.o.payload, out.payload
    # One of the two is of zeros, and without an error.
    bench.implies(
        out.valid,
        two.o.valid,
        xc.o.valid,
        seen(restored.data) == seen(first.data) | seen(second.data),
        restored.offset == first.offset | second.offset,
        (first.status != StreamStatus.OK) | (restored.status == second.status),
        (second.status != StreamStatus.OK) | (restored.status == first.status),
    )
    bench.cover(moves(xc.i) & of_xc, moves(two.i) & ~of_xc & (kept.metadata == XC_METADATA))
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("config", configs(THREE, quick=()))
def test_entries_of_xc_get_to_its_decoder_alone(config, tmp_path, monkeypatch):
    open_three(monkeypatch)
    prove(three_proof(config), tmp_path, depth=1, cover_depth=6)


THREE_FAULTS = {
    "needs no centre": (" & self.parameters.centre.any()", ""),
    "decodes XC as the others, too": ("Mux(of_xc, 0, kept.metadata)", "kept.metadata"),
    "forgets XC's errors": (
        "Mux(first.status == StreamStatus.OK, second.status, first.status)",
        "first.status",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", THREE_FAULTS.values(), ids=THREE_FAULTS)
def test_best_of_three_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    open_three(monkeypatch)
    break_elaborate(monkeypatch, BestOfThreeDecompressor, *fault)
    find_fault(three_proof(THREE["64"]), tmp_path, depth=4)


def sectors_proof(config: EntryConfig) -> Bench:
    """Any entries: those as they are come sector by sector, all others as zeros."""
    bench = Bench()
    m = bench.m
    cutter = SectorCutter(config)
    inside = bench.add(cutter)
    entry, out = bench.drive(cutter.i), bench.watch(cutter.o)
    bits = 8 * config.sector_bytes
    own, index = Signal(ENTRY_BITS, name="own"), Signal(range(config.sectors + 1), name="index")
    busy = Signal(name="busy")
    ends = out.moves & (index == config.sectors - 1)
    m.d.sync += [busy.eq(entry.moves | (busy & ~ends)), index.eq(Mux(ends, 0, index + out.moves))]
    with m.If(entry.moves):
        m.d.sync += own.eq(Mux(entry.payload.metadata == AS_IT_IS, entry.payload.data, 0))
    left, rest = inside["left"], inside["rest"]
    bench.require(
        out.valid == busy, left == Mux(busy, config.sectors - index, 0), index < config.sectors
    )
    bench.implies(~busy, index == 0)
    bench.implies(entry.moves, ~busy | ends)
    for many in range(1, config.sectors + 1):
        bench.implies(left == many, seen(rest[: many * bits]) == seen(own[-many * bits :]))
    bench.implies(out.valid, seen(out.payload.data) == seen(own.word_select(index, bits)))
    bench.cover(ends & (out.payload.data != 0) & entry.moves)
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("width", [32, 64])
def test_entries_as_they_are_are_cut_into_sectors(width, tmp_path):
    prove(sectors_proof(EntryConfig(sector_bytes=width, mode="bpc")), tmp_path, depth=1)


def lines_proof(config: EntryConfig, patch: pytest.MonkeyPatch) -> Bench:
    """Any entries, with any count in the place of that of a mask's ones."""
    bench = Bench()
    m = bench.m
    zvc = config.zvc
    ones = Signal(range(zvc.elements + 1), name="ones")
    m.d.comb += ones.eq(AnySeq(len(ones)))
    bench.assume(ones <= zvc.elements)
    counted: list[Value] = []

    def any_count(mask: Value) -> Value:
        counted.append(mask)
        return ones

    patch.setattr(sectors, "count_ones", any_count)
    cutter = LineCutter(config)
    inside = bench.add(cutter)
    entry, out = bench.drive(cutter.i), bench.watch(cutter.o)
    kept = entry.payload
    for mask in counted:
        bench.require(mask == kept.data[: zvc.elements])
    bits = 8 * zvc.sector_bytes
    is_dense, of_zvc = kept.metadata == AS_IT_IS, kept.metadata[3]
    mask = Signal(zvc.elements, name="own_mask")
    payload, total = Signal(ENTRY_BITS, name="payload"), Signal(8, name="total")
    index, busy = Signal(range(zvc.sectors + 1), name="index"), Signal(name="busy")
    with m.If(entry.moves):
        m.d.sync += [
            mask.eq(Mux(is_dense, (1 << zvc.elements) - 1, Mux(of_zvc, kept.data, 0))),
            payload.eq(Mux(is_dense, kept.data, kept.data >> zvc.elements)),
            total.eq(Mux(is_dense, zvc.elements, Mux(of_zvc, ones, 0))),
        ]
    done = Signal(9, name="done")
    m.d.comb += done.eq((index + 1) * zvc.lanes)
    is_last = total <= done
    ends = out.moves & is_last
    m.d.sync += [busy.eq(entry.moves | (busy & ~ends)), index.eq(Mux(ends, 0, index + out.moves))]
    bench.require(out.valid == busy)
    bench.implies(~busy, index == 0)
    bench.implies(entry.moves, ~busy | ends)
    beat = out.payload
    here = index * zvc.lanes
    bench.implies(
        busy,
        total <= zvc.elements,
        (index == 0) | (here < total),
        inside["mask"] == mask,
        inside["left"] == (total - here)[: len(inside["left"])],
        inside["first"] == (index == 0),
        beat.sol == (index == 0),
        beat.eol == is_last,
        beat.mask == Mux(index == 0, mask, 0),
        beat.count == Mux(is_last, total - here, zvc.lanes)[:8],
        seen(Value.cast(beat.elements)) == seen(payload.word_select(index, bits)),
        ~beat.last,
        ~beat.empty,
    )
    for k in range(zvc.sectors):
        rest = inside["rest"][: ENTRY_BITS - k * bits]
        bench.implies(busy & (index == k), seen(rest) == seen(payload[k * bits :]))
    bench.cover(
        ends & (total == zvc.elements) & (mask != 0),
        ends & (total == 0) & entry.moves,
        ends & (total == 1),
    )
    return bench


@pytest.mark.verify
@pytest.mark.parametrize(
    "config",
    configs(
        {**CONFIGS, "64": EntryConfig(sector_bytes=64), "32-E2": EntryConfig(element_bytes=2)},
        quick=(),
    ),
)
def test_entries_are_cut_into_beats_of_lines(config, tmp_path, monkeypatch):
    prove(lines_proof(config, monkeypatch), tmp_path, depth=1, cover_depth=8)


CUTTER_FAULTS = {
    "gives all elements to BPC's": ("Mux(kept.metadata[-1], count_ones", "Mux(1, count_ones"),
    "keeps the mask as payload": ("rest.eq(kept.data[elements:])", "rest.eq(kept.data)"),
    "ends a line early": ("left <= lanes", "left <= lanes + 1"),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", CUTTER_FAULTS.values(), ids=CUTTER_FAULTS)
def test_cutter_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, LineCutter, *fault)
    bench = lines_proof(CONFIGS["32-best-of"], monkeypatch)
    find_fault(bench, tmp_path, depth=6)


@pytest.mark.verify
def test_sectors_of_codes_that_are_not_zeros_are_found(tmp_path, monkeypatch):
    break_elaborate(
        monkeypatch, SectorCutter, "Mux(kept.metadata == AS_IT_IS, kept.data, 0)", "kept.data"
    )
    find_fault(sectors_proof(EntryConfig(mode="bpc")), tmp_path, depth=4)
