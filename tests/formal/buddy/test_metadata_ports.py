"""The ports that slices of the metadata cache share: each gets what is its own, in order."""

from dataclasses import replace

import pytest
from amaranth.hdl import Cat, Const, Signal, Value
from amaranth.hdl._ast import AnySeq

from cdma.hw.buddy.metadata.line import LineShape
from cdma.hw.buddy.metadata.ports import EvictionPort, LineRequestArbiter, RefillPort
from cdma.hw.config import METADATA_CACHES, MetadataCacheConfig
from cdma.hw.lib.count import count_ones, total
from tests.formal.bench import Bench, Inside, Port
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.order import Order, one
from tests.formal.queues import Queue, StraightFifo, open_fifos
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

TINY = replace(METADATA_CACHES["tiny"], slices=2, misses=1, lookups=4)
CONFIGS = {
    "2-of-32": TINY,
    "2-of-64": replace(TINY, capacity_bytes=256, line_bytes=64),
}
"""Slices and bytes of a line."""


@pytest.fixture(autouse=True)
def _queues_are_open(monkeypatch):
    open_fifos(monkeypatch, "cdma.hw.buddy.metadata.ports", fifo=StraightFifo)


def request_address(shape: LineShape, k: int, line: Value) -> Value:
    return Cat(Const(0, shape.offset_bits), Const(k, shape.slice_bits), line)


def follow_requests(
    bench: Bench, shape: LineShape, inside: Inside, sources: list[Port], request: Port
) -> None:
    """Requests go to memory one for each line, with its address and length, in order."""
    order = Order(bench, 40, count_bits=3)
    order.comes(
        *(
            one(source.moves, request_address(shape, k, source.payload))
            for k, source in enumerate(sources)
        )
    )
    order.leaves(one(request.moves, request.payload.address))
    skid = [
        (inside[f"requests.requests.{place}_valid"], inside[f"requests.requests.{place}"])
        for place in ("front", "spare")
    ]
    order.on_the_way(*(one(valid, payload[:40]) for valid, payload in skid))
    bench.implies(skid[1][0], skid[0][0])
    for valid, payload in skid:
        bench.implies(valid, payload[40:48] == shape.rows - 1)
    bench.implies(request.valid, request.payload.beats == shape.rows - 1)


def count_of(bench: Bench, name: str, depth: int, *, up: Value, down: Value) -> Signal:
    count = Signal(range(depth + 2), name=name)
    bench.m.d.sync += count.eq(count + up - down)
    bench.require(count <= depth)
    return count


def index_of(flags: list[Value]) -> Value:
    """The number of the flag that is set."""
    return total([flag.replicate(3) & k for k, flag in enumerate(flags)])[:3]


def keep_order(
    bench: Bench, sources: list[Port], queue: Queue, ends: Value, flags: list[Value]
) -> None:
    """State that what ends is of the slices that requested it, whose flags are set, in order."""
    order = Order(bench, 3, count_bits=5)
    order.comes(*(one(source.moves, Const(k, 3)) for k, source in enumerate(sources)))
    order.leaves(one(ends, index_of(flags)))
    order.on_the_way(*(one(valid, item) for valid, item in queue.items))


def refill_proof(config: MetadataCacheConfig) -> Bench:
    """Any requests, never more of a slice than it may have outstanding, and any beats."""
    bench = Bench()
    m = bench.m
    shape = LineShape(config)
    port = RefillPort(config)
    inside = bench.add(port)
    sources = [bench.drive(request) for request in port.slice_request]
    request = bench.watch(port.request)
    beats = bench.drive(port.beats)
    m.d.comb += [beat.ready.eq(1) for beat in port.slice_beats]
    follow_requests(bench, shape, inside, sources, request)

    # The beats of the n-th line that was requested go to the slice that requested it.
    row = Signal(range(shape.rows + 1))
    ends = Signal()
    m.d.comb += ends.eq(beats.moves & (row == shape.rows - 1))
    with m.If(beats.moves):
        m.d.sync += row.eq(row + 1)
    with m.If(ends):
        m.d.sync += row.eq(0)
    given = [beat.valid for beat in port.slice_beats]
    bench.require(total(given) == beats.moves)
    for beat in port.slice_beats:
        bench.implies(beat.valid, Value.cast(beat.payload) == Value.cast(port.beats.payload))
    queue = Queue.inside(bench, inside, "order")
    keep_order(bench, sources, queue, ends, given)
    if shape.rows > 1:
        bench.require(inside["row"] == row)
    bench.require(row < shape.rows)
    for k, source in enumerate(sources):
        outstanding = count_of(
            bench, f"outstanding_{k}", config.misses, up=source.moves, down=ends & given[k]
        )
        bench.assume(~source.valid | (outstanding < config.misses))
        bench.require(total([valid & (item == k) for valid, item in queue.items]) == outstanding)
    # A beat comes once its request has left the port, and so after its slice is known.
    bench.implies(row != 0, queue.count != 0)
    bench.cover(ends & given[0], ends & given[-1])
    return bench


def eviction_proof(config: MetadataCacheConfig) -> Bench:
    """Any requests, never more of a slice than it may have outstanding, and any beats of each."""
    bench = Bench()
    m = bench.m
    shape = LineShape(config)
    port = EvictionPort(config)
    inside = bench.add(port)
    sources = [bench.drive(request) for request in port.slice_request]
    bursts = [bench.drive(beats) for beats in port.slice_beats]
    request = bench.watch(port.request)
    beats = bench.watch(port.beats)
    response = bench.drive(port.response)
    m.d.comb += [answer.ready.eq(AnySeq(1)) for answer in port.slice_response]
    follow_requests(bench, shape, inside, sources, request)

    # Bursts leave whole, in the order of the requests, and as they came.
    ends = Signal()
    m.d.comb += ends.eq(beats.moves & port.beats.payload.last)
    taken = [burst.moves for burst in bursts]
    bench.require(total(taken) == beats.moves)
    for burst in bursts:
        bench.implies(burst.moves, Value.cast(burst.payload) == Value.cast(port.beats.payload))
    beat_queue = Queue.inside(bench, inside, "beat_order")
    answer_queue = Queue.inside(bench, inside, "response_order")
    answered = [answer.valid & answer.ready for answer in port.slice_response]
    bench.require(total(answered) == response.moves)
    for answer in port.slice_response:
        bench.implies(answer.valid, Value.cast(answer.payload) == Value.cast(port.response.payload))
    for queue, ended, flags in (
        (beat_queue, ends, taken),
        (answer_queue, response.moves, answered),
    ):
        keep_order(bench, sources, queue, ended, flags)
    depth = config.slices * shape.evictions
    written = count_of(bench, "written", depth, up=ends, down=response.moves)
    bench.assume(~response.valid | (written != 0))
    bench.require(answer_queue.count == beat_queue.count + written)
    for k, source in enumerate(sources):
        outstanding = count_of(
            bench, f"outstanding_{k}", shape.evictions, up=source.moves, down=answered[k]
        )
        bench.assume(~source.valid | (outstanding < shape.evictions))
        bench.require(
            total([valid & (item == k) for valid, item in answer_queue.items]) == outstanding
        )
    bench.require(count_ones(Cat(answered)) <= 1)
    bench.cover(answered[0], answered[-1])
    return bench


PROOFS = {"refills": refill_proof, "evictions": eviction_proof}


@pytest.mark.parametrize("proof", PROOFS.values(), ids=PROOFS)
@pytest.mark.parametrize("config", configs(CONFIGS, quick=()))
def test_slices_get_what_is_theirs(proof, config, tmp_path):
    prove(proof(config), tmp_path, depth=2)


FAULTS = {
    "addresses of another slice": (
        "refills",
        LineRequestArbiter,
        "Const(k, shape.slice_bits)",
        "Const(0, shape.slice_bits)",
    ),
    "beats for another slice": (
        "refills",
        RefillPort,
        "beat_fire & (order.o.payload == k)",
        "beat_fire & (order.o.payload != k)",
    ),
    "bursts that are torn apart": (
        "evictions",
        EvictionPort,
        "self.beats.valid & self.beats.ready & self.beats.payload.last",
        "self.beats.valid & self.beats.ready",
    ),
    "answers for another slice": (
        "evictions",
        EvictionPort,
        "(response_order.o.payload == k)",
        "(beat_order.o.payload == k)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS)
def test_a_port_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    proof, *change = FAULTS[fault]
    break_elaborate(monkeypatch, *change)
    find_fault(PROOFS[proof](TINY), tmp_path, depth=10)
