"""Runs of sectors on their way to memory: each sector at its place, once, in order, and answered.

The solver picks a run by its number, and the queues between show that one alone (`FollowedFifo`).
"""

from typing import Any

import pytest
from amaranth.hdl import Cat, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnyConst

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.address.sector_runs import PAGE_SECTORS
from cdma.hw.buddy.payloads import (
    DEVICE_ADDRESS_BITS,
    SECTOR_OFFSET_BITS,
)
from cdma.hw.buddy.write import run_writer
from cdma.hw.buddy.write.run_writer import RunWriter, WriteRun
from cdma.hw.bus.burst import BusError
from cdma.hw.config import BUDDY_PRESETS
from cdma.hw.lib.fifo import Fifo
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.queues import FollowedFifo, follow, sampled
from tests.formal.smtbmc import prove

SECTOR_BITS = 8 * SECTOR_BYTES
SHAPES = {
    f"{name}-{side}": (bits, BUDDY_PRESETS[name].writes)
    for name, side, bits in (("tiny", "device", DEVICE_ADDRESS_BITS),)
}
"""Bits of an address, and runs that may be outstanding."""


def open_queues(monkeypatch: pytest.MonkeyPatch, *, whole: bool) -> None:
    """Let the solver see one run, with all bits of its data or with some of each sector's."""

    def fifo(shape: Any, depth: int) -> Fifo:
        if whole or not isinstance(shape, WriteRun):
            return FollowedFifo(shape, depth)

        def seen(bits: Value) -> Value:
            run = shape(bits)
            return Cat(Value.cast(run.run), run.strobe, sampled(run.data, SECTOR_BITS))

        return FollowedFifo(shape, depth, seen=seen)

    monkeypatch.setattr(run_writer, "Fifo", fifo)


def writer_proof(shape: tuple[int, int], *, whole: bool = False) -> Bench:
    """Any runs, and a bus that takes bursts and answers them whenever it likes."""
    bench = Bench()
    m = bench.m
    address_bits, runs = shape

    def seen(sector: Value) -> Value:
        return sector if whole else sampled(sector, SECTOR_BITS)

    writer = RunWriter(address_bits, runs)
    inside = bench.add(writer)
    run = bench.drive(writer.i)
    request, beats = bench.watch(writer.request), bench.watch(writer.beats)
    response, outcome = bench.drive(writer.response), bench.watch(writer.o)
    run_requests, run_data = (inside.component(name) for name in ("run_requests", "run_data"))
    bursts, outcomes = (inside.component(name) for name in ("bursts", "outcomes"))

    def is_run(sectors, address):
        end = (address >> SECTOR_OFFSET_BITS) + sectors
        return (sectors <= ENTRY_SECTORS) & (end <= 1 << (address_bits - SECTOR_OFFSET_BITS))

    new = run.payload.run
    bench.assume(is_run(new.sectors, new.address))

    # Runs that have come, that have left the places where they wait, and that were told.
    number_bits = (4 * runs).bit_length()

    def number(name: str) -> Signal:
        return Signal(number_bits, name=name)

    picked = number("picked")
    came, requested, sent, answered, told = map(
        number, ("came", "requested", "sent", "answered", "told")
    )
    m.d.comb += picked.eq(AnyConst(number_bits))
    own = Signal(WriteRun(address_bits))
    takes_own = Signal()
    m.d.comb += takes_own.eq(came == picked)
    with m.If(run.moves & takes_own):
        m.d.sync += own.eq(run.payload)
    fires = {}
    for count, stream in (
        (came, writer.i),
        (requested, run_requests.o),
        (sent, run_data.o),
        (answered, bursts.o),
        (told, outcomes.o),
    ):
        fires[count.name] = fire = Signal(name=f"{count.name}_fire")
        m.d.comb += fire.eq(stream.valid & stream.ready)
        m.d.sync += count.eq(count + fire)

    # Requests: those of a run are its sectors, one behind the other, and end with it or a page.
    head = run_requests.o.payload
    asked, parts = Signal(range(8), name="asked"), Signal(2, name="parts")
    after, now_parts = Signal(range(256 + 8), name="after"), Signal(2, name="now_parts")
    place = Signal(address_bits - SECTOR_OFFSET_BITS, name="place")
    m.d.comb += [
        after.eq(asked + Mux(request.moves, request.payload.beats + 1, 0)),
        now_parts.eq(parts + request.moves),
        place.eq((own.run.address >> SECTOR_OFFSET_BITS) + asked),
    ]
    m.d.sync += [
        asked.eq(Mux(fires["requested"], 0, after)),
        parts.eq(Mux(fires["requested"], 0, now_parts)),
    ]
    waits = inside["run_requests.held_valid"]
    bench.require((came - requested)[:number_bits] == waits, inside["count"] == parts)
    bench.implies(waits, is_run(head.sectors, head.address))
    is_asked = Signal()
    m.d.comb += is_asked.eq(requested == picked)
    bench.implies(waits & is_asked, head.as_value() == own.run.as_value())
    # In reset, a run may go away before it is done.
    lives = ~ResetSignal()
    room = Signal(range(PAGE_SECTORS + 1))
    m.d.comb += room.eq(PAGE_SECTORS - head.address[SECTOR_OFFSET_BITS:12])
    bench.require(inside["splitter.second"] == (asked != 0), parts == (asked != 0))
    bench.implies(
        lives & (asked != 0),
        waits,
        asked < head.sectors,
        asked == room,
        inside["bursts.stored"] != runs,
    )
    end = Signal(9, name="end")
    m.d.comb += end.eq(place[: 12 - SECTOR_OFFSET_BITS] + request.payload.beats + 1)
    bench.implies(
        lives & request.valid & is_asked,
        request.payload.address == place << SECTOR_OFFSET_BITS,
        after <= own.run.sectors,
        end <= PAGE_SECTORS,
        (asked + request.payload.beats + 1 == own.run.sectors) | (end == PAGE_SECTORS),
    )
    bench.implies(lives & fires["requested"] & is_asked, after == own.run.sectors)

    # Beats: its sectors in order, the last one of a burst where the request says so.
    at = Signal(range(ENTRY_SECTORS), name="at")
    with m.If(beats.moves):
        m.d.sync += at.eq(at + 1)
    with m.If(fires["sent"]):
        m.d.sync += at.eq(0)
    is_sent = Signal()
    m.d.comb += is_sent.eq(sent == picked)
    waiting = follow(bench, inside, "run_data", takes_own, (picked - sent)[:number_bits], own)
    bench.require((came - sent)[:number_bits] == waiting, inside["beat"] == at)
    given = run_data.o.payload.run.sectors
    # What comes in keeps to that, so what goes out does.
    bench.assume(~run_data.o.valid | (given <= ENTRY_SECTORS))
    bench.implies(at != 0, run_data.o.valid, at < given)
    at_end = at + 1 == own.run.sectors
    next_place = ((own.run.address >> SECTOR_OFFSET_BITS) + at + 1)[: 12 - SECTOR_OFFSET_BITS]
    bench.implies(
        beats.valid & is_sent,
        at < own.run.sectors,
        seen(beats.payload.data) == seen(own.data.word_select(at, SECTOR_BITS)),
        beats.payload.strobe == own.strobe.word_select(at, SECTOR_BYTES),
        beats.payload.last == (at_end | (next_place == 0)),
    )
    bench.implies(fires["sent"] & is_sent, (own.run.sectors == 0) | (beats.moves & at_end))

    # Answers: as many as bursts, and what is told is the last error among them.
    own_parts = Signal(2, name="own_parts")
    with m.If(fires["requested"] & is_asked):
        m.d.sync += own_parts.eq(now_parts)
    open_bursts = follow(
        bench, inside, "bursts", is_asked, (picked - answered)[:number_bits], own_parts
    )
    bench.require((requested - answered)[:number_bits] == open_bursts)
    heard, now_heard = Signal(2, name="heard"), Signal(2, name="now_heard")
    worst, now_worst = Signal(3, name="worst"), Signal(3, name="now_worst")
    error, told_error = Value.cast(response.payload), Value.cast(outcome.payload)
    m.d.comb += [
        now_heard.eq(heard + response.moves),
        now_worst.eq(Mux(response.moves & error.any(), error, worst)),
    ]
    m.d.sync += [
        heard.eq(Mux(fires["answered"], 0, now_heard)),
        worst.eq(Mux(fires["answered"], 0, now_worst)),
    ]
    bench.assume(~bursts.o.valid | (bursts.o.payload <= 2))
    bench.require(inside["responses"] == heard, inside["earlier"] == worst)
    bench.implies(heard != 0, bursts.o.valid, heard < bursts.o.payload)
    bench.implies(heard == 0, ~worst.any())
    is_answered = Signal()
    m.d.comb += is_answered.eq(answered == picked)
    bench.implies(fires["answered"] & is_answered, now_heard == own_parts, outcomes.i.valid)
    bench.require(fires["answered"] == (outcomes.i.valid & outcomes.i.ready))
    own_worst = Signal(3, name="own_worst")
    with m.If(fires["answered"] & is_answered):
        m.d.sync += own_worst.eq(now_worst)
    to_tell = follow(
        bench, inside, "outcomes", is_answered, (picked - told)[:number_bits], own_worst
    )
    bench.require((answered - told)[:number_bits] == to_tell)
    is_told = Signal()
    m.d.comb += is_told.eq(outcome.valid & (told == picked))
    bench.implies(is_told, told_error == own_worst, (answered - picked)[:number_bits] != 0)

    bench.cover(
        is_told & (own_parts == 2) & (own_worst == BusError.SLVERR.value) & (own.run.sectors == 4),
        is_told & (own_parts == 0),
        is_told & (own_parts == 1) & (own.run.sectors == 3) & outcome.ready,
        heard == 1,
        run_data.followed & (run_data.ahead == 4),
    )
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("name", SHAPES)
def test_runs_are_written_at_their_places_and_told_when_answered(name, tmp_path, monkeypatch):
    # One of them with each bit of the data; that takes ten times as long.
    whole = name == "tiny-device"
    open_queues(monkeypatch, whole=whole)
    prove(writer_proof(SHAPES[name], whole=whole), tmp_path, depth=1)


FAULTS = {
    "sends one sector over and over": ("beat + 1))", "beat))"),
    "takes the strobe of the first": ("strobe.word_select(beat,", "strobe.word_select(0,"),
    "ends no burst at a page": (" | (page_sector == PAGE_SECTORS - 1)", ""),
    "counts too few bursts": (
        "count + (splitter.o.valid & splitter.o.ready)",
        "splitter.o.valid & splitter.o.ready",
    ),
    "forgets the first error": ("m.d.sync += earlier.eq(response)", "m.d.sync += earlier.eq(0)"),
    "tells at the first answer": (
        "responses + self.response.valid == bursts.o.payload",
        "responses + self.response.valid != 0",
    ),
    "takes data without a request": (
        "run_data.i.valid.eq(self.i.valid & run_requests.i.ready)",
        "run_data.i.valid.eq(self.i.valid)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_writer_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    open_queues(monkeypatch, whole=False)
    break_elaborate(monkeypatch, RunWriter, *fault)
    find_fault(writer_proof(SHAPES["tiny-device"]), tmp_path, depth=10)
