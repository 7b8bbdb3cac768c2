"""Writes on their way through the codec: merged with what was fetched, and with their own code.

The solver picks a write by its number, and a sector of its entry, of which some bits are looked
at. The codec is cut out: it gives any result for each entry, in order.
"""

from typing import Any

import pytest
from amaranth.hdl import Cat, Const, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnyConst

from cdma.golden.buddy.entry import AS_IT_IS
from cdma.hw.buddy.payloads import AccessStatus, EntryWrite, StoredEntry, WriteKind
from cdma.hw.buddy.write import encoder
from cdma.hw.buddy.write.encoder import WriteEncoder
from cdma.hw.codec.entry.best_of_three import entry_compressor
from cdma.hw.config import BUDDY_PRESETS, BuddyConfig, EntryConfig
from cdma.hw.lib.fifo import Fifo
from tests.formal.bench import Bench, Condition, Contract, CutOut, Port
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.buddy.payload_rules import (
    FETCHED,
    SectorsAlike,
)
from tests.formal.buddy.test_write_back import is_coded
from tests.formal.queues import FollowedFifo, WeighedFifo, follow, sampled
from tests.formal.smtbmc import prove
from tests.formal.wiring import leave_out

CONFIGS = {"tiny": BUDDY_PRESETS["tiny"]}


def no_rules(_bench: Bench, _port: Port) -> list[Condition]:
    return []


def seen_write(write: Any) -> Value:
    """The kind of a write, whose it is, and a bit of each address that goes with it."""
    place = write.mapping
    addresses = (write.address, place.device_address, place.buddy_address, place.metadata_address)
    return Cat(
        *(write.id, write.last, Value.cast(write.kind), Value.cast(write.status)),
        *(place.compressed, place.target, *(address[0] for address in addresses)),
    )


def seen_of(config: BuddyConfig, entry: Any) -> Value:
    """Some bits of an entry to be stored."""
    bits = 8 * config.entry.sector_bytes
    data, strobe = sampled(entry.data, bits), sampled(entry.strobe, bits // 8)
    return Cat(seen_write(entry.write), entry.metadata, strobe, data)


def strobes_of(strobe: Value, word: int) -> Value:
    """A bit for each one that `sampled` gives of words of so many bytes: it is written."""
    bits = Cat(written.replicate(8) for written in strobe)
    return sampled(bits, 8 * word)


def open_encoder(config: BuddyConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the codec out, and let the solver see one write in each queue."""

    def codec(config: EntryConfig) -> CutOut:
        component = entry_compressor(config)
        leave_out(component)
        return CutOut(component)

    def fifo(shape: Any, depth: int) -> Fifo:
        if isinstance(shape, EntryWrite):
            return WeighedFifo(
                shape,
                depth,
                lambda bits: is_coded(shape(bits).kind),
                seen=lambda bits: seen_write(shape(bits)),
            )
        return FollowedFifo(shape, depth, seen=lambda bits: seen_of(config, shape(bits)))

    monkeypatch.setattr(encoder, "entry_compressor", codec)
    monkeypatch.setattr(encoder, "Fifo", fifo)


class Encoder:
    """A `WriteEncoder` in a bench, with any writes, fetched sectors, and results of a codec.

    Attributes
    ----------
    alike : SectorsAlike
        Of the fetched sectors.
    is_partial, fails, encodes : Signal
        Of the write at hand: it is merged; its fetch has failed; the codec gets it.
    status : Signal
        That of the fetch.
    """

    def __init__(self, bench: Bench, config: BuddyConfig) -> None:
        component = WriteEncoder(config)
        self.inside = bench.add(component)
        self.alike = SectorsAlike(config)
        self.write = bench.drive(component.i)
        self.data = bench.drive(component.data)
        self.fetched = bench.drive(component.fetched, Contract(FETCHED, self.alike))
        self.out = bench.watch(component.o)
        self.codec = self.inside.component("compressor")
        self.result = bench.trust(self.codec.o, no_rules)
        new = self.write.payload
        self.is_partial, self.fails, self.encodes = (
            Signal(name=name) for name in ("is_partial", "fails", "encodes")
        )
        self.status = Signal(AccessStatus, name="fetch_status")
        bench.m.d.comb += [
            self.is_partial.eq(new.kind == WriteKind.PARTIAL),
            self.status.eq(Value.cast(self.fetched.payload.status)),
            self.fails.eq(self.is_partial & (self.status != AccessStatus.OK)),
            self.encodes.eq(is_coded(new.kind) & ~self.fails),
        ]


def merge_proof(config: BuddyConfig) -> Bench:
    """The codec gets the sectors of each write, merged with those that were fetched for it.

    Queues take what they get whenever they like. The solver picks a sector of all entries.
    """
    bench = Bench()
    m = bench.m
    sectors, width = config.entry.sectors, config.entry.sector_bytes
    encoder = Encoder(bench, config)
    write, data, fetched = encoder.write, encoder.data, encoder.fetched
    alike, is_partial, encodes = encoder.alike, encoder.is_partial, encoder.encodes
    sector = bench.observe(encoder.codec.i, encoder.codec.i.payload, no_rules)
    new, payload = write.payload, data.payload
    chosen = Signal(range(sectors), name="chosen")
    if sectors > 1:
        m.d.comb += chosen.eq(AnyConst(len(chosen)))

    def seen(sector: Value) -> Value:
        return sampled(sector, 8 * width)

    # The sectors that the codec gets of a write, and those that were fetched for it.
    sent, sent_now = Signal(range(sectors + 2), name="sent"), Signal(range(sectors + 2))
    m.d.comb += sent_now.eq(sent + sector.moves)
    m.d.sync += sent.eq(Mux(write.moves, 0, sent_now))
    # In reset, a write may go away before it is taken.
    lives = ~ResetSignal()
    bench.require(write.moves == data.moves)
    bench.implies(lives & sector.moves, write.valid, data.valid)
    bench.implies(lives & fetched.moves, write.valid, data.valid, is_partial)
    bench.implies(
        lives & write.moves,
        fetched.moves == is_partial,
        ~is_partial | (alike.before == sectors - 1),
        sent_now == Mux(encodes, sectors, 0),
    )
    # The chosen one of these: what the codec gets is that of the write where it has one.
    names = ("old", "got", "old_now", "got_now")
    bits = len(seen(sector.payload.data))
    old, got, old_now, got_now = (Signal(bits, name=name) for name in names)
    m.d.comb += [old_now.eq(old), got_now.eq(got)]
    for now, port, at in ((old_now, fetched, alike.before), (got_now, sector, sent)):
        with m.If(port.moves & (at == chosen)):
            m.d.comb += now.eq(seen(port.payload.data))
    m.d.sync += [old.eq(old_now), got.eq(got_now)]
    own = seen(payload.data.word_select(chosen, 8 * width))
    strobes = strobes_of(payload.strobe.word_select(chosen, width), width)
    is_written, merged = Signal(bits, name="is_written"), Signal(bits, name="merged")
    m.d.comb += [
        is_written.eq(Mux(is_partial, strobes, ~Const(0, bits))),
        merged.eq((own & is_written) | (old_now & ~is_written)),
    ]
    bench.implies(lives & write.moves & encodes, got_now == merged)
    for name in ("order", "bypass"):
        encoder.inside.component(name).require(bench, encoder.inside, f"{name}.")
    # Within a write.
    index = encoder.inside["index"] if sectors > 1 else Const(0)
    failed_before = is_partial & (alike.status != AccessStatus.OK.value)
    bench.require(index < sectors, alike.before < sectors)
    bench.implies(index == 0, sent == 0, alike.before == 0)
    bench.implies(
        lives & (index != 0),
        write.waiting & data.waiting,
        is_coded(new.kind),
        sent == Mux(failed_before, 0, index),
        alike.before == Mux(is_partial, index, 0),
        failed_before | (chosen >= index) | (got == merged),
    )
    bench.cover(
        write.moves & encodes & (is_written == 1) & (own == 6) & (old_now == 1),
        write.moves & (new.kind == WriteKind.FULL),
        write.moves & encoder.fails,
    )
    return bench


def queue_proof(config: BuddyConfig) -> Bench:
    """Writes leave in order, once each, each with its own result of the codec or as it came."""
    bench = Bench()
    m = bench.m
    encoder = Encoder(bench, config)
    write, out, result, encodes = encoder.write, encoder.out, encoder.result, encoder.encodes
    order, bypass = (encoder.inside.component(name) for name in ("order", "bypass"))
    bench.assume(order.possible)
    number_bits = (config.writes + 2).bit_length()

    def number(name: str) -> Signal:
        return Signal(number_bits, name=name)

    def less(one: Value, other: Value) -> Value:
        return (one - other)[:number_bits]

    # Numbers of writes that came and left, and of those that the codec got and gave.
    picked, came, left, coded, given = map(number, ("picked", "came", "left", "coded", "given"))
    m.d.comb += picked.eq(AnyConst(number_bits))
    m.d.sync += [
        came.eq(came + write.moves),
        left.eq(left + out.moves),
        coded.eq(coded + (write.moves & encodes)),
        given.eq(given + result.moves),
    ]
    # The picked write, as it is to leave. In the queue of all, one whose fetch failed has its
    # former status still.
    new, payload = write.payload, encoder.data.payload
    is_own = Signal()
    m.d.comb += is_own.eq(came == picked)
    own, expected = Signal(StoredEntry(config)), Signal(StoredEntry(config), name="expected")
    own_coded, own_number, own_status = Signal(), number("own_number"), Signal(AccessStatus)
    m.d.comb += [
        expected.write.eq(new),
        expected.metadata.eq(AS_IT_IS),
        expected.data.eq(payload.data),
        expected.strobe.eq(payload.strobe),
    ]
    with m.If(encoder.fails):
        m.d.comb += [
            expected.write.kind.eq(WriteKind.FAILED),
            expected.write.status.eq(encoder.status),
        ]
    with m.If(write.moves & is_own):
        m.d.sync += [
            own.eq(expected),
            own_coded.eq(encodes),
            own_number.eq(coded),
            own_status.eq(new.status),
        ]
    queued_write = Signal(EntryWrite(config), name="queued_write")
    m.d.comb += [queued_write.eq(own.write), queued_write.status.eq(own_status)]

    waiting = follow(bench, encoder.inside, "order", is_own, less(picked, left), queued_write)
    in_codec, before = order.weights(bench, encoder.inside, "order.")
    m.d.comb += bypass.follows.eq(is_own)
    beside = bypass.require(bench, encoder.inside, "bypass.")
    bench.require(
        less(came, left) == waiting,
        less(coded, given) == in_codec,
        waiting == in_codec + beside,
        waiting <= config.writes + 1,
    )
    waits = order.followed
    bench.implies(
        waits,
        own_coded == is_coded(own.write.kind),
        ~own_coded | (own_status == own.write.status),
    )
    bench.implies(waits & own_coded, less(own_number, given) == before)
    bench.implies(
        waits & ~own_coded,
        bypass.followed,
        bypass.ahead == less(picked, left) - before,
        bypass.item == seen_of(config, own),
    )

    gives = Signal()
    m.d.comb += gives.eq(out.valid & (left == picked))
    stored = out.payload
    bench.implies(
        gives,
        seen_write(stored.write) == seen_write(own.write),
        result.moves == (out.moves & own_coded),
    )
    bits = 8 * config.entry.sector_bytes
    bench.implies(
        gives & own_coded,
        result.valid,
        given == own_number,
        stored.metadata == result.payload.metadata,
        sampled(stored.data, bits) == sampled(result.payload.data, bits),
        stored.strobe.all(),
    )
    bench.implies(gives & ~own_coded, seen_of(config, stored) == seen_of(config, own))
    kind = own.write.kind
    bench.cover(
        gives & (kind == WriteKind.PARTIAL) & (picked == 1),
        gives & (kind == WriteKind.FULL) & (beside != 0),
        gives & (kind == WriteKind.UNCOMPRESSED) & (in_codec != 0) & out.ready,
        gives & (kind == WriteKind.FAILED) & (own_status == AccessStatus.OK),
    )
    return bench


PROOFS = {"merge": merge_proof, "queues": queue_proof}
CASES = {f"{proof}-{name}": (proof, config) for proof in PROOFS for name, config in CONFIGS.items()}


@pytest.mark.verify
@pytest.mark.parametrize(("proof", "config"), CASES.values(), ids=CASES)
def test_writes_are_merged_and_leave_with_their_own_codes(proof, config, tmp_path, monkeypatch):
    open_encoder(config, monkeypatch)
    prove(PROOFS[proof](config), tmp_path, depth=1, cover_depth=12)


FAULTS = {
    "takes all bytes of a write in part": (
        *("merge", 6),
        *("sector_strobe[j] | ~partial,", "sector_strobe[j] | 1,"),
    ),
    "merges a whole write": ("merge", 6, "sector_strobe[j] | ~partial,", "sector_strobe[j],"),
    "merges the first sector only": (
        *("merge", 6),
        *("data.word_select(index, 8 * width)", "data.word_select(0, 8 * width)"),
    ),
    "compresses behind a failed fetch": (
        *("merge", 6),
        *("valid & needs_codec & ~fetch_failed & space", "valid & needs_codec & space"),
    ),
    "takes what was fetched for another": (
        *("merge", 6),
        *("self.fetched.ready.eq(fire & partial)", "self.fetched.ready.eq(fire)"),
    ),
    "forgets why a fetch failed": (
        *("queues", 8),
        *("bypass.i.payload.write.status.eq(self.fetched.payload.status),", ""),
    ),
    "waits for a code of what failed": (
        *("queues", 6),
        "order.i.payload.kind.eq(WriteKind.FAILED)",
        "order.i.payload.kind.eq(WriteKind.FULL)",
    ),
    "calls what is not compressed zeros": (
        *("queues", 5),
        *("bypass.i.payload.metadata.eq(AS_IT_IS)", "bypass.i.payload.metadata.eq(0)"),
    ),
    "drops codes": (
        *("queues", 5),
        *("compressor.o.ready.eq(ready & compressed)", "compressor.o.ready.eq(self.o.ready)"),
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_encoder_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    proof, depth, right, wrong = fault
    config = CONFIGS["tiny"]
    open_encoder(config, monkeypatch)
    break_elaborate(monkeypatch, WriteEncoder, right, wrong)
    find_fault(PROOFS[proof](config), tmp_path, depth=depth)
