"""Buffers and ports: stream rules, and nothing is lost, changed or reordered."""

from dataclasses import replace
from typing import Any

import pytest
from amaranth.hdl import Cat, Const, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.hw.bus.axi import AxiStreamReceiver, AxiStreamSender
from cdma.hw.codec.stream.status import TransferStatus
from cdma.hw.codec.zvc.axis import CompressCommand, DecompressCommand
from cdma.hw.lib.beat import Beat, ReceivedBeat
from cdma.hw.lib.count import count_ones, total
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import (
    HalfRateRegister,
    LateValidRegister,
    PingPongBuffer,
    PipelineControl,
    PipelineRegister,
    ReverseRegister,
    SkidBuffer,
)
from cdma.hw.lib.ports import RecordReceiver, RecordSender
from tests.formal.bench import Bench, Inside, Port
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.order import Order, one
from tests.formal.queues import (
    CountedFifo,
    FollowedFifo,
    OpenFifo,
    Queue,
    StraightFifo,
    WeighedFifo,
)
from tests.formal.rules import axis_rules, beat_rules, received_rules
from tests.formal.smtbmc import prove
from tests.lib.shares import configs, widths

SHAPES = {"byte": 8, "beat": Beat(2), "received": ReceivedBeat(4), "sector": ReceivedBeat(32)}
STREAM_WIDTHS = widths(1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64, 128, quick=[2])
"""Bytes of a beat on AXI4-Stream: all that the hardware has, and some that are no powers of two."""
SIZED_BYTES = 32
"""Sizes of wider beats are not compared: that takes the solver minutes, and at 64 bytes it shows a
state in which `run` is not what its operands give."""
RECORDS = {
    "compress-command": CompressCommand(),
    "decompress-command": DecompressCommand(),
    "transfer-status": TransferStatus(),
    **{
        f"{bits}-and-1": data.StructLayout({"number": bits, "flag": 1})
        for bits in (1, 2, 4, 8, 16, 32, 64, 128, 256)
    },
}
"""The records of the blocks with such ports, and others of a few widths."""


@pytest.mark.parametrize("shape", configs(SHAPES, quick=["byte"]))
def test_skid_buffer_is_a_queue(shape, tmp_path):
    bench = Bench()
    buffer = SkidBuffer(shape)
    inside = bench.add(buffer)
    i, o = bench.drive(buffer.i), bench.watch(buffer.o)
    order = Order(bench, len(Value.cast(buffer.o.payload)), count_bits=2)
    order.comes(one(i.moves, i.payload))
    order.leaves(one(o.moves, o.payload))
    order.on_the_way(
        one(inside["front_valid"], inside["front"]), one(inside["spare_valid"], inside["spare"])
    )
    bench.implies(inside["spare_valid"], inside["front_valid"])
    bench.cover(inside["spare_valid"])
    prove(bench, tmp_path, depth=2)


@pytest.mark.parametrize("shape", configs(SHAPES, quick=["byte"]))
@pytest.mark.parametrize("decisive", [None, lambda payload: Value.cast(payload)[1:3]])
def test_ping_pong_buffer_is_a_queue(shape, decisive, tmp_path):
    bench = Bench()
    buffer = PingPongBuffer(shape, decisive)
    inside = bench.add(buffer)
    i, o = bench.drive(buffer.i), bench.watch(buffer.o)
    order = Order(bench, len(Value.cast(buffer.o.payload)), count_bits=2)
    order.comes(one(i.moves, i.payload))
    order.leaves(one(o.moves, o.payload))
    valid, reads_second = inside["valid"], inside["reads_second"]
    entries = [Value.cast(inside[f"entry_{k}"]) for k in range(2)]
    next_one = Mux(reads_second, entries[1], entries[0])
    other = Mux(reads_second, entries[0], entries[1])
    order.on_the_way(one(valid.any(), next_one), one(valid.all(), other))
    if decisive is not None:
        straight = {name: inside[f"straight.{name}"] for name in ("front", "spare")}
        bench.require(inside["straight.front_valid"] == valid.any())
        bench.require(inside["straight.spare_valid"] == valid.all())
        bench.implies(valid.any(), straight["front"] == decisive(next_one))
        bench.implies(valid.all(), straight["spare"] == decisive(other))
    # The one that is read next is valid if any is, and the one that is written next is free.
    bench.implies(valid.any(), valid.bit_select(reads_second, 1))
    bench.require(inside["writes_second"] == reads_second ^ (valid.any() & ~valid.all()))
    bench.cover(valid.all())
    prove(bench, tmp_path, depth=2)


@pytest.mark.parametrize("kind", [PipelineRegister, HalfRateRegister, LateValidRegister])
@pytest.mark.parametrize("shape", configs(SHAPES, quick=["byte"]))
def test_register_is_a_queue(shape, kind, tmp_path):
    bench = Bench()
    register = kind(shape)
    inside = bench.add(register)
    i, o = bench.drive(register.i), bench.watch(register.o)
    held_valid = "held_valid"
    if kind is LateValidRegister:
        # What may come and does not is loaded, too.
        bench.m.d.comb += register.i_maybe.eq(i.valid | AnySeq(1))
        held_valid = "control.held_valid"
    order = Order(bench, len(Value.cast(register.o.payload)), count_bits=2)
    order.comes(one(i.moves, i.payload))
    order.leaves(one(o.moves, o.payload))
    order.on_the_way(one(inside[held_valid], inside["held"]))
    prove(bench, tmp_path, depth=2)


def passes_or_waits(bench: Bench, i: Port, came: Value, o: Port, gone: Value) -> Signal:
    """An item leaves as it comes, or waits alone; returns whether one does."""
    waits, item = Signal(), Signal(len(gone))
    with bench.m.If(o.moves):
        bench.m.d.sync += waits.eq(0)
    with bench.m.Elif(i.moves):
        bench.m.d.sync += [waits.eq(1), item.eq(came)]
    # What the input is told comes from a register.
    bench.require(i.ready == ~waits)
    bench.implies(o.valid, gone == Mux(waits, item, came))
    bench.cover(waits & i.valid)
    return waits


@pytest.mark.parametrize("shape", configs(SHAPES, quick=["byte"]))
def test_reverse_register_is_a_queue(shape, tmp_path):
    bench = Bench()
    register = ReverseRegister(shape)
    inside = bench.add(register)
    i, o = bench.drive(register.i), bench.watch(register.o)
    waits = passes_or_waits(bench, i, Value.cast(i.payload), o, Value.cast(o.payload))
    bench.require(inside["spare_valid"] == waits, o.valid == i.valid | waits)
    prove(bench, tmp_path, depth=2)


@pytest.mark.verify
def test_control_loads_what_a_register_holds(tmp_path):
    bench = Bench()
    register, control = PipelineRegister(8), PipelineControl()
    inside = bench.add(register)
    bench.add(control)
    i, o = bench.drive(register.i), bench.watch(register.o)
    held = Signal(8)
    bench.m.d.comb += [control.i_valid.eq(i.valid), control.o_ready.eq(o.ready)]
    with bench.m.If(control.load):
        bench.m.d.sync += held.eq(i.payload)
    bench.require(control.i_ready == i.ready, control.o_valid == inside["held_valid"])
    bench.implies(o.valid, held == o.payload)
    bench.cover(o.valid & ~o.ready & i.valid)
    prove(bench, tmp_path, depth=2)


@pytest.mark.parametrize("depth", widths(1, 2, 3, 4, quick=[3]))
def test_fifo_is_a_queue(depth, tmp_path):
    bench = Bench()
    fifo = OpenFifo(8, depth)
    inside = bench.add(fifo)
    i, o = bench.drive(fifo.i), bench.watch(fifo.o)
    order = Order(bench, 8, count_bits=3)
    order.comes(one(i.moves, i.payload))
    order.leaves(one(o.moves, o.payload))
    order.on_the_way(*Queue(bench, fifo, inside).runs)
    # A macro need not say which of both is read.
    bench.require(~(inside["i_fire"] & inside["read_fire"] & (fifo.first == fifo.free)))
    prove(bench, tmp_path, depth=2)


@pytest.mark.parametrize("depth", widths(1, 2, 3, 4, 8, quick=[4]))
def test_straight_fifo_does_what_a_fifo_does(depth, tmp_path):
    bench = Bench()
    fifos = OpenFifo(8, depth), StraightFifo(8, depth)
    insides = [bench.add(fifo) for fifo in fifos]
    queues = [Queue(bench, *pair) for pair in zip(fifos, insides, strict=True)]
    i, o = bench.drive(fifos[0].i), bench.watch(fifos[0].o)
    bench.m.d.comb += [
        fifos[1].i.valid.eq(i.valid),
        fifos[1].i.payload.eq(i.payload),
        fifos[1].o.ready.eq(o.ready),
    ]
    bench.require(fifos[1].i.ready == i.ready, fifos[1].o.valid == o.valid)
    bench.implies(o.valid, fifos[1].o.payload == o.payload)
    bench.require(insides[0]["stored"] == insides[1]["stored"])
    for (there, item), (_, same) in zip(*(queue.items for queue in queues), strict=True):
        bench.implies(there, item == same)
    bench.cover(insides[0]["stored"] == depth)
    prove(bench, tmp_path, depth=2)


def stand_in(
    bench: Bench, fifo: StraightFifo, followed: FollowedFifo
) -> tuple[Queue, Inside, Inside, Port]:
    """Put a queue beside the one that it stands for, and state what both have in common."""
    inside, followed_inside = bench.add(fifo), bench.add(followed)
    queue = Queue(bench, fifo, inside)
    i, o = bench.drive(fifo.i), bench.watch(fifo.o)
    bench.m.d.comb += [
        followed.follows.eq(AnySeq(1)),
        followed.i.valid.eq(i.valid),
        followed.i.payload.eq(i.payload),
        followed.o.ready.eq(o.ready),
    ]
    bench.require(followed.i.ready == i.ready, followed.o.valid == o.valid)
    bench.require(followed.require(bench, followed_inside, "") == queue.count)
    bench.require(followed_inside["stored"] == inside["stored"])
    for place, item in enumerate(queue.numbered):
        bench.implies(followed.followed & (followed.ahead == place), item == followed.item)
    return queue, inside, followed_inside, o


@pytest.mark.parametrize("depth", widths(1, 2, 3, 4, 8, quick=[4]))
def test_followed_item_is_that_of_a_fifo(depth, tmp_path):
    bench = Bench()
    followed = FollowedFifo(8, depth)
    _queue, _inside, _followed_inside, o = stand_in(bench, StraightFifo(8, depth), followed)
    shows = Signal()
    bench.m.d.comb += shows.eq(followed.followed & o.valid & (followed.ahead == 0))
    bench.implies(shows, followed.o.payload == o.payload)
    bench.cover(shows & o.ready, followed.followed & (followed.ahead == depth))
    prove(bench, tmp_path, depth=2)


@pytest.mark.parametrize("depth", widths(1, 2, 3, 4, 8, quick=[4]))
def test_items_of_each_id_are_as_many_as_in_a_fifo(depth, tmp_path):
    bench = Bench()
    layout = data.StructLayout({"id": 2, "rest": 2})
    fifo, counted = StraightFifo(layout, depth), CountedFifo(layout, depth)
    queue, inside, counted_inside, o = stand_in(bench, fifo, counted)
    # Of the items that it could read, it reads the one that the queue does: that is possible.
    reads = (inside["stored"] != 0) & (o.ready | ~o.valid)
    bench.assume(~reads | (counted.free == fifo.rows[0]))
    bench.implies(reads, counted.possible)
    bench.implies(o.valid, Value.cast(counted.o.payload) == Value.cast(o.payload))
    for k, count in enumerate(counted.counts(bench, counted_inside, "")):
        bench.require(count == total([there & (item[:2] == k) for there, item in queue.items]))
    bench.cover(counted.followed & (counted.ahead == depth))
    prove(bench, tmp_path, depth=2)


@pytest.mark.parametrize("bits", widths(1, 2, quick=[1]))
@pytest.mark.parametrize("depth", widths(1, 2, quick=()))
def test_items_weigh_as_much_as_in_a_fifo(depth, bits, tmp_path):
    bench = Bench()
    weighed = WeighedFifo(3, depth, lambda item: item[:bits], most=2**bits - 1)
    fifo = StraightFifo(3, depth)
    queue, inside, weighed_inside, o = stand_in(bench, fifo, weighed)
    # Of the items that it could read, it reads the one that the queue does: that is possible.
    reads = (inside["stored"] != 0) & (o.ready | ~o.valid)
    bench.assume(~reads | (weighed.free == fifo.rows[0]))
    bench.implies(reads, weighed.possible)
    bench.implies(o.valid, Value.cast(weighed.o.payload) == Value.cast(o.payload))
    all_weights, before = weighed.weights(bench, weighed_inside, "")
    weights = [Mux(there, item[:bits], 0) for there, item in queue.items]
    bench.require(all_weights == sum(weights, Const(0)))
    places = enumerate(queue.numbered)
    ahead = [Mux(weighed.ahead > place, item[:bits], 0) for place, item in places]
    bench.implies(weighed.followed, before == sum(ahead, Const(0)))
    bench.cover(
        weighed.followed & (before == depth * (2**bits - 1)),
        weighed.followed & (weighed.behind != 0) if depth > 1 else weighed.followed,
    )
    prove(bench, tmp_path, depth=2)


@pytest.mark.parametrize("outputs", widths(2, 3, quick=[2]))
def test_fork_gives_each_transfer_once_to_every_output(outputs, tmp_path):
    bench = Bench()
    fork = Fork(8, outputs)
    inside = bench.add(fork)
    i = bench.drive(fork.i)
    given = inside["sent"]
    bench.implies(given.any(), i.waiting)
    bench.require(~given.all())
    for k in range(outputs):
        o = bench.watch(fork.o[k])
        taken = Signal(name=f"taken_{k}")
        bench.m.d.sync += taken.eq((taken | o.moves) & ~i.moves)
        bench.implies(o.valid, o.payload == i.payload)
        bench.implies(o.moves, ~taken)
        bench.implies(i.moves, taken | o.moves)
        bench.require(taken == given[k])
        bench.cover(taken & ~i.moves)
    prove(bench, tmp_path, depth=2)


def sender_proof(data_bytes: int) -> Bench:
    """Any beats that keep their rules: they are sent as they came, TKEEP by their sizes."""
    bench = Bench()
    sender = AxiStreamSender(data_bytes)
    inside = bench.add(sender)
    i = bench.drive(sender.i, beat_rules(data_bytes))
    axis = bench.watch_axis(sender.axis, axis_rules)
    keep = Cat(i.payload.size > j for j in range(data_bytes))
    sent = Cat(sender.axis.tdata, sender.axis.tkeep, sender.axis.tlast)
    waits = passes_or_waits(bench, i, Cat(i.payload.data, keep, i.payload.last), axis, sent)
    # No pin follows from another one in the same cycle.
    bench.require(inside["port.spare_valid"] == waits)
    bench.require(sender.axis.tvalid == (i.valid | waits) & ~ResetSignal())
    kept = replace(i, payload=data.View(Beat(data_bytes), inside["port.spare"]))
    for premise, conclusion in beat_rules(data_bytes)(bench, kept):
        bench.implies(waits & premise, conclusion)
    return bench


@pytest.mark.parametrize("data_bytes", STREAM_WIDTHS)
def test_axis_sender_keeps_the_rules_of_axi4_stream(data_bytes, tmp_path):
    prove(sender_proof(data_bytes), tmp_path, depth=2)


def received(beat: Any) -> Value:
    """The fields that a receiver gives for a beat: the size ends at the first gap of TKEEP."""
    bits = len(beat.tkeep)
    if bits > SIZED_BYTES:
        return Cat(beat.tdata, beat.tlast)
    size = count_ones((beat.tkeep & ~(beat.tkeep + 1))[:bits])
    gap = ((beat.tkeep & (beat.tkeep + 1)) != 0) | (~beat.tlast & ~beat.tkeep.all())
    return Cat(beat.tdata, beat.tlast, size[: bits.bit_length()], gap)


def receiver_proof(data_bytes: int, *, cuts_ready: bool = True) -> Bench:
    """Any beats at all."""
    bench = Bench()
    receiver = AxiStreamReceiver(data_bytes, cuts_ready=cuts_ready)
    inside = bench.add(receiver)
    axis = bench.drive_axis(receiver.axis)
    o = bench.watch(receiver.o, received_rules(data_bytes))
    places = ("front", "spare") if cuts_ready else ("held",)
    there = {place: inside[f"port.{place}_valid"] for place in places}
    # No pin follows from another one in the same cycle, or from what the sink may make of it.
    if cuts_ready:
        bench.require(receiver.axis.tready == ~there["spare"])
        bench.implies(there["spare"], there["front"])
    else:
        bench.require(receiver.axis.tready == ~there["held"] | o.ready)

    def given(beat: Any) -> Value:
        fields = Cat(beat.data, beat.last)
        if data_bytes <= SIZED_BYTES:
            fields = Cat(fields, beat.size, beat.framing_error)
        return fields

    order = Order(bench, len(given(o.payload)), count_bits=2)
    order.comes(one(axis.moves, received(receiver.axis)))
    order.leaves(one(o.moves, given(o.payload)))
    layout = ReceivedBeat(data_bytes)
    kept = {place: data.View(layout, inside[f"port.{place}"]) for place in places}
    order.on_the_way(*(one(there[place], given(beat)) for place, beat in kept.items()))
    for place, beat in kept.items():
        for premise, conclusion in received_rules(data_bytes)(bench, replace(o, payload=beat)):
            bench.implies(there[place] & premise, conclusion)
    bench.cover(o.moves & o.payload.framing_error)
    return bench


@pytest.mark.parametrize("cuts_ready", [True, False])
@pytest.mark.parametrize("data_bytes", STREAM_WIDTHS)
def test_axis_receiver_reports_malformed_beats_of_any_source(data_bytes, cuts_ready, tmp_path):
    prove(receiver_proof(data_bytes, cuts_ready=cuts_ready), tmp_path, depth=2)


def records_proof(layout: data.StructLayout) -> Bench:
    """A receiver and a sender of records, beside each other."""
    bench = Bench()
    fields = [name for name, _ in layout]
    receiver, sender = RecordReceiver(layout), RecordSender(layout)
    insides = bench.add(receiver), bench.add(sender)
    bench.drive_record(receiver.port, fields)
    bench.watch(receiver.o)
    bench.drive(sender.i)
    bench.watch_record(sender.port, fields)
    bench.require(receiver.port.ready == ~insides[0]["buffer.spare_valid"])
    return bench


@pytest.mark.parametrize("layout", configs(RECORDS, quick=()))
def test_record_ports_keep_the_rules_of_streams(layout, tmp_path):
    prove(records_proof(layout), tmp_path, depth=2)


PORT_FAULTS = {
    "a stream that is valid in reset": (
        *(lambda: sender_proof(4), AxiStreamSender),
        *("axis.tvalid.eq(port.o.valid & ~ResetSignal())", "axis.tvalid.eq(port.o.valid)"),
    ),
    "a byte too many": (
        *(lambda: sender_proof(4), AxiStreamSender),
        *("j < port.o.payload.size", "j <= port.o.payload.size"),
    ),
    "a stream that follows its sink": (
        *(lambda: sender_proof(4), AxiStreamSender),
        *("axis.tvalid.eq(port.o.valid", "axis.tvalid.eq(port.o.valid & self.axis.tready"),
    ),
    "a gap that is not reported": (
        *(lambda: receiver_proof(4), AxiStreamReceiver),
        *("(axis.tkeep != run) | ", ""),
    ),
    "a partial beat that is not reported": (
        *(lambda: receiver_proof(4), AxiStreamReceiver),
        *(" | (~axis.tlast & ~axis.tkeep.all())", ""),
    ),
    "a beat that is taken by chance": (
        *(lambda: receiver_proof(4), AxiStreamReceiver),
        *("axis.tready.eq(port.i.ready)", "axis.tready.eq(port.i.ready & axis.tvalid)"),
    ),
    "a record that is valid in reset": (
        *(lambda: records_proof(TransferStatus()), RecordSender),
        *("port.valid.eq(buffer.o.valid & ~ResetSignal())", "port.valid.eq(buffer.o.valid)"),
    ),
    "a record that changes": (
        *(lambda: records_proof(TransferStatus()), RecordSender),
        *("buffer.o.ready.eq(self.port.ready)", "buffer.o.ready.eq(1)"),
    ),
}


@pytest.mark.parametrize("fault", configs(PORT_FAULTS, quick=()))
def test_a_port_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    proof, *change = fault
    break_elaborate(monkeypatch, *change)
    find_fault(proof(), tmp_path, depth=6)
