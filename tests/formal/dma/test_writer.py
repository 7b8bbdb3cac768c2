"""Writes of packets: no byte outside what the job gave room for, no burst over a page."""

from dataclasses import dataclass, replace

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS
from cdma.hw.dma.limits import HOST_BURST_BEATS
from cdma.hw.dma.outbound.burst_sender import BurstSender
from cdma.hw.dma.outbound.write_responses import WriteResponseCollector
from cdma.hw.dma.outbound.writer import DEVICE_BURST_BEATS, BoundedJob, StreamWriter
from tests.formal.bench import Bench, anything
from tests.formal.broken import break_contract, break_elaborate, find_fault
from tests.formal.dma.any_faults import AnyFaults
from tests.formal.dma.contracts import (
    TakenBeat,
    UnnamedMemory,
    beat_address,
    verified_outcome,
    write_job,
    write_request,
    written_beat,
)
from tests.formal.rules import CollectedRules, beat_sizes
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

NUMBER_BITS = 1
"""Of a burst that is collected: one is, at a time."""
MOVE_CYCLES = 2
"""In which nothing need move though all outside are willing."""


class AnySender(BurstSender):
    """Whatever becomes of bursts: `test_burst_sender` proves what does."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += [self.data.ready.eq(AnySeq(1)), self.burst.ready.eq(AnySeq(1))]
        return m


class AnyResponses(WriteResponseCollector):
    """Takes bursts when it likes."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += self.pending.ready.eq(AnySeq(1))
        return m


def replace_parts(monkeypatch, sender: type[BurstSender] = AnySender) -> None:
    """Leave all but the collection to the solver."""
    module = "cdma.hw.dma.outbound.writer"
    monkeypatch.setattr(f"{module}.BurstSender", sender)
    monkeypatch.setattr(f"{module}.WriteResponseCollector", AnyResponses)
    monkeypatch.setattr(f"{module}.JobFaultFilter", AnyFaults)


@pytest.fixture(autouse=True)
def _only_the_collection(monkeypatch):
    replace_parts(monkeypatch)


@dataclass(frozen=True)
class Shape:
    """Parameters of a writer, of which only the bursts are fewer than the engine's."""

    data_bytes: int
    burst_beats: int = HOST_BURST_BEATS
    address_bits: int = HOST_ADDRESS_BITS
    size_bits: int = OFFSET_BITS
    bursts: int = 4
    stops_at_error: bool = True
    rings: int = 1

    def writer(self) -> StreamWriter:
        return StreamWriter(
            self.data_bytes,
            self.bursts,
            burst_beats=self.burst_beats,
            address_bits=self.address_bits,
            size_bits=self.size_bits,
            rings=self.rings,
            stops_at_error=self.stops_at_error,
        )


def device(sector_bytes: int, line_bytes: int = 128) -> Shape:
    """The writer of an expansion unit, whose packets are lines."""
    return Shape(
        sector_bytes,
        DEVICE_BURST_BEATS,
        DEVICE_ADDRESS_BITS,
        line_bytes.bit_length(),
        stops_at_error=False,
    )


SHAPES = {
    **{f"host-{width}": Shape(width) for width in (4, 32, 64, 128)},
    **{f"device-{width}": device(width) for width in (32, 64, 128)},
}


def writer_proof(shape: Shape, *, chained: bool = False) -> Bench:
    """Any jobs, any packets, and bursts that are taken at any time.

    Chained, jobs keep their contract, and so do bursts and their beats, of which the solver picks
    one.
    """
    bench = Bench(relies=chained)
    m = bench.m
    writer = shape.writer()
    inside = bench.add(writer)
    width, bits = shape.data_bytes, shape.address_bits
    width_bits = (width - 1).bit_length()
    burst_bits = (shape.burst_beats - 1).bit_length()
    written = UnnamedMemory(bench, "written", bits, 1, shape.rings) if chained else None
    job = bench.drive(writer.job, write_job(written) if written else None)
    i = bench.drive(writer.i, beat_sizes(width))
    sender, pending = inside.component("sender"), inside.component("responses").pending
    collected = CollectedRules(shape.burst_beats, number_bits=NUMBER_BITS)
    bench.require(*collected.conditions(bench, sender.data, sender.burst))
    bench.implies(pending.valid, pending.ready)

    # The job that waits, and that of the packet that comes.
    next_job = inside.component("next_job")
    waits, held = (
        inside["next_job.held_valid"],
        BoundedJob(bits, shape.size_bits, shape.rings)(inside["next_job.held"]),
    )
    asked, own = (Signal(job.payload.shape(), name=name) for name in ("asked", "own"))
    open_packet = Signal()
    begins = Signal()
    offset = Signal(bits)
    ends = Signal()
    m.d.comb += [
        begins.eq(next_job.o.valid & next_job.o.ready),
        ends.eq(i.moves & i.payload.last),
    ]
    with m.If(i.moves):
        m.d.sync += offset.eq(offset + width)
    with m.If(ends):
        m.d.sync += open_packet.eq(0)
    with m.If(begins):
        m.d.sync += [open_packet.eq(1), own.eq(asked), offset.eq(0)]
    with m.If(job.moves):
        m.d.sync += asked.eq(job.payload)
    bench.implies(begins, ~open_packet | ends)
    bench.implies(i.moves, open_packet)
    bench.require(inside["active"] == open_packet)
    pad = held.job.dst[:width_bits]
    bench.implies(
        waits,
        held.job.as_value() == asked.as_value(),
        held.capped == (asked.limit > asked.capacity),
        held.limit == asked.limit + pad,
        held.capacity == asked.capacity + pad,
    )

    # Its bytes in memory, counted from the beat in which they begin.
    first_byte, room = Signal(range(width)), Signal(shape.size_bits + 2)
    end = Signal(shape.size_bits + 2)
    m.d.comb += [
        first_byte.eq(own.dst[:width_bits]),
        room.eq(Mux(own.limit < own.capacity, own.limit, own.capacity)),
        end.eq(first_byte + room),
    ]
    address = Signal(bits)
    m.d.comb += address.eq(Cat(Const(0, width_bits), own.dst[width_bits:]) + offset)
    space_left, first = inside["space_left"], inside["first"]
    allowed = Signal(width)
    m.d.comb += [
        bit.eq((offset + j >= first_byte) & (offset + j < end)) for j, bit in enumerate(allowed)
    ]
    bench.require(offset[:width_bits] == 0)
    bench.implies(
        open_packet,
        inside["address"] == address,
        inside["space_for_beat"] == (space_left > width),
        ~first | (inside["head_pad"] == first_byte),
        ~first | (offset == 0),
        first | (offset != 0) | (space_left == 0),
        (space_left == 0) | (offset + space_left == end),
    )

    # From the cycle behind a fault on, no beat is written, and a burst that was begun ends with the
    # packet.
    failed = Signal(name="has_failed")
    if shape.stops_at_error:
        own_fault = inside.component("faults").own
        m.d.sync += failed.eq(~next_job.o.ready & (failed | own_fault))
    bench.require(inside["packet_failed"] == failed)
    bench.implies(failed & open_packet, space_left == 0)
    bench.implies(failed, ~sender.data.valid)
    bench.implies(failed & sender.burst.valid, ends, inside["count"] != 0)
    bench.require(writer.closed == (open_packet & (failed | inside["overflow"])))

    # The beats of a burst name bytes of the room, one behind the other, within a page. Behind a
    # fault more beats may come before a burst that was begun ends with the packet.
    count, burst_address = inside["count"], inside["burst_address"]
    behind = Signal(bits, name="behind_written")
    with m.If(sender.data.valid):
        m.d.sync += behind.eq(address + width)
    bench.require(count == collected.beats, behind[:width_bits] == 0)
    bench.implies(
        count != 0,
        open_packet,
        ~first,
        (space_left != 0) | failed,
        (behind == address) | failed,
        behind[width_bits : width_bits + burst_bits] >= count,
        burst_address == behind - count * width,
    )
    strobe, burst = sender.data.payload.strobe, sender.burst.payload
    bench.implies(sender.data.valid, (strobe & ~allowed) == 0)
    # With the last one, or behind it, its address and size are told.
    begins_at, in_page = Signal(bits), Signal(range(2 * PAGE_BYTES))
    m.d.comb += [
        begins_at.eq(Mux(count == 0, address, behind - count * width)),
        in_page.eq(burst.address[: PAGE_BYTES.bit_length() - 1] + (burst.beats + 1) * width),
    ]
    bench.implies(
        sender.burst.valid,
        burst.address == begins_at,
        burst.address[:width_bits] == 0,
        in_page <= PAGE_BYTES,
    )
    # Behind the room nothing is written, nor where there is none.
    bench.implies(i.moves & (offset >= end), ~sender.data.valid)
    bench.implies(i.moves & (room == 0), ~sender.data.valid)
    willing = sender.data.ready & sender.burst.ready & pending.ready & i.valid
    bench.progress(
        willing & (job.valid | waits | open_packet), i.moves | job.moves, cycles=MOVE_CYCLES
    )
    longest = min(shape.burst_beats, ((1 << shape.size_bits) - 1) // width)
    bench.cover(
        sender.data.valid & ~strobe[0] & strobe[-1],
        sender.data.valid & strobe[0] & ~strobe[-1] & ~i.payload.last,
        sender.data.valid & strobe[0] & ~strobe[-1] & (i.payload.size == width),
        ends & ~sender.data.valid & sender.burst.valid & (burst.beats == 1),
        i.moves & (offset >= end) & (room != 0),
        ends & (own.capacity == 0),
        sender.burst.valid & (in_page == PAGE_BYTES) & (burst.beats == 1) & ~i.payload.last,
        sender.burst.valid & (burst.beats == longest - 1),
    )
    if shape.stops_at_error:
        bench.cover(failed & sender.burst.valid & (burst.beats == 1), failed & ends & (count == 0))
    if not written:
        return bench

    bench.hold(waits, asked, write_job(written))
    bench.hold(open_packet, own, write_job(written))
    bench.claim(~open_packet | (inside["ring"] == own.ring))
    # The beat that is picked, of the burst that comes.
    picked, picked_strobe = Signal(range(shape.burst_beats)), Signal(width)
    is_picked = sender.data.valid & (count == picked)
    m.d.comb += picked.eq(AnyConst(len(picked)))
    with m.If(is_picked):
        m.d.sync += picked_strobe.eq(strobe)
    contract = written_beat(written, width)
    bench.hold(sender.data.valid, TakenBeat(address, strobe, own.ring), contract)
    bench.hold(
        open_packet & (count > picked),
        TakenBeat(beat_address(burst_address, picked, width), picked_strobe, own.ring),
        contract,
    )
    comes = sender.burst.valid & (picked <= burst.beats)
    picked_address = beat_address(begins_at, picked, width)
    beat = TakenBeat(picked_address, Mux(is_picked, strobe, picked_strobe), burst.owner)
    bench.child("BurstSender", True, comes, beat, contract)
    bursts = write_request(bits, width)
    for is_input, stream in ((True, sender.burst), (False, sender.request)):
        bench.child("BurstSender", is_input, stream.valid, stream.payload, bursts)
    bench.assert_item(writer.request.valid, writer.request.payload, bursts)
    bench.claim(
        *(
            mine == its
            for outer, inner in ((writer.request, sender.request), (writer.beats, sender.beats))
            for mine, its in (
                (outer.valid, inner.valid),
                (outer.ready, inner.ready),
                (Value.cast(outer.payload), Value.cast(inner.payload)),
            )
        )
    )
    # Without an error, what is told to have been written is what there was behind the padding.
    if shape.stops_at_error:
        size_bits = shape.size_bits
        bench.claim(
            ~open_packet | (inside["written"] == (offset - first_byte)[:size_bits]),
            ~open_packet | (inside["writable"] == room[:size_bits]),
            ~open_packet | (inside["capped"] == (own.limit > own.capacity)),
            ~(open_packet & inside["capped"] & (offset > end)) | inside["overflow"] | failed,
        )
        ended = pending.payload
        bench.assert_item(
            (pending.valid & ended.ends & ~ended.overflow & ~failed)
            & (offset + i.payload.size > first_byte),
            ended.size,
            verified_outcome(own.capacity),
        )
    return bench


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_writes_stay_in_the_room_of_their_job(shape, tmp_path):
    prove(writer_proof(shape), tmp_path, depth=MOVE_CYCLES + 2, cover_depth=HOST_BURST_BEATS + 9)


class ChainedSender(AnySender):
    """Gives anything to the bus."""

    def elaborate(self, platform) -> Module:
        m = super().elaborate(platform)
        for stream in (self.request, self.beats):
            m.d.comb += anything(stream)
        return m


CHAINED = {
    **{name: SHAPES[name] for name in ("host-4", "device-32", "device-64", "device-128")},
    "host-32-two-rings": replace(SHAPES["host-32"], rings=2),
}


@pytest.mark.parametrize("shape", configs(CHAINED, quick=()))
def test_writes_keep_their_contract(shape, tmp_path, monkeypatch):
    replace_parts(monkeypatch, ChainedSender)
    prove(writer_proof(shape, chained=True), tmp_path, depth=1)


FAULTS = {
    "writes behind the room": ("Mux(p.space_for_beat, width, p.space_left)", "width"),
    "writes before the destination": ("start.eq(Mux(p.first, p.head_pad, 0))", "start.eq(0)"),
    "has room for a byte more": (
        "space.eq(Mux(bounded.capped, bounded.capacity, bounded.limit))",
        "space.eq(Mux(bounded.capped, bounded.capacity, bounded.limit) + 1)",
    ),
    "forgets the capacity": ("bounded.capped.eq(job.limit > job.capacity)", "bounded.capped.eq(0)"),
    "crosses a page": ("(at_boundary | p.fills_space)", "p.fills_space"),
    "has room again behind its end": ("Mux(p.space_for_beat, p.space_left - width, 0)", "width"),
    "counts what is not written": (
        "burst.beats.eq(Mux(p.writes, count, count - 1))",
        "burst.beats.eq(count)",
    ),
    "goes to the burst before": ("Mux(count == 0, p.address, burst_address)", "burst_address"),
    "takes the next job too early": (
        "~p.active | (p.i_fire & self.i.payload.last)",
        "~p.active | p.i_fire",
    ),
    "goes on behind a fault": (
        "p.failed.eq(1), p.space_left.eq(0), p.space_for_beat.eq(0)",
        "p.failed.eq(1)",
    ),
    "gives the next packet up for a fault": ("p.failed.eq(0),", ""),
    "never begins": ("~p.active | (p.i_fire & self.i.payload.last)", "p.i_fire"),
}


def contract_benches(monkeypatch) -> list[Bench]:
    """The benches that state contracts here."""
    replace_parts(monkeypatch, ChainedSender)
    names = ("host-32-two-rings", "device-32")
    return [writer_proof(CHAINED[name], chained=True) for name in names]


CONTRACT_FAULTS = {
    "writes behind the room": FAULTS["writes behind the room"],
    "writes before the destination": FAULTS["writes before the destination"],
    "crosses a page": FAULTS["crosses a page"],
    "forgets the ring": ("burst.owner.eq(p.ring)", "burst.owner.eq(0)"),
    "tells of bytes that had no room": (
        "Mux(p.fills_space, p.writable, add(",
        "Mux(p.first, p.writable, add(",
    ),
    "gives the bus what it likes": (
        "wiring.connect(m, sender.beats, wiring.flipped(self.beats))",
        "m.d.comb += self.beats.valid.eq(sender.beats.valid)",
    ),
}


@pytest.mark.parametrize("fault", configs(CONTRACT_FAULTS, quick=()))
def test_writer_that_breaks_its_contract_is_found(fault, tmp_path, monkeypatch):
    replace_parts(monkeypatch, ChainedSender)
    break_contract(monkeypatch, StreamWriter, *fault)
    find_fault(writer_proof(CHAINED["host-32-two-rings"], chained=True), tmp_path, depth=8)


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_writer_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, StreamWriter, *fault)
    find_fault(writer_proof(SHAPES["host-32"]), tmp_path, depth=8)
