"""Entries on their way to both memories: metadata, runs, and the burst's answer.

The solver picks an entry by its number. What writes runs is cut out: it takes
runs and tells the outcome of each in order, whatever it is; `test_run_writer.py` proves that the
real one does, once the run is in memory.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnyConst

from cdma.golden.buddy.address_map import (
    DEVICE_SLOT_BYTES,
    ENTRY_SECTORS,
    Target,
    split_sectors,
)
from cdma.golden.buddy.entry import SECTOR_BYTES, XC_CLASS, XC_METADATA
from cdma.hw.buddy.payloads import (
    DEVICE_ADDRESS_BITS,
    ENTRY_OFFSET_BITS,
    SECTOR_OFFSET_BITS,
    AccessStatus,
    MetadataError,
    StoredEntry,
    WriteKind,
)
from cdma.hw.buddy.write import write_back
from cdma.hw.buddy.write.run_writer import RunWriter
from cdma.hw.buddy.write.write_back import POISON, WriteBack
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.bus.burst import BusError
from cdma.hw.config import BUDDY_PRESETS, BuddyConfig
from cdma.hw.lib.fifo import Fifo
from tests.formal.bench import Bench, CutOut
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.buddy.contracts import Choice
from tests.formal.queues import FollowedFifo, WeighedFifo, follow, sampled
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

SECTOR_BITS = 8 * SECTOR_BYTES
CONFIGS = {"tiny": BUDDY_PRESETS["tiny"]}
ERRORS = {
    MetadataError.UNCORRECTABLE: AccessStatus.METADATA_UNCORRECTABLE,
    MetadataError.READ: AccessStatus.METADATA_READ,
    MetadataError.TIMEOUT: AccessStatus.TIMEOUT,
}
CLASSES = np.arange(8)
SPLITS = {
    target: [counts.tolist() for counts in split_sectors(target, CLASSES)] for target in Target
}
"""Sectors in device memory and in buddy memory of each class, for each target."""


def is_coded(kind: Value) -> Value:
    """A write's data pass the encoder."""
    kind = Value.cast(kind)
    return (kind == WriteKind.FULL.value) | (kind == WriteKind.PARTIAL.value)


def seen_of(shape: StoredEntry) -> Callable[[Value], Value]:
    """Some bits of each sector of an entry's data, and all the rest."""

    def seen(bits: Value) -> Value:
        entry = shape(bits)
        data = sampled(entry.data, SECTOR_BITS)
        return Cat(Value.cast(entry.write), entry.metadata, entry.strobe, data)

    return seen


def open_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the solver see one item of each queue, and of entries how many have metadata."""

    def fifo(shape: Any, depth: int) -> Fifo:
        if isinstance(shape, StoredEntry):
            return WeighedFifo(
                shape, depth, lambda bits: is_coded(shape(bits).write.kind), seen=seen_of(shape)
            )
        return FollowedFifo(shape, depth)

    monkeypatch.setattr(write_back, "Fifo", fifo)
    monkeypatch.setattr(write_back, "RunWriter", lambda *shape: CutOut(RunWriter(*shape)))
    monkeypatch.setattr("cdma.hw.buddy.address.slots.Array", Choice)


@pytest.fixture(autouse=True)
def _queues_are_open(monkeypatch):
    open_queues(monkeypatch)


def class_of(config: BuddyConfig, metadata: Value, place: Any) -> Value:
    """The class of an entry, which a page's parameters may decide."""
    if not config.entry.has_parameters:
        return metadata[:3]
    of_xc = (metadata == XC_METADATA) & (place.parameters.centre != 0)
    return Mux(of_xc, XC_CLASS, metadata[:3])


def sectors_of(config: BuddyConfig, metadata: Value, place: Any) -> tuple[Value, Value]:
    """Sectors in device memory and in buddy memory, by the tables of the golden model."""
    number = class_of(config, metadata, place)
    device: Value = Const(0, 3)
    buddy: Value = Const(0, 3)
    for target, (in_device, in_buddy) in SPLITS.items():
        of_target = place.target == target.value
        device = Mux(of_target, Choice(in_device)[number], device)
        buddy = Mux(of_target, Choice(in_buddy)[number], buddy)
    return device, buddy


def is_translated(entry: Any) -> Value:
    """Return whether an entry to write is one of a page, with a slot where it may be.

    All of an entry that has metadata is written, and all others are of pages as they are.
    """
    write, place = entry.write, entry.write.mapping
    coded = is_coded(write.kind)
    slot = DEVICE_SLOT_BYTES[Target.X16]
    offset = place.device_address[:SECTOR_OFFSET_BITS]
    return (~coded | entry.strobe.all()) & (
        (write.status != AccessStatus.OK)
        | (
            (place.target < len(Target))
            & (place.compressed == coded)
            & (place.compressed | (place.target == Target.X1.value))
            & (place.compressed | (place.device_address[:ENTRY_OFFSET_BITS] == 0))
            & ((place.target != Target.X16.value) | (offset % slot == 0))
        )
    )


def back_proof(config: BuddyConfig) -> Bench:
    """Any entries; a cache that answers each lookup, in order; memories that answer each run."""
    bench = Bench()
    m = bench.m
    back = WriteBack(config)
    inside = bench.add(back)
    entry = bench.drive(back.i)
    lookup, result = bench.watch(back.lookup), bench.drive(back.result)
    poison, poisoned = bench.watch(back.poison), bench.drive(back.poisoned)
    answer = bench.watch(back.o)
    entries, results, outstanding, responses = (
        inside.component(name) for name in ("entries", "results", "outstanding", "responses")
    )
    device, buddy = inside.component("device"), inside.component("buddy")

    # What is written is what an encoder gives, of a place that is translated.
    new = entry.payload
    mapping = new.write.mapping
    bench.assume(is_translated(new))
    bench.assume(entries.possible)

    # Numbers of entries and of lookups.
    number_bits = (8 * config.writes + 16).bit_length()

    def number(name: str) -> Signal:
        return Signal(number_bits, name=name)

    def ahead(one: Value, other: Value) -> Value:
        return (one - other)[:number_bits]

    picked = number("picked")
    m.d.comb += picked.eq(AnyConst(number_bits))
    came, sent, done = map(number, ("came", "sent", "done"))
    asked, heard, used = map(number, ("asked", "heard", "used"))
    for count, stream in (
        (came, back.i),
        (sent, entries.o),
        (done, outstanding.o),
        (asked, back.lookup),
        (heard, back.result),
        (used, results.o),
    ):
        m.d.sync += count.eq(count + (stream.valid & stream.ready))
    own = Signal(StoredEntry(config))
    own_lookup = number("own_lookup")
    takes_own, own_coded = Signal(), Signal()
    m.d.comb += [takes_own.eq(came == picked), own_coded.eq(is_coded(own.write.kind))]
    with m.If(entry.moves & takes_own):
        m.d.sync += [own.eq(new), own_lookup.eq(asked)]

    # The lookup goes with the entry, and sets its metadata.
    bench.require(lookup.moves == (entry.moves & is_coded(new.write.kind)))
    bench.implies(
        lookup.moves,
        lookup.payload.address == mapping.metadata_address,
        lookup.payload.upper == mapping.metadata_upper,
        lookup.payload.write,
        lookup.payload.metadata == new.metadata,
    )

    # The queues of entries and results: each result is that of the entry's own lookup.
    queued = follow(bench, inside, "entries", takes_own, ahead(picked, sent), own)
    bench.require(ahead(came, sent) == queued)
    flagged, flagged_before = entries.weights(bench, inside, "entries.")
    bench.require(ahead(asked, used) == flagged)
    own_waits = entries.followed
    bench.implies(own_waits, is_translated(own))
    bench.implies(own_waits & own_coded, ahead(own_lookup, used) == flagged_before)
    bench.assume(~result.valid | (ahead(asked, heard) != 0))
    own_error = Signal(2, name="own_error")
    hears_own = Signal()
    m.d.comb += hears_own.eq(heard == own_lookup)
    with m.If(result.moves & hears_own):
        m.d.sync += own_error.eq(result.payload.error)
    # Only the error is looked at.
    m.d.comb += results.follows.eq(hears_own)
    answers = Signal.like(came, name="answers")
    m.d.comb += answers.eq(results.require(bench, inside, "results."))
    bench.require(ahead(heard, used) == answers, ahead(heard, used) <= ahead(asked, used))
    own_place = ahead(own_lookup, used)
    own_result = own_waits & own_coded & (own_place < answers)
    error_bits = results.item[4:6]
    bench.implies(
        own_result,
        results.followed,
        results.ahead == own_place,
        error_bits == own_error,
    )

    # What is sent: the runs, and their bytes.
    fire, is_own = Signal(), Signal()
    m.d.comb += [
        fire.eq(entries.o.valid & entries.o.ready),
        is_own.eq(fire & (sent == picked)),
    ]
    for sink in (device.i, buddy.i, outstanding.i):
        bench.require((sink.valid & sink.ready) == fire)
    status = Signal(AccessStatus, name="own_status_now")
    m.d.comb += status.eq(own.write.status)
    with m.If(own_coded):
        for error, code in ERRORS.items():
            with m.If(own_error == error.value):
                m.d.comb += status.eq(code)
    is_ok = status == AccessStatus.OK
    kind = own.write.kind
    writes = is_ok & (own_coded | (kind == WriteKind.UNCOMPRESSED))
    place = own.write.mapping
    to_device, to_buddy = device.i.payload, buddy.i.payload
    bench.implies(is_own & ~writes, to_device.run.sectors == 0, to_buddy.run.sectors == 0)
    bench.implies(is_own, outstanding.i.payload.status == status)
    in_device, in_buddy = sectors_of(config, own.metadata, place)
    coded = is_own & writes & own_coded
    bench.implies(
        coded,
        to_device.run.sectors == in_device,
        to_buddy.run.sectors == in_buddy,
        to_device.run.address == place.device_address,
        to_buddy.run.address == place.buddy_address,
    )
    # Sectors of an entry that device memory has, and those behind them, in buddy memory.
    shared = place.target == Target.X16.value
    bits = SECTOR_BITS
    words = [sampled(own.data.word_select(s, bits), bits) for s in range(ENTRY_SECTORS)]
    strobes = [own.strobe.word_select(s, SECTOR_BYTES) for s in range(ENTRY_SECTORS)]

    def is_written(run: Any, at: int, sector: int) -> tuple[Value, Value]:
        """The sector of the run is that one of the entry: its bytes, and which are written."""
        return (
            sampled(run.data.word_select(at, bits), bits) == words[sector],
            run.strobe.word_select(at, SECTOR_BYTES) == strobes[sector],
        )

    for s in range(ENTRY_SECTORS):
        bench.implies(coded & ~shared & (s < in_device), *is_written(to_device, s, s))
        for before in range(s + 1):
            in_place = (in_device == before) & (s < in_device + in_buddy)
            bench.implies(coded & in_place, *is_written(to_buddy, s - before, s))
    # Eight bytes of a sector that others share: at their place, and none beside them.
    slot = DEVICE_SLOT_BYTES[Target.X16]
    offset = place.device_address[:SECTOR_OFFSET_BITS]
    for start in range(0, SECTOR_BYTES, slot):
        bench.implies(
            coded & shared & (offset == start),
            to_device.strobe[:SECTOR_BYTES] == ((1 << slot) - 1) << start,
            *(
                to_device.data[8 * start + bit] == own.data[bit]
                for bit in (0, 8 * slot - 1)  # Those of the sector that are looked at.
            ),
        )
    # As it is: the sectors of bytes that are named, at their places.
    plain = is_own & writes & ~own_coded
    first = Signal(DEVICE_ADDRESS_BITS, name="first")
    m.d.comb += first.eq((to_device.run.address - place.device_address) >> SECTOR_OFFSET_BITS)
    bench.implies(
        plain,
        to_buddy.run.sectors == 0,
        to_device.run.address[:SECTOR_OFFSET_BITS] == offset,
        first + to_device.run.sectors <= ENTRY_SECTORS,
    )
    for s in range(ENTRY_SECTORS):
        in_run = (first <= s) & (s < first + to_device.run.sectors)
        bench.implies(plain & strobes[s].any(), in_run)
        for before in range(s + 1):
            bench.implies(plain & in_run & (first == before), *is_written(to_device, s - before, s))

    # What is complete: each outcome is that of the entry's run.
    own_sent = Signal.like(outstanding.i.payload, name="own_sent")
    m.d.comb += own_sent.as_value().eq(own.write.as_value())
    own_status = Signal(AccessStatus, name="own_status")
    with m.If(is_own):
        m.d.sync += own_status.eq(status)
    m.d.comb += own_sent.status.eq(own_status)
    open_entries = follow(
        bench, inside, "outstanding", sent == picked, ahead(picked, done), own_sent
    )
    bench.require(ahead(sent, done) == open_entries)
    finishes = Signal()
    m.d.comb += finishes.eq(outstanding.o.valid & outstanding.o.ready)
    for writer in (device, buddy):
        told = writer.o
        bench.require((told.valid & told.ready) == finishes)
        bench.assume(~told.valid | (ahead(sent, done) != 0))
        bench.trust(told, lambda _bench, _port: [])
    errors = [Value.cast(writer.o.payload) for writer in (device, buddy)]
    failed = errors[0].any() | errors[1].any()
    timeout = (errors[0] == BusError.TIMEOUT.value) | (errors[1] == BusError.TIMEOUT.value)
    write = outstanding.o.payload
    final = Signal(AccessStatus, name="final")
    m.d.comb += final.eq(
        Mux(
            timeout,
            AccessStatus.TIMEOUT.value,
            Mux(
                errors[0].any(),
                AccessStatus.DEVICE_WRITE.value,
                Mux(errors[1].any(), AccessStatus.BUDDY_WRITE.value, Value.cast(write.status)),
            ),
        )
    )
    is_final = Signal()
    m.d.comb += is_final.eq(outstanding.o.valid & (done == picked))
    bench.implies(is_final, write.as_value() == own_sent.as_value())
    bench.require(back.write_done == finishes)
    bench.require(back.error.valid == (finishes & (final != AccessStatus.OK)))
    bench.implies(back.error.valid, back.error.status == final)
    bench.implies(back.error.valid & is_final, back.error.address == own.write.address)

    # An entry that failed behind its metadata is poisoned, once, before it is complete.
    poisons, poisons_done = Signal(2, name="poisons"), Signal(2, name="poisons_done")
    bench.assume(~poisoned.valid | (poisons > poisons_done))
    m.d.sync += [
        poisons.eq(Mux(finishes, 0, poisons + poison.moves)),
        poisons_done.eq(Mux(finishes, 0, poisons_done + poisoned.moves)),
    ]
    needs = failed & is_coded(write.kind)
    bench.require(
        poisons <= 1,
        poisons_done <= poisons,
        inside["poison_issued"] == poisons[0],
        inside["poison_done"] == poisons_done[0],
    )
    outcomes_there = device.o.valid & buddy.o.valid
    # In reset, the writers may take back what they have told.
    lives = ~ResetSignal()
    bench.implies(lives & (poisons != 0), outstanding.o.valid, outcomes_there, needs)
    bench.implies(lives & finishes, poisons_done == needs, poisons == needs)
    bench.implies(
        poison.valid & is_final,
        poison.payload.address == place.metadata_address,
        poison.payload.upper == place.metadata_upper,
        poison.payload.write,
        poison.payload.metadata == POISON,
    )
    lost = poisoned.moves & (poisoned.payload.error != MetadataError.NONE)
    bench.require(back.poison_lost == lost)

    # The answer to a burst: with its last entry, and an error if any of its entries has one.
    bad, bad_now = Signal(name="bad"), Signal(name="bad_now")
    m.d.comb += bad_now.eq(bad | (final != AccessStatus.OK))
    with m.If(finishes):
        m.d.sync += bad.eq(bad_now & ~write.last)
    # A response may wait while entries whose bursts go on come and go, and numbers begin anew.
    own_bad, own_id = Signal(name="own_bad"), Signal(config.id_bits, name="own_id")
    ends_own = Signal()
    m.d.comb += ends_own.eq(is_final & finishes & own.write.last)
    with m.If(ends_own):
        m.d.sync += [own_bad.eq(bad_now), own_id.eq(own.write.id)]
    m.d.comb += responses.follows.eq(ends_own)
    waiting = responses.require(bench, inside, "responses.")
    bench.require(
        inside["burst_error"] == bad,
        (responses.i.valid & responses.i.ready) == (finishes & write.last),
        ahead(came, done) <= 4 * config.writes + 8,
        waiting <= config.writes + 1,
    )
    shape = answer.payload
    id_bits = config.id_bits
    bench.implies(
        responses.followed,
        responses.item[:id_bits] == own_id,
        responses.item[id_bits:] == Mux(own_bad, AxiResponse.SLVERR.value, AxiResponse.OKAY.value),
    )
    own_answer = answer.valid & responses.followed & (responses.ahead == 0)
    bench.implies(
        own_answer,
        shape.id == own_id,
        Value.cast(shape.resp) == Mux(own_bad, AxiResponse.SLVERR.value, AxiResponse.OKAY.value),
    )
    bench.cover(
        own_answer & own_bad & own_coded & (own_status == AccessStatus.OK),
        own_answer & ~own_bad & own_coded & shared & (in_device == 1),
        own_answer & ~own_coded & (kind == WriteKind.UNCOMPRESSED),
        coded & (in_device != 0) & (in_buddy != 0),
        is_own & own_coded & ~is_ok,
        plain & (first == 2),
        entries.followed & (entries.before != 0),
    )
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("config", configs(CONFIGS, quick=()))
def test_entries_are_written_and_answered_as_they_came(config, tmp_path):
    prove(back_proof(config), tmp_path, depth=1, cover_depth=10)


FAULTS = {
    "sets no metadata": (
        "entries.i.valid.eq(self.i.valid & (self.lookup.ready | ~compressed))",
        "entries.i.valid.eq(self.i.valid)",
    ),
    "sets the class alone": ("metadata.eq(entry.metadata)", "metadata.eq(entry.metadata[:3])"),
    "begins anew in buddy memory": (
        "_from_sector(entry.data, entry_device, 8 * SECTOR_BYTES)",
        "_from_sector(entry.data, C(0), 8 * SECTOR_BYTES)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_write_back_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, WriteBack, *fault)
    find_fault(back_proof(CONFIGS["tiny"]), tmp_path, depth=14)
