"""Several rings: each gets its turn, no fence holds up the others, and each gets its own beats."""

import pytest
from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq

from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import CheckedDescriptor, Opcode, Status
from cdma.hw.dma.control.fetch_arbiter import FetchArbiter
from cdma.hw.dma.control.ring_arbiter import RingArbiter
from cdma.hw.dma.limits import ENTRY_BYTES
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.engines import engine_of
from tests.formal.order import Order, one
from tests.formal.queues import Queue, StraightFifo, open_fifos
from tests.formal.smtbmc import prove
from tests.lib.shares import configs


@pytest.fixture(autouse=True)
def _queues_are_open(monkeypatch):
    open_fifos(monkeypatch, "cdma.hw.dma.control.fetch_arbiter", fifo=StraightFifo)


def require_turns(
    bench: Bench, served: Value, waits: list[Value], chosen: list[Value], *, name: str
) -> None:
    """State that none that waits is passed over by more than one of each other.

    A ring's rank is how many the arbiter prefers to it; what has passed it had a better one.
    """
    rings = len(waits)
    bench.require(served < rings, sum(chosen, 0 * chosen[0]) <= 1)
    for ring in range(rings):
        passed = Signal(range(rings + 1), name=f"{name}_passed_{ring}")
        rank = Signal(range(rings), name=f"{name}_rank_{ring}")
        bench.m.d.comb += rank.eq(Mux(served < ring, ring - 1 - served, ring + rings - 1 - served))
        with bench.m.If(chosen[ring] | ~waits[ring]):
            bench.m.d.sync += passed.eq(0)
        with bench.m.Elif(Cat(chosen).any()):
            bench.m.d.sync += passed.eq(passed + 1)
        bench.require(passed + rank <= rings - 1)
        bench.cover(passed == rings - 1)


def arbiter_proof(rings: int) -> Bench:
    """Any descriptors of all rings, any of which may end or be aborted at any time."""
    bench = Bench()
    m = bench.m
    arbiter = RingArbiter(rings)
    inside = bench.add(arbiter)
    for wire in (arbiter.all_retired, arbiter.abort):
        m.d.comb += wire.eq(AnySeq(rings))
    sources = [bench.drive(i) for i in arbiter.i]
    o = bench.watch(arbiter.o)

    waits, chosen, fences = [], [], []
    held, any_chosen = Signal(CheckedDescriptor(rings)), Cat(arbiter.chosen).any()
    for ring, source in enumerate(sources):
        d = source.payload
        fence = (d.descriptor.opcode == Opcode.FENCE) & (d.status == Status.OK)
        early = fence & ~arbiter.all_retired[ring] & ~arbiter.abort[ring]
        fences.append(early)
        waits.append(source.valid & ~early)
        chosen.append(arbiter.chosen[ring])
        bench.require(source.moves == arbiter.chosen[ring])
        bench.implies(arbiter.chosen[ring], ~early)
        with m.If(arbiter.chosen[ring]):
            m.d.sync += [
                *(getattr(held, name).eq(getattr(d, name)) for name, _ in CheckedDescriptor()),
                held.ring.eq(ring),
            ]
        bench.cover(source.valid & early & any_chosen)
    require_turns(bench, inside["arbiter.served"], waits, chosen, name="start")

    # What is chosen is what is given, with its ring's number.
    full = Signal()
    with m.If(any_chosen):
        m.d.sync += full.eq(1)
    with m.Elif(o.moves):
        m.d.sync += full.eq(0)
    bench.require(o.valid == full, ~any_chosen | ~full)
    bench.implies(o.valid, Value.cast(o.payload) == Value.cast(held))
    bench.progress(Cat(waits).any() & o.ready, any_chosen | o.moves, cycles=0)
    return bench


RINGS = {str(rings): rings for rings in (2, 3, 4, 8)}


@pytest.mark.parametrize("rings", configs(RINGS, quick=()))
def test_each_ring_starts_in_its_turn(rings, tmp_path):
    prove(arbiter_proof(rings), tmp_path, depth=2, cover_depth=4 + 2 * rings)


ARBITER_FAULTS = {
    "takes what it did not grant": ("& (arbiter.grant == ring)", ""),
    "takes while it is full": ("& next_job.i.ready", ""),
    "asks for a fence too early": (
        "requests[ring].eq(i.valid & ~waits)",
        "requests[ring].eq(i.valid & (~waits | (ring == 0)))",
    ),
    "starts a fence too early": ("& ~self.all_retired[ring]", "& self.all_retired[ring]"),
    "holds a fence in an abort": ("& ~self.abort[ring]", ""),
    "confuses the rings": ("payload.ring.eq(ring)", "payload.ring.eq(0)"),
    "never moves on": ("arbiter.fire.eq(self.chosen.any())", "arbiter.fire.eq(0)"),
}


@pytest.mark.parametrize("fault", configs(ARBITER_FAULTS, quick=()))
def test_arbiter_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, RingArbiter, *fault)
    find_fault(arbiter_proof(3), tmp_path, depth=10)


def fetch_proof(config: EngineConfig) -> Bench:
    """Fetchers that request at any time, and a port that answers as many beats as are due."""
    bench = Bench()
    m = bench.m
    rings = config.rings
    arbiter = FetchArbiter(config)
    inside = bench.add(arbiter)
    beats_each = max(1, ENTRY_BYTES // config.host_bytes)
    sources = [bench.drive(request) for request in arbiter.request]
    request = bench.watch(arbiter.port_request)
    port_beats = bench.drive(arbiter.port_beats)
    # Each fetcher has room for what it requests, and takes it at once.
    sinks = list(arbiter.beats)
    m.d.comb += [sink.ready.eq(1) for sink in sinks]
    queue = Queue.inside(bench, inside, "order")
    for there, item in queue.items:
        bench.implies(there, item < rings)

    # None requests more than it has room for.
    moves = Cat(source.moves for source in sources)
    owner, beat_owner = Signal(range(rings)), Signal(range(rings))
    beat, ended = Signal(range(beats_each)), Signal()
    m.d.comb += ended.eq(port_beats.moves & (beat == beats_each - 1))
    with m.If(port_beats.moves):
        m.d.sync += beat.eq(Mux(ended, 0, beat + 1))
    bench.require(inside["beat"] == beat)
    for ring, (source, sink) in enumerate(zip(sources, sinks, strict=True)):
        due = Signal(range(config.transfers + 1), name=f"due_{ring}")
        m.d.sync += due.eq(due + source.moves - (ended & sink.valid))
        bench.assume(~source.valid | (due != config.transfers))
        bench.require(due <= config.transfers)
        queued = sum(((there & (item == ring)) for there, item in queue.items), 0 * ended)
        bench.require(queued == due)
        bench.implies(sink.valid, port_beats.valid, sink.payload == port_beats.payload)
        with m.If(source.moves):
            m.d.comb += owner.eq(ring)
        with m.If(sink.valid):
            m.d.comb += beat_owner.eq(ring)
    bench.require(sum((sink.valid for sink in sinks), 0 * ended) == port_beats.moves)

    # The bus answers requests that it has, in order, with whole descriptors.
    open_requests = Signal(range(rings * config.transfers + 2))
    m.d.sync += open_requests.eq(open_requests + request.moves - ended)
    bench.assume(~port_beats.valid | (open_requests != 0))
    bench.require(open_requests + request.valid == queue.count)
    bench.implies(beat != 0, open_requests != 0)
    order = Order(bench, len(owner), count_bits=5)
    order.comes(one(moves.any(), owner))
    order.leaves(one(ended, beat_owner))
    order.on_the_way(*queue.runs)

    # A request is its source's, with its ring's number.
    address, number = Signal(64), Signal(range(rings))
    for ring, source in enumerate(sources):
        with m.If(source.moves):
            m.d.sync += [address.eq(source.payload.address), number.eq(ring)]
    bench.implies(
        request.valid, request.payload.address == address, request.payload.owner == number
    )
    waits = [source.valid for source in sources]
    require_turns(bench, inside["arbiter.served"], waits, list(moves), name="fetch")
    return bench


FETCHES = {
    "2 of 64": engine_of(64, rings=2, transfers=2),
    "3 of 32": engine_of(32, rings=3, transfers=2),
    "4 of 128": engine_of(128, rings=4, transfers=2),
}


@pytest.mark.parametrize("config", configs(FETCHES, quick=()))
def test_beats_come_to_who_requested_them(config, tmp_path):
    prove(fetch_proof(config), tmp_path, depth=2, cover_depth=24)


FETCH_FAULTS = {
    "gives the beats to another": ("own.eq(order.o.payload == ring)", "own.eq(ring == 0)"),
    "goes on too early": ("beat_fire & last)", "beat_fire)"),
    "confuses the owners": ("payload.owner.eq(ring)", "payload.owner.eq(0)"),
    "takes two": ("(arbiter.grant == ring) & requests", "requests"),
    "never moves on": ("arbiter.fire.eq(request_fire)", "arbiter.fire.eq(0)"),
}


@pytest.mark.parametrize("fault", configs(FETCH_FAULTS, quick=()))
def test_fetch_arbiter_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, FetchArbiter, *fault)
    find_fault(fetch_proof(FETCHES["3 of 32"]), tmp_path, depth=14)
