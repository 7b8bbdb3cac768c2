"""Bursts on their way to the bus: each beat with the address that it was collected for."""

from typing import Any

import pytest
from amaranth.hdl import Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst
from amaranth.lib import data

from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS
from cdma.hw.dma.limits import HOST_BURST_BEATS
from cdma.hw.dma.outbound.burst_sender import SHORT_BURSTS, BurstSender
from cdma.hw.dma.outbound.writer import DEVICE_BURST_BEATS
from cdma.hw.lib.fifo import Fifo
from tests.formal.bench import Bench, anything
from tests.formal.broken import break_contract, break_elaborate, find_fault
from tests.formal.dma.contracts import (
    TakenBeat,
    UnnamedMemory,
    beat_address,
    write_request,
    written_beat,
)
from tests.formal.queues import FollowedFifo, Queue, StraightFifo
from tests.formal.rules import CollectedRules
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

NUMBER_BITS = 3
"""Fewer bursts are queued, or announced without their data."""
MOVE_CYCLES = 2
"""In which nothing need move though the bus is willing and the queues are not."""


class Strobes(data.StructLayout):
    """A `MaskedBeat` without its data, on which nothing depends."""

    def __init__(self, data_bytes: int) -> None:
        super().__init__({"data": 0, "strobe": data_bytes})


def open_queues(monkeypatch) -> None:
    """Let the solver see one beat of the data, and all of the bursts."""
    module = "cdma.hw.dma.outbound.burst_sender"
    monkeypatch.setattr(f"{module}.MaskedBeat", Strobes)

    def fifo(shape: Any, depth: int) -> Fifo:
        return (FollowedFifo if isinstance(shape, Strobes) else StraightFifo)(shape, depth)

    monkeypatch.setattr(f"{module}.Fifo", fifo)


@pytest.fixture(autouse=True)
def _queues_are_open(monkeypatch):
    open_queues(monkeypatch)


SHAPES = {
    "tiny": (4, HOST_ADDRESS_BITS, HOST_BURST_BEATS, 2),
    **{
        f"host-{width}": (width, HOST_ADDRESS_BITS, HOST_BURST_BEATS, 16) for width in (32, 64, 128)
    },
    **{
        f"device-{width}": (width, DEVICE_ADDRESS_BITS, DEVICE_BURST_BEATS, 16)
        for width in (32, 64, 128)
    },
}
"""Bytes of a beat, bits of an address, beats of the longest burst, bursts without a response."""


def sender_proof(shape: tuple[int, int, int, int], *, chained: bool = False) -> Bench:
    """Any bursts that are collected, and any bus.

    The solver picks a burst and one of its beats, and follows the two to the bus. Chained, these
    keep their contracts, and do so on the bus.
    """
    bench = Bench(relies=chained)
    m = bench.m
    width, address_bits, burst_beats, bursts = shape
    sender = BurstSender(width, address_bits, bursts, burst_beats)
    inside = bench.add(sender)
    # Of a count of beats: four bursts and one that is collected are fewer.
    count_bits = (8 * burst_beats - 1).bit_length()
    for stream in (sender.data, sender.burst):
        m.d.comb += anything(stream)
    comes = CollectedRules(burst_beats, number_bits=NUMBER_BITS)
    bench.assume(*comes.conditions(bench, sender.data, sender.burst))
    request, beats = bench.watch(sender.request), bench.watch(sender.beats)
    queue = inside.component("queue")
    requests, sizes = (Queue.inside(bench, inside, name) for name in ("requests", "sizes"))
    queued_beats = queue.require(bench, inside, "queue.")
    sent = inside["sent_beats"]

    # The burst and the beat that are followed, as they come.
    burst, beat = Signal(NUMBER_BITS), Signal(range(burst_beats))
    announced, written = Signal(NUMBER_BITS), Signal(NUMBER_BITS)
    payload, strobe = Signal(address_bits + 8), queue.item
    m.d.comb += [burst.eq(AnyConst(NUMBER_BITS)), beat.eq(AnyConst(len(beat)))]
    m.d.sync += [
        announced.eq(announced + request.moves),
        written.eq(written + (beats.moves & beats.payload.last)),
    ]
    own = comes.number == burst
    m.d.comb += queue.follows.eq(comes.data_fire & own & (comes.beats == beat))
    with m.If(comes.burst_fire & own):
        m.d.sync += payload.eq(sender.burst.payload.as_value())
    last = payload[address_bits:]

    # Where they are: in the queues, each in its order.
    queued, ahead, waiting, open_bursts = (
        Signal(NUMBER_BITS, name=name) for name in ("queued", "ahead", "waiting", "open_bursts")
    )
    m.d.comb += [
        queued.eq(comes.number - written),
        ahead.eq(burst - written),
        waiting.eq(comes.number - announced),
        open_bursts.eq(announced - written),
    ]
    # A writer waits for responses when it has so many and one, and there are none before the data.
    bench.assume(~sender.burst.valid | (queued <= bursts))
    bench.require(queued <= bursts + 1)
    there, collects = Signal(), Signal()
    m.d.comb += [there.eq(ahead < queued), collects.eq(own & (comes.beats > beat))]
    bench.require(
        requests.count == waiting,
        sizes.count == queued,
        inside["announced"] == open_bursts,
        open_bursts <= queued,
    )
    for number, item in enumerate(requests.numbered):
        own_number = Signal(NUMBER_BITS, name=f"request_{number}")
        m.d.comb += own_number.eq(announced + number)
        bench.implies((number < waiting) & (own_number == burst), item == payload)
    before = Signal(count_bits)
    total: Value = Const(0)
    for number, item in enumerate(sizes.numbered):
        bench.implies(number < queued, item < burst_beats)
        bench.implies((number < queued) & (ahead == number), item == last)
        with m.If((number < queued) & (ahead == number)):
            m.d.comb += before.eq(total)
        so_far = Signal(count_bits, name=f"beats_of_{number + 1}")
        m.d.comb += so_far.eq(total + Mux(number < queued, item[: len(beat)] + 1, 0))
        total = so_far
    with m.If(collects):
        m.d.comb += before.eq(total)
    bench.require(queued_beats + sent == total + comes.beats)
    bench.implies(sent != 0, open_bursts != 0, sent <= sizes.numbered[0])
    waits = collects | (there & (beat <= last) & ((ahead != 0) | (beat >= sent)))
    bench.require(queue.followed == waits)
    bench.implies(waits, queue.ahead + sent == before + beat)

    # What the bus sees of them.
    bench.implies(request.valid & (announced == burst), there)
    bench.implies(request.valid & (announced == burst), request.payload.as_value() == payload)
    now = beats.valid & (written == burst)
    bench.implies(beats.valid, open_bursts != 0)
    bench.implies(now, there, sent <= last, beats.payload.last == (sent == last))
    bench.implies(now & (sent == beat), queue.followed, beats.payload.strobe == strobe)
    full = ~(sender.data.ready & sender.burst.ready)
    bench.progress(
        request.ready & beats.ready & full, request.moves | beats.moves, cycles=MOVE_CYCLES
    )
    bench.cover(
        now & (sent == beat) & (beat == 1) & ~strobe[0] & ~beats.payload.last & (burst == 1),
        open_bursts == 3,
        ~sender.data.ready,
    )
    if bursts >= SHORT_BURSTS:
        bench.cover(~sender.burst.ready)
    if chained:
        kept = sender.burst.payload.shape()(payload)
        request_contract = write_request(address_bits, width)
        beat_contract = written_beat(UnnamedMemory(bench, "written", address_bits), width)

        def picked(burst: Any, strobe: Value) -> TakenBeat:
            return TakenBeat(beat_address(burst.address, beat, width), strobe, burst.owner)

        arrives = comes.data_fire & (comes.beats == beat)
        arrived = picked(sender.burst.payload, Mux(arrives, sender.data.payload.strobe, strobe))
        bench.assume_item(sender.burst.valid, sender.burst.payload, request_contract)
        bench.assume_item(
            sender.burst.valid & own & (beat <= sender.burst.payload.beats), arrived, beat_contract
        )
        bench.hold(there, kept, request_contract)
        bench.hold(waits & there, picked(kept, strobe), beat_contract)
        bench.assert_item(request.valid & (announced == burst), request.payload, request_contract)
        sent_beat = picked(kept, beats.payload.strobe)
        bench.assert_item(now & (sent == beat), sent_beat, beat_contract)
    return bench


def cover_depth(shape: tuple[int, int, int, int]) -> int:
    return 2 * shape[2] + 5


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_bursts_reach_the_bus_as_they_were_collected(shape, tmp_path):
    depth = MOVE_CYCLES + 2
    prove(sender_proof(shape), tmp_path, depth=depth, cover_depth=cover_depth(shape))


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_bursts_keep_their_contract(shape, tmp_path):
    prove(sender_proof(shape, chained=True), tmp_path, depth=1)


FAULTS = {
    "sends data before its address": (" & (announced != 0)", ""),
    "ends a burst too early": ("sizes.o.ready.eq(burst_sent)", "sizes.o.ready.eq(beats_fire)"),
    "loses a beat": ("queue.o.ready.eq(beats_fire)", "queue.o.ready.eq(1)"),
    "loses a size": ("requests.i.ready & sizes.i.ready", "requests.i.ready"),
    "takes an address that waits for one that went": (
        "announced + request_fire",
        "announced + self.request.valid",
    ),
    "goes on behind a burst's end": ("Mux(burst_sent, 0, sent_beats + 1)", "sent_beats + 1"),
    "stops": ("queue.o.valid & sizes.o.valid", "queue.o.valid & (announced == 3) & sizes.o.valid"),
}


def contract_benches(monkeypatch) -> list[Bench]:
    """The benches that state contracts here."""
    open_queues(monkeypatch)
    return [sender_proof(SHAPES[name], chained=True) for name in ("host-32", "device-32")]


CONTRACT_FAULTS = {
    "goes to another page": (
        "requests.i.payload.eq(self.burst.payload)",
        "requests.i.payload.eq(self.burst.payload.as_value() + 1)",
    ),
    "writes all of a beat": (
        "strobe.eq(queue.o.payload.strobe)",
        "strobe.eq(-1)",
    ),
    "loses a beat": FAULTS["loses a beat"],
}


@pytest.mark.parametrize("fault", configs(CONTRACT_FAULTS, quick=()))
def test_sender_that_breaks_its_contract_is_found(fault, tmp_path, monkeypatch):
    break_contract(monkeypatch, BurstSender, *fault)
    find_fault(sender_proof(SHAPES["device-32"], chained=True), tmp_path, depth=10)


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_sender_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, BurstSender, *fault)
    find_fault(sender_proof(SHAPES["device-32"]), tmp_path, depth=20)
