"""Places of records, and of what is read back: those of the descriptor that is retired."""

import pytest
from amaranth.hdl import Module, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import wiring

from cdma.hw.bus.burst import BusError
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.completion import Completion, RetireUnit
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS, Flag
from cdma.hw.dma.control.dispatch import StartedDescriptor, Way
from cdma.hw.dma.control.each_ring import fires_for, of_ring
from cdma.hw.dma.control.record import RecordWriter
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.dma.contracts import (
    Memories,
    TakenBeat,
    beat_address,
    completion,
    in_job,
    started_descriptor,
    verified_outcome,
    write_request,
    written_beat,
)
from tests.formal.engines import HOSTS, engine_of
from tests.formal.smtbmc import prove
from tests.lib.shares import configs


class ShortQueue(Fifo):
    """A queue of one item: what comes out in which order is the same as of a longer one."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.only = only = PipelineRegister(self.i.payload.shape())
        wiring.connect(m, wiring.flipped(self.i), only.i)
        wiring.connect(m, only.o, wiring.flipped(self.o))
        return m


def shorten_queues(monkeypatch) -> None:
    """Let queues be as short as they can be."""
    for module in ("completion", "record"):
        monkeypatch.setattr(f"cdma.hw.dma.control.{module}.Fifo", ShortQueue)


@pytest.fixture(autouse=True)
def _queues_are_short(monkeypatch):
    shorten_queues(monkeypatch)


def retire_proof(config: EngineConfig) -> Bench:
    """Any descriptors that were started, and any outcomes of theirs."""
    bench = Bench()
    m = bench.m
    retire = RetireUnit(config)
    inside = bench.add(retire)
    memories = Memories.of(bench, config)
    bench.drive(retire.started, started_descriptor(memories))
    queued = inside["waiting.only.held_valid"]
    d = StartedDescriptor(config)(inside["waiting.only.held"])
    bench.hold(queued, d, started_descriptor(memories))
    for stream in (retire.outcome_out, retire.outcome_in):
        bench.drive(stream)
    for wire in (retire.log2_entries, retire.now):
        bits = Value.cast(wire)
        m.d.comb += bits.eq(AnySeq(len(bits)))
    verify = bench.watch(retire.verify, in_job(memories))
    bench.watch(retire.o, completion(memories))

    # What is verified went well, so as much was written as its outcome says.
    out = retire.outcome_out.payload
    verifies = (d.way == Way.OUT) & (d.flags & Flag.VERIFY).any()
    well = (out.read.error == BusError.NONE) & (out.write.error == BusError.NONE)
    well &= ~out.read.cut & ~out.write.overflow
    moves = retire.outcome_out.valid & retire.outcome_out.ready
    bench.assume_item(moves & well, out.write.size, verified_outcome(d.capacity))
    bench.claim(
        ~verify.valid | (queued & verifies),
        ~verify.valid | ((inside["written"] != 0) & (inside["written"] <= d.capacity)),
    )
    completions = inside.component("completions")
    bench.claim(~completions.i.valid | queued)
    comparing = Signal()
    with m.If(verify.moves):
        m.d.sync += comparing.eq(1)
    with m.If(retire.outcome_in.valid & retire.outcome_in.ready):
        m.d.sync += comparing.eq(0)
    bench.claim(comparing == (inside["fsm_state"] == 3), ~comparing | queued)
    held = Completion(config.rings)(inside["completions.held"])
    bench.hold(inside["completions.held_valid"], held, completion(memories))
    bench.cover(verify.moves & (inside["written"] == d.capacity))
    return bench


RETIRED = {"32": HOSTS["32"], "two rings": engine_of(32, rings=2)}


@pytest.mark.parametrize("config", configs(RETIRED, quick=()))
def test_retired_descriptors_keep_the_contracts(config, tmp_path):
    prove(retire_proof(config), tmp_path, depth=2)


def record_proof(config: EngineConfig) -> Bench:
    """Any completions, and a bus that takes their bursts when it likes."""
    bench = Bench()
    m = bench.m
    writer = RecordWriter(config)
    inside = bench.add(writer)
    memories = Memories.of(bench, config)
    width = config.host_bytes
    beats_each = max(1, ENTRY_BYTES // width)
    bench.drive(writer.i, completion(memories))
    bench.drive(writer.response)
    clear = Value.cast(writer.clear)
    m.d.comb += clear.eq(AnySeq(len(clear)))
    request = bench.watch(writer.request, write_request(HOST_ADDRESS_BITS, width))
    beats = bench.watch(writer.beats)
    sending, announced = inside["sending"], inside["announced"]
    held = Completion(config.rings)(inside["held"])
    bench.hold(sending, held, completion(memories))

    # The burst that the bus has been told of, and its next beat.
    address, number = Signal(HOST_ADDRESS_BITS), Signal(range(beats_each))
    with m.If(request.moves):
        m.d.sync += address.eq(request.payload.address)
    with m.If(beats.moves):
        m.d.sync += number.eq(number + 1)
    with m.If(beats.moves & beats.payload.last):
        m.d.sync += number.eq(0)
    whole = max(width, ENTRY_BYTES)
    bench.claim(
        request.payload.beats == beats_each - 1,
        inside["beat"] == number,
        ~beats.valid | (sending & announced),
        ~beats.valid | (beats.payload.last == (number == beats_each - 1)),
        ~(number != 0) | (sending & announced),
        ~(sending & announced) | (address == held.address & ~(whole - 1)),
    )
    beat = TakenBeat(beat_address(address, number, width), beats.payload.strobe, held.ring)
    bench.assert_item(beats.valid, beat, written_beat(memories.host_written, width))
    bench.cover(beats.moves & (number == beats_each - 1))
    for ring in range(config.rings):
        claim_errors_are_told(bench, writer, ring)
    return bench


def claim_errors_are_told(bench: Bench, writer: RecordWriter, ring: int) -> None:
    """A ring's error comes in the cycle behind its record, and stays until a clear."""
    told, kept = Signal(name=f"told_{ring}"), Signal(name=f"kept_{ring}")
    failed = of_ring(writer.error, ring) != BusError.NONE
    bench.m.d.sync += [
        told.eq(fires_for(writer.record_done, writer.record_info.ring, ring)),
        kept.eq(failed & ~of_ring(writer.clear, ring)),
    ]
    bench.claim(~failed | told | kept)
    bench.cover(failed & ~kept)


RECORDED = {**HOSTS, "two rings": engine_of(32, rings=2)}


@pytest.mark.parametrize("config", configs(RECORDED, quick=()))
def test_records_keep_their_contract(config, tmp_path):
    prove(record_proof(config), tmp_path, depth=2, cover_depth=30)


def contract_benches(monkeypatch) -> list[Bench]:
    """The benches that state contracts here."""
    shorten_queues(monkeypatch)
    return [retire_proof(RETIRED["two rings"]), record_proof(RECORDED["two rings"])]


RETIRE_FAULTS = {
    "writes the record to the destination": (
        "completions.i.payload.address.eq(d.record)",
        "completions.i.payload.address.eq(d.dst)",
    ),
    "reads back from the record": (
        "self.verify.payload.src.eq(d.dst)",
        "self.verify.payload.src.eq(d.record)",
    ),
    "reads back as much as there was": (
        "self.verify.payload.src_length.eq(written)",
        "self.verify.payload.src_length.eq(d.length)",
    ),
    "writes what is read back": (
        "self.verify.payload.length.eq(d.length),",
        "self.verify.payload.length.eq(d.length), self.verify.payload.capacity.eq(d.length),",
    ),
    "reads back what was not to be": (
        "(d.flags & Flag.VERIFY).any()\n            & (",
        "(",
    ),
    "gives its descriptor up too early": (
        "with m.If(verify_next):",
        f"m.d.comb += waiting.o.ready.eq(1)\n{24 * ' '}with m.If(verify_next):",
    ),
}


@pytest.mark.parametrize("fault", configs(RETIRE_FAULTS, quick=()))
def test_retire_unit_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, RetireUnit, *fault)
    find_fault(retire_proof(RETIRED["32"]), tmp_path, depth=8)


RECORD_FAULTS = {
    "writes the next record, too": (
        "Mux(place == k, (1 << ENTRY_BYTES) - 1, 0)",
        "(1 << ENTRY_BYTES) - 1",
    ),
    "writes the other half of the beat": ("Mux(place == k,", "Mux(place != k,"),
    "takes another record meanwhile": (
        "self.i.ready.eq((~sending | record_sent) & pending.i.ready)",
        "self.i.ready.eq(pending.i.ready)",
    ),
    "begins inside a beat": (
        "Cat(C(0, width_bits), address[width_bits:])",
        "address",
    ),
    "has a beat too many": ("beats.eq(beats - 1)", "beats.eq(beats)"),
    "fails without a record": (
        "fires_for(self.record_done, self.record_info.ring, ring)",
        "self.response.valid",
    ),
}


@pytest.mark.parametrize("fault", configs(RECORD_FAULTS, quick=()))
def test_record_writer_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, RecordWriter, *fault)
    find_fault(record_proof(RECORDED["128"]), tmp_path, depth=8)
