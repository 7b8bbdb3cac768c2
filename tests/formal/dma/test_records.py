"""Records of descriptors: one for each, in order, whatever the paths and the bus do."""

from dataclasses import replace

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import wiring

from cdma.hw.bus.burst import BusError
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.completion import Completion, RetireUnit
from cdma.hw.dma.control.descriptor import Flag, Opcode, Record, Status
from cdma.hw.dma.control.dispatch import Dispatcher, StartedDescriptor, Way
from cdma.hw.dma.control.record import RecordInfo, RecordWriter
from cdma.hw.dma.control.ring import INDEX_BITS
from cdma.hw.dma.control.supervisor import Supervisor
from cdma.hw.dma.limits import ENTRY_BYTES
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.engines import HOSTS
from tests.formal.order import Order, Run, one
from tests.formal.queues import Queue, StraightFifo, open_fifos
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

COUNT_BITS = 5
"""Fewer descriptors are under way."""
WAITS, VERIFIES, ENDS, COMPARES = range(4)
"""The completer's states, in the order in which its source names them."""
MOVE_CYCLES = 5
"""In which nothing need move though all outside are willing."""


@pytest.fixture(autouse=True)
def _queues_are_open(monkeypatch):
    open_fifos(
        monkeypatch,
        "cdma.hw.dma.control.completion",
        "cdma.hw.dma.control.record",
        fifo=StraightFifo,
    )


def cover_depth(config: EngineConfig) -> int:
    return 20 + 3 * ENTRY_BYTES // config.host_bytes


def total(flags) -> Value:
    return sum(flags, Const(0))


def counted(bench: Bench, name: str, bits: int, *, up: Value, down: Value | int = 0) -> Signal:
    count = Signal(bits, name=name)
    bench.m.d.sync += count.eq(count + up - down)
    return count


def records_proof(config: EngineConfig, *, progress: bool) -> Bench:
    """Dispatcher, completer, record writer and supervisor, wired as in the engine. Both paths give
    an outcome for each job, in order; the bus answers each record once it has it."""
    bench = Bench()
    m = bench.m
    dispatcher, completer = Dispatcher(config), RetireUnit(config)
    writer, supervisor = RecordWriter(config), Supervisor()
    starting, ending, writing, counting = (
        bench.add(part) for part in (dispatcher, completer, writer, supervisor)
    )
    wiring.connect(m, dispatcher.started, completer.started)
    wiring.connect(m, completer.o, writer.i)

    i = bench.drive(dispatcher.i)
    job_out, job_in = bench.watch(dispatcher.job_out), bench.watch(dispatcher.job_in)
    verify = bench.watch(completer.verify)
    outcome_out, outcome_in = bench.drive(completer.outcome_out), bench.drive(completer.outcome_in)
    request, beats = bench.watch(writer.request), bench.watch(writer.beats)
    response = bench.drive(writer.response)
    abort, clear = supervisor.abort, supervisor.clear
    m.d.comb += [
        dispatcher.all_retired.eq(supervisor.all_retired),
        dispatcher.verified.eq(completer.verified),
        dispatcher.abort.eq(abort),
        writer.clear.eq(clear),
        supervisor.start_fire.eq(i.moves),
        supervisor.record_done.eq(writer.record_done),
        supervisor.record_info.eq(writer.record_info),
        supervisor.record_error.eq(writer.error),
        *(
            wire.eq(AnySeq(len(wire)))
            for wire in (
                *(dispatcher.now, completer.now, completer.log2_entries),
                *(supervisor.abort_request, supervisor.reset_request, supervisor.enabled),
                *(supervisor.fetched, supervisor.buses_idle, supervisor.ring_faulty),
                *(supervisor.record_outside, supervisor.record_address),
            )
        ),
    ]
    bench.assume(~(supervisor.fetched & i.valid))

    # Numbers since the last reset of the ring.
    came, sent, told = (
        Signal(INDEX_BITS, name=name) for name in ("came", "records_sent", "records_told")
    )
    is_sent = Signal()
    m.d.comb += is_sent.eq(beats.moves & beats.payload.last)
    m.d.sync += [
        came.eq(came + i.moves),
        sent.eq(sent + is_sent),
        told.eq(told + response.moves),
    ]
    with m.If(clear):
        m.d.sync += [came.eq(0), sent.eq(0), told.eq(0)]
    bench.assume(~i.valid | (i.payload.index == came), i.payload.status != Status.IN_PROGRESS)
    bench.implies(clear, came == told, ~i.moves)

    # Where descriptors are: in a register, in the queue, in a register, in the record writer.
    layout = StartedDescriptor(config)
    waiting = Queue.inside(bench, ending, "waiting")
    started_valid = starting["starts.held_valid"]
    items = [
        (there, layout(item))
        for there, item in (*waiting.items, (started_valid, starting["starts.held"]))
    ]
    head_there, head = items[0]
    ended_valid = ending["completions.held_valid"]
    ended = Completion()(ending["completions.held"])
    sending, announced = writing["sending"], writing["announced"]
    held = Completion()(writing["held"])
    pending = Queue.inside(bench, writing, "pending")

    # Each record has its descriptor's index, which is its own number.
    numbers = [
        (sending, held.record.index, Const(0)),
        (ended_valid, ended.record.index, sending),
        (head_there, head.index, sending + ended_valid),
        *(
            (there, item.index, sending + ended_valid + head_there + place)
            for place, (there, item) in enumerate(items[1:-1])
        ),
        (started_valid, items[-1][1].index, sending + ended_valid + waiting.count),
    ]
    for number, (there, index, ahead) in enumerate(numbers):
        own = Signal(INDEX_BITS, name=f"number_{number}")
        m.d.comb += own.eq(sent + ahead)
        bench.implies(there, index == own)
    open_records = Signal(INDEX_BITS)
    under_way = Signal(INDEX_BITS)
    m.d.comb += [open_records.eq(sent - told), under_way.eq(came - told)]
    bench.require(pending.count == open_records + sending)
    bench.require(
        under_way == pending.count + ended_valid + waiting.count + started_valid,
        counting["outstanding"] == under_way,
    )

    # A record is written as a burst: its address, then all of its bytes.
    width = config.host_bytes
    beats_each = max(1, ENTRY_BYTES // width)
    number = Signal(range(beats_each))
    address = Signal(64)
    words = [Signal(8 * width, name=f"word_{j}") for j in range(beats_each - 1)]
    record = Signal(8 * ENTRY_BYTES)
    place = Signal(64)
    with m.If(request.moves):
        m.d.sync += address.eq(request.payload.address)
    with m.If(beats.moves):
        m.d.sync += number.eq(Mux(is_sent, 0, number + 1))
        for j, word in enumerate(words):
            with m.If(number == j):
                m.d.sync += word.eq(beats.payload.data)
    bench.require(request.payload.beats == beats_each - 1)
    bench.implies(beats.valid, beats.payload.last == (number == beats_each - 1))
    if width > ENTRY_BYTES:
        full = (1 << ENTRY_BYTES) - 1
        upper = beats.payload.strobe == full << ENTRY_BYTES
        bench.implies(beats.valid, upper | (beats.payload.strobe == full))
        m.d.comb += [
            record.eq(beats.payload.data.word_select(upper, 8 * ENTRY_BYTES)),
            place.eq(address + Mux(upper, ENTRY_BYTES, 0)),
        ]
    else:
        bench.implies(beats.valid, beats.payload.strobe.all())
        m.d.comb += [record.eq(Cat(*words, beats.payload.data)), place.eq(address)]
    bench.require(writing["beat"] == number)
    bench.implies(number != 0, sending, announced)
    bench.implies(sending & announced, address == (held.address & ~(max(width, ENTRY_BYTES) - 1)))
    for j, word in enumerate(words):
        bench.implies(number > j, word == held.record.as_value().word_select(j, 8 * width))
    written = Record()(record)
    bench.implies(is_sent, written.index == sent, written.status != Status.IN_PROGRESS)
    bench.implies(response.valid, pending.items[0][0])
    bench.implies((pending.count != 0) & ~pending.items[0][0], sending, ~announced)
    bench.implies((pending.count != 0) & ~pending.items[0][0], pending.count == 1)
    bench.assume(~response.valid | (open_records != 0))
    bench.require(writer.record_done == response.moves)

    # The paths: as many jobs are open as descriptors wait for them.
    out_open = counted(bench, "out_open", COUNT_BITS, up=job_out.moves, down=outcome_out.moves)
    in_open = counted(
        bench, "in_open", COUNT_BITS, up=job_in.moves + verify.moves, down=outcome_in.moves
    )
    bench.assume(
        ~outcome_out.valid | (out_open != 0),
        ~outcome_in.valid | (in_open != 0),
    )
    completions = ending.component("completions")
    ends, record_to_be = completions.i.valid, completions.i.payload.record
    comparing, compared = Signal(), Signal()
    with m.If(outcome_in.moves):
        m.d.sync += [comparing.eq(0), compared.eq(comparing)]
    with m.If(verify.moves):
        m.d.sync += comparing.eq(1)
    with m.If(ends & completions.i.ready):
        m.d.sync += compared.eq(0)
    used = Signal()
    m.d.comb += used.eq(verify.valid | comparing | ends)
    outs = [there & (item.way == Way.OUT) for there, item in items]
    ins = [there & (item.way == Way.IN) for there, item in items]
    verified = [
        out & (item.flags & Flag.VERIFY).any() for out, (_, item) in zip(outs, items, strict=True)
    ]
    bench.require(starting["outs.held_valid"] + out_open + (outs[0] & used) == total(outs))
    bench.require(starting["ins.held_valid"] + in_open + (ins[0] & used) == total(ins) + comparing)
    bench.require(starting["verifying"] == total(verified))
    for later in range(1, len(items)):
        bench.implies(ins[later], ~Cat(verified[:later]).any())
    for there, item in items:
        bench.implies(there, item.way.as_value() != 3, (item.way != Way.NONE) | (item.status != 0))
    state = ending["fsm_state"]
    bench.implies(used, head_there, record_to_be.status != Status.IN_PROGRESS)
    bench.implies(verify.valid | comparing, verified[0], ~compared)
    bench.require(verify.valid == (state == VERIFIES), ends == (state == ENDS))
    bench.require(comparing == (state == COMPARES))
    bench.implies(compared, ends, verified[0])
    # What is verified is read back by the way in, of which it has to itself all there is.
    bench.implies(verify.valid, ~job_in.valid, in_open == 0)
    right = (record_to_be.status == Status.OK) | (record_to_be.status == Status.OK_EXPANDED)
    bench.implies(ends & verified[0] & right, compared)
    for there, end in ((ended_valid, ended.record), (sending, held.record)):
        bench.implies(there, end.status != Status.IN_PROGRESS)

    # A fence goes when everything before it has its record.
    sound = (i.payload.status == Status.OK) & ~abort
    fence = sound & (i.payload.descriptor.opcode == Opcode.FENCE)
    bench.implies(i.moves & fence, came == told)
    # RING_DONE counts records up to the first that could not be written.
    clean = Signal(init=1)
    done = Signal(INDEX_BITS)
    with m.If(response.moves):
        m.d.sync += clean.eq(clean & (response.payload == BusError.NONE))
        with m.If(clean & (response.payload == BusError.NONE)):
            m.d.sync += done.eq(done + 1)
    with m.If(clear):
        m.d.sync += [clean.eq(1), done.eq(0)]
    bench.require(clean == (writer.error == BusError.NONE), writer.done == done)
    bench.implies(clean, done == told)

    if progress:
        willing = [
            *(port.ready for port in (job_out, job_in, verify, request, beats)),
            outcome_out.valid | (out_open == 0),
            outcome_in.valid | (in_open == 0),
            response.valid | (open_records == 0),
            i.valid | (under_way != 0),
        ]
        ports = (i, job_out, job_in, verify, outcome_out, outcome_in, request, beats, response)
        bench.progress(
            Cat(willing).all(), Cat(port.moves for port in ports).any(), cycles=MOVE_CYCLES
        )
        return bench

    # Each record tells of its descriptor, goes to its address and interrupts if it asked for it.
    descriptor = i.payload.descriptor
    interrupt = (descriptor.flags & Flag.INTERRUPT).any()
    to_bus = Order(bench, 32 + 58, count_bits=COUNT_BITS)
    to_bus.comes(one(i.moves, Cat(descriptor.tag, descriptor.record[6:])))
    to_bus.leaves(one(is_sent, Cat(written.tag, place[6:])))
    to_end = Order(bench, 32 + 58 + 1, count_bits=COUNT_BITS)
    to_end.comes(one(i.moves, Cat(descriptor.tag, descriptor.record[6:], interrupt)))
    info = writer.record_info
    to_end.leaves(one(response.moves, Cat(info.tag, info.address[6:], info.interrupt)))

    def waits(item) -> Value:
        flag = (item.flags & Flag.INTERRUPT).any()
        return Cat(item.tag, item.record[6:], flag)

    queued = [one(there, waits(item)) for there, item in items]
    completed = one(ended_valid, Cat(ended.record.tag, ended.address[6:], ended.interrupt))
    sent_runs = [one(there, RecordInfo()(item)) for there, item in pending.items]
    to_end.on_the_way(
        *(
            Run(
                run.count, [Cat(run.items[0].tag, run.items[0].address[6:], run.items[0].interrupt)]
            )
            for run in sent_runs
        ),
        completed,
        *queued,
    )
    to_bus.on_the_way(
        one(sending, Cat(held.record.tag, held.address[6:])),
        *(Run(run.count, [run.items[0][:90]]) for run in (completed, *queued)),
    )
    to_bus.restart(clear)
    to_end.restart(clear)
    # As many as come in the cycles of the covers.
    some = 2 if beats_each == 1 else 1
    bench.cover(
        is_sent & (sent == some + 1),
        response.moves & (told == some) & (response.payload != BusError.NONE),
        i.moves & fence & (told == some),
        compared & right,
        clear & (told == some),
        i.valid & fence & ~i.ready,
        under_way == 6,
    )
    return bench


SHORT = "64-short"
CASES = {SHORT: replace(HOSTS["64"], transfers=2), **HOSTS}
"""Short: with queues for fewer descriptors than the engine has."""


@pytest.mark.parametrize("config", configs(CASES, quick=()))
def test_each_descriptor_ends_in_one_record(config, tmp_path):
    prove(records_proof(config, progress=False), tmp_path, depth=2, cover_depth=cover_depth(config))


@pytest.mark.parametrize("config", configs(CASES, quick=()))
def test_descriptors_go_on_when_paths_and_bus_answer(config, tmp_path):
    prove(
        records_proof(config, progress=True),
        tmp_path,
        depth=MOVE_CYCLES + 2,
        cover_depth=cover_depth(config),
    )


FAULTS = {
    "a fence waits for nothing": (Dispatcher, "(is_valid & fence & ~self.all_retired) | ", ""),
    "settles with a record on its way": (
        *(
            Supervisor,
            "self.all_retired.eq(outstanding == 0)",
            "self.all_retired.eq(outstanding <= 1)",
        ),
    ),
    "what goes in meets what is verified": (Dispatcher, " | (inward & (verifying != 0))", ""),
    "starts what has no room": (Dispatcher, "& (~outward | outs.i.ready)", ""),
    "does not verify": (RetireUnit, "with m.If(verify_next):", "with m.If(0):"),
    "forgets that it has verified": (
        *(RetireUnit, "(d.way == Way.OUT) & (d.flags & Flag.VERIFY).any()", "0"),
    ),
    "loses a record": (
        *(RecordWriter, "(~sending | record_sent) & pending.i.ready", "~sending | record_sent"),
    ),
    "counts what was not written": (
        *(RecordWriter, "with m.Elif(error == BusError.NONE):", "with m.Else():"),
    ),
    "sends a record without its address": (
        *(RecordWriter, "[held.eq(self.i.payload), announced.eq(0)]", "held.eq(self.i.payload)"),
    ),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
@pytest.mark.parametrize("config", [CASES[SHORT]], ids=[SHORT])
def test_way_to_records_with_a_fault_is_found(config, fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, *fault)
    find_fault(records_proof(config, progress=False), tmp_path, depth=20)


@pytest.mark.verify
def test_way_to_records_that_stops_is_found(tmp_path, monkeypatch):
    break_elaborate(monkeypatch, RetireUnit, "m.d.comb += self.outcome_out.ready.eq(1)", "pass")
    find_fault(records_proof(HOSTS["64"], progress=True), tmp_path, depth=14)
