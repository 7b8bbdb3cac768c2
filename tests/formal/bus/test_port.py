"""The shared AXI4 port: who gets what, on any bus; and that a bus without answers keeps nobody."""

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.bus.burst import BusError, ReadGuard
from cdma.hw.bus.port import Axi4Port
from cdma.hw.bus.read_half import ReadHalf
from cdma.hw.bus.write_half import WriteHalf
from tests.formal.bench import Bench, Inside, channel
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.order import Order, one
from tests.formal.queues import Queue, open_fifos
from tests.formal.sby import prove
from tests.lib.shares import configs

NUMBER_BITS = 3
"""Bursts are numbered modulo more than can be under way."""
TIMEOUT = 2
ANSWER_CYCLES = 3
LIVES_CYCLES = 2


@pytest.fixture(autouse=True)
def _queues_are_open(monkeypatch):
    open_fifos(monkeypatch, "cdma.hw.bus.burst", "cdma.hw.bus.write_half")


def total(flags) -> Value:
    return sum(flags, Const(0))


def place(inside: Inside, path: str, layout) -> tuple[Signal, Value]:
    """A register of a buffer: whether something is there, and what."""
    return inside[f"{path}_valid"], layout(inside[path])


def skid(inside: Inside, path: str, layout) -> list[tuple[Signal, Value]]:
    """The places of a skid buffer, the oldest first."""
    return [place(inside, f"{path}.{name}", layout) for name in ("front", "spare")]


def number(bench: Bench, name: str, *, up=0) -> Signal:
    """Counts, modulo."""
    count = Signal(NUMBER_BITS, name=name)
    bench.m.d.sync += count.eq(count + up)
    return count


def read_proof(bursts: tuple[int, ...], *, lawful: bool, timeout: int | None = None) -> Bench:
    """Any sources, and a bus that may answer anything, or only what it was asked for."""
    bench = Bench()
    m = bench.m
    half = ReadHalf(1, 2, 1, bursts)
    inside = bench.add(half)
    dead, clean = inside["dead"], inside["clean"]
    m.d.comb += half.timeout_cycles.eq(AnySeq(32) if timeout is None else timeout)

    requests = [bench.drive(request) for request in half.request]
    answers = bench.drive(half.bus_beats)
    bus_request = bench.watch(half.bus_request)
    beats = [bench.watch(port) for port in half.beats]

    request_layout = half.bus_request.payload.shape()
    answer_layout = half.bus_beats.payload.shape()
    asked = skid(inside, "requests", request_layout)
    there, answer = place(inside, "responses.held", answer_layout)
    bench.implies(inside["requests.spare_valid"], inside["requests.front_valid"])

    arbiter = inside.component("arbiter")
    lives = []
    for k, bound in enumerate(bursts):
        guard = f"guard_{k}"
        owed = inside[f"outstanding_{k}"]
        expected = Queue.inside(bench, inside, f"{guard}.expected")
        under_way, beat = inside[f"{guard}.outstanding"], inside[f"{guard}.beat"]
        short, dropping = inside[f"{guard}.short"], inside[f"{guard}.dropping"]
        lives.append(under_way)
        bench.require(owed <= bound, under_way == expected.count)

        # The beats of each burst are as many as were asked for.
        order = Order(bench, 8, count_bits=NUMBER_BITS)
        pops = inside[f"{guard}.burst_end"]
        given = Signal(8, name=f"given_{k}")
        with m.If(beats[k].moves):
            m.d.sync += given.eq(Mux(pops, 0, given + 1))
        bench.require(beat == given)
        bench.implies(pops, beats[k].moves)
        order.comes(one(requests[k].moves, requests[k].payload.beats))
        order.leaves(one(pops, given))
        order.on_the_way(*expected.runs)
        bench.implies(beats[k].valid, order.came != order.left)
        bench.implies(short, given != 0, under_way != 0)
        # Alive, the bus owes an RLAST for each burst that a source waits for, but for one that it
        # has cut short, and for one that it has not ended in time.
        bench.implies(~dead, under_way + dropping == owed + short)
        bench.implies(dropping, owed != 0)
        bench.implies(dropping & ~dead, given == 0)
        runs_over = Signal(8, name=f"length_{k}")
        m.d.comb += runs_over.eq(inside.component(f"{guard}.expected").o.payload)
        bench.implies(inside[f"{guard}.expected.holds"], given <= runs_over)
        bench.implies(~inside[f"{guard}.expected.holds"], given == 0)

        # Alive, each is put on the bus, once, with its source's number; dead, none is.
        goes = Signal(name=f"goes_{k}")
        m.d.comb += goes.eq(arbiter.o.valid & arbiter.o.ready & (arbiter.o.payload.id == k))
        bench.require(goes == (requests[k].moves & ~dead))
        bench.implies(
            goes,
            arbiter.o.payload.address == requests[k].payload.address,
            arbiter.o.payload.beats == requests[k].payload.beats,
        )
        bench.cover(dead & requests[k].moves, dead & beats[k].moves)

        if lawful:
            # The bus answers what it was asked for, burst by burst. Solver's choice of a burst:
            # its beats alone are marked.
            came = number(bench, f"came_{k}", up=goes)
            ar = number(bench, f"ar_{k}", up=bus_request.moves & (bus_request.payload.id == k))
            mine = answers.payload.id == k
            ended = number(
                bench, f"ended_{k}", up=answers.moves & mine & answers.payload.response.last
            )
            picked = Signal(NUMBER_BITS, name=f"picked_{k}")
            m.d.comb += picked.eq(AnyConst(NUMBER_BITS))
            bench.assume(~(answers.valid & mine) | (ar != ended))
            bench.assume(
                ~(answers.valid & mine) | (answers.payload.response.data == (ended == picked))
            )
            in_request = total(waits & (item.id == k) for waits, item in asked)
            is_last = there & (answer.id == k) & answer.response.last
            out = Signal(NUMBER_BITS, name=f"out_{k}")
            open_bursts = Signal(NUMBER_BITS, name=f"open_{k}")
            unseen = Signal(NUMBER_BITS, name=f"unseen_{k}")
            m.d.comb += [
                out.eq(came - owed),
                open_bursts.eq(ar - ended),
                unseen.eq(came - ar),
            ]
            bench.require(
                open_bursts <= bound,
                unseen == in_request,
                owed == open_bursts + in_request + is_last,
            )
            bench.implies(there & (answer.id == k), answer.response.data == (out == picked))
            # Every beat that passes for good is of the burst that it is given for.
            own = Signal(NUMBER_BITS, name=f"own_{k}")
            m.d.comb += own.eq(came - under_way)
            good = beats[k].valid & (beats[k].payload.error == BusError.NONE)
            bench.implies(good, ~dead, beats[k].payload.data == (own == picked))
            bench.cover(good & (beats[k].payload.data == 1), dead & (owed == bound))
    bench.implies(dead & clean, total(request.moves for request in requests) == 0)
    if timeout is not None:
        willing = Cat(port.ready for port in beats).all()
        given = Cat(port.moves for port in beats).any()
        bench.progress(
            willing & Cat(lives).any(),
            given | bus_request.moves,
            cycles=timeout + ANSWER_CYCLES,
        )
        bench.progress(dead & clean & willing, given, cycles=LIVES_CYCLES)
    return bench


def write_proof(bursts: tuple[int, ...], *, lawful: bool, timeout: int | None = None) -> Bench:
    """As for reads. A lawful bus is told apart for one source only."""
    bench = Bench()
    m = bench.m
    half = WriteHalf(1, 2, 1, bursts)
    inside = bench.add(half)
    dead, clean = inside["dead"], inside["clean"]
    m.d.comb += half.timeout_cycles.eq(AnySeq(32) if timeout is None else timeout)

    requests = [bench.drive(request) for request in half.request]
    beats = [bench.drive(port) for port in half.beats]
    answers = bench.drive(half.bus_response)
    bus_request = bench.watch(half.bus_request)
    bus_beats = bench.watch(half.bus_beats)
    responses = [bench.watch(response) for response in half.response]

    request_layout = half.bus_request.payload.shape()
    beat_layout = half.bus_beats.payload.shape()
    asked = skid(inside, "requests", request_layout)
    answered = skid(inside, "responses", half.bus_response.payload.shape())
    for path in ("requests", "responses"):
        bench.implies(inside[f"{path}.spare_valid"], inside[f"{path}.front_valid"])
    arbiter, bus_beat = inside.component("arbiter"), inside.component("bus_beat")
    queue = Queue.inside(bench, inside, "order")
    order_layout = inside.component("order").o.payload.shape()
    queued = [(there, order_layout(item)) for there, item in queue.items]
    for there, item in [*queued, *asked]:
        bench.implies(there, item.id < len(bursts))
    announced, waits, sent = inside["announced"], inside["request_stalled"], inside["sent"]
    ends, open_burst = inside["burst_end"], inside["open_burst"]

    # On the bus, each burst has as many beats as its address told, WLAST on the last one.
    order = Order(bench, 9, count_bits=NUMBER_BITS)
    enters = Signal()
    counted = Signal(8)
    m.d.comb += enters.eq(bus_beat.i.valid & bus_beat.i.ready)
    with m.If(enters):
        m.d.sync += counted.eq(Mux(bus_beat.i.payload.last, 0, counted + 1))
    bench.require(sent == counted, ends == (enters & bus_beat.i.payload.last))
    order.comes(
        one(
            arbiter.o.valid & arbiter.o.ready,
            Cat(arbiter.o.payload.id, arbiter.o.payload.beats),
        )
    )
    order.leaves(one(ends, Cat(queued[0][1].id, counted)))
    order.on_the_way(*queue.runs)
    bench.implies(sent != 0, open_burst)
    bench.implies(open_burst, sent <= queued[0][1].beats)
    bench.require(queue.count <= sum(bursts))

    # No beat before its address is offered.
    shown = number(bench, "shown", up=bus_request.valid & ~bus_request.waiting)
    closed = number(bench, "closed", up=bus_beats.moves & bus_beats.payload.last)
    bench.require(waits == bus_request.waiting)
    front, behind = asked
    bench.require(queue.count == announced + (front[0] & ~waits) + behind[0])
    held, beat = place(inside, "bus_beat.held", beat_layout)
    lasts = Signal()
    open_bursts = Signal(NUMBER_BITS)
    m.d.comb += [lasts.eq(held & beat.last), open_bursts.eq(shown - closed)]
    bench.require(open_bursts == announced + lasts)
    bench.implies(held & ~beat.last, sent != 0)
    bench.implies(bus_beats.valid, open_bursts != 0)

    # Once dead, nothing new on the bus names a byte.
    was_dead = Signal()
    m.d.sync += was_dead.eq(dead)
    fresh = bus_beats.valid & ~bus_beats.waiting
    bench.implies(was_dead & fresh, bus_beats.payload.strobe == 0)
    bench.cover(was_dead & fresh, was_dead & bus_beats.valid & bus_beats.payload.strobe)

    willing = []
    for k, bound in enumerate(bursts):
        owed, unanswered, unsent = (
            inside[f"{name}_{k}"] for name in ("outstanding", "response_pending", "data_pending")
        )
        own = open_burst & (queued[0][1].id == k) & ~dead
        # A source's bursts are as long as it has told.
        bench.assume(
            ~(own & beats[k].valid) | (beats[k].payload.last == (sent == queued[0][1].beats))
        )
        # Each burst is answered once, when its data has been taken.
        begun = number(bench, f"begun_{k}", up=requests[k].moves)
        taken = number(bench, f"taken_{k}", up=beats[k].moves & beats[k].payload.last)
        told = number(bench, f"told_{k}", up=responses[k].moves)
        count = Signal(NUMBER_BITS, name=f"count_{k}")
        rest = Signal(NUMBER_BITS, name=f"rest_{k}")
        m.d.comb += [count.eq(begun - told), rest.eq(begun - taken)]
        bench.require(count == unanswered, rest == unsent, unsent <= unanswered)
        bench.require(unanswered <= bound, owed <= bound)
        bench.implies(responses[k].valid, told != taken)
        bench.implies(dead & responses[k].valid, responses[k].payload == BusError.TIMEOUT)
        bench.implies(~dead, responses[k].payload != BusError.TIMEOUT, owed == unanswered)
        bench.implies(~dead, total(there & (item.id == k) for there, item in queued) == unsent)
        goes = Signal(name=f"goes_{k}")
        m.d.comb += goes.eq(arbiter.o.valid & arbiter.o.ready & (arbiter.o.payload.id == k))
        bench.require(goes == (requests[k].moves & ~dead))
        bench.implies(
            goes,
            arbiter.o.payload.address == requests[k].payload.address,
            arbiter.o.payload.beats == requests[k].payload.beats,
        )
        enters_own = Signal(name=f"enters_own_{k}")
        m.d.comb += enters_own.eq(enters & own)
        bench.require(enters_own == (beats[k].moves & ~dead))
        bench.implies(
            enters_own,
            bus_beat.i.payload.data == beats[k].payload.data,
            bus_beat.i.payload.strobe == beats[k].payload.strobe,
        )
        bench.cover(dead & requests[k].moves, dead & beats[k].moves, dead & responses[k].moves)
        bench.cover(responses[k].moves & (responses[k].payload == BusError.SLVERR))
        willing.append(responses[k].ready & (beats[k].valid | (unsent == 0)))

    if lawful:
        # The bus answers a burst when it has all of it. The response to the burst that the solver
        # has chosen is an error, the others are not.
        (bound,) = bursts
        came = number(bench, "came", up=goes)
        aw = number(bench, "aw", up=bus_request.moves)
        returned = number(bench, "returned", up=answers.moves)
        picked = Signal(NUMBER_BITS)
        out = Signal(NUMBER_BITS)
        addressed, whole, unseen, ended = (
            Signal(NUMBER_BITS, name=name) for name in ("addressed", "whole", "unseen", "ended")
        )
        m.d.comb += [
            picked.eq(AnyConst(NUMBER_BITS)),
            out.eq(came - owed),
            addressed.eq(aw - returned),
            whole.eq(closed - returned),
            unseen.eq(came - aw),
            ended.eq(came - queue.count),
        ]
        bench.assume(
            ~answers.valid
            | (
                (answers.payload.id == 0)
                & (addressed != 0)
                & (whole != 0)
                & (answers.payload.resp[1] == (returned == picked))
            )
        )
        bench.require(
            unseen == total(there for there, _ in asked),
            addressed <= bound,
            whole + lasts + queue.count <= bound,
            owed == unseen + addressed + total(there for there, _ in answered),
            (ended - closed)[:NUMBER_BITS] == lasts,
            (shown - aw)[:NUMBER_BITS] == waits,
        )
        for index, (there, item) in enumerate(answered):
            burst = Signal(NUMBER_BITS, name=f"burst_{index}")
            m.d.comb += burst.eq(out + index)
            bench.implies(there, item.id == 0, item.resp[1] == (burst == picked))
        fails = responses[0].payload != BusError.NONE
        bench.implies(responses[0].valid & ~dead, fails == (out == picked))
        bench.implies(dead & clean, queue.count == 0)
        bench.cover(responses[0].moves & ~dead & (out == 2), dead & (owed == bound))

    bench.implies(dead & clean, ~Cat(request.moves for request in requests).any())
    if timeout is not None:
        waiting = inside["any_pending"].any()
        moves = Cat(port.moves for port in (*beats, *responses)).any()
        bench.progress(
            Cat(willing).all() & waiting,
            moves | bus_request.moves | bus_beats.moves,
            cycles=timeout + ANSWER_CYCLES,
        )
        bench.progress(dead & clean & Cat(willing).all(), moves, cycles=LIVES_CYCLES)
    return bench


ONE, MIXED, TWO = (1,), (1, 2), (2,)
READS = {
    "1-any": (ONE, False),
    "1-lawful": (ONE, True),
    "1+2-any": (MIXED, False),
    "1+2-lawful": (MIXED, True),
}
WRITES = {"2-any": (TWO, False), "2-lawful": (TWO, True), "1+2-any": (MIXED, False)}
IN_TIME = {"1": ONE, "1+2": MIXED}


@pytest.mark.parametrize("case", configs(READS, quick=()))
def test_reads_are_answered_as_asked(case, tmp_path):
    bursts, lawful = case
    prove(read_proof(bursts, lawful=lawful), tmp_path, depth=2)


@pytest.mark.parametrize("bursts", configs(IN_TIME, quick=()))
def test_reads_are_answered_in_time(bursts, tmp_path):
    prove(read_proof(bursts, lawful=False, timeout=TIMEOUT), tmp_path, depth=8)


@pytest.mark.parametrize("case", configs(WRITES, quick=()))
def test_writes_are_answered_as_asked(case, tmp_path):
    bursts, lawful = case
    prove(write_proof(bursts, lawful=lawful), tmp_path, depth=2)


@pytest.mark.parametrize("bursts", configs(IN_TIME, quick=()))
def test_writes_are_answered_in_time(bursts, tmp_path):
    prove(write_proof(bursts, lawful=False, timeout=TIMEOUT), tmp_path, depth=9)


def port_proof() -> Bench:
    """The pins; what is inside is proven above."""
    bench = Bench()
    port = Axi4Port(4, 8, 1, (1, 2), (2,))
    inside = bench.add(port, trusted=True)
    attributes = Value.cast(port.attributes)
    bench.m.d.comb += attributes.eq(AnyConst(len(attributes)))
    for path, member, value in port.signature.flatten(port):
        if member.flow.name == "In" and path[0] not in ("m_axi", "attributes"):
            bench.m.d.comb += Value.cast(value).eq(AnySeq(len(Value.cast(value))))
    axi = port.m_axi
    address = ("id", "addr", "len", "size", "burst", "lock", "cache", "prot", "qos")
    for name in ("ar", "aw"):
        bench.watch_record(*channel(axi, name, *address))
        pins = {field: getattr(axi, f"{name}{field}") for field in address}
        bench.require(pins["size"] == 2, pins["burst"] == 1)
        bench.require(pins["cache"] == getattr(port.attributes, f"{name}cache"))
        bench.require(pins["prot"] == port.attributes.prot, Cat(pins["lock"], pins["qos"]) == 0)
    bench.watch_record(*channel(axi, "w", "data", "strb", "last"))
    bench.drive_record(*channel(axi, "r", "id", "data", "resp", "last"))
    bench.drive_record(*channel(axi, "b", "id", "resp"))
    for buffer in ("reads.requests", "writes.requests"):
        bench.implies(inside[f"{buffer}.spare_valid"], inside[f"{buffer}.front_valid"])
    return bench


@pytest.mark.verify
def test_pins_keep_the_rules_of_axi(tmp_path):
    prove(port_proof(), tmp_path, depth=2)


def reads(**options) -> Bench:
    return read_proof((1, 2), **options)


def writes(**options) -> Bench:
    return write_proof((2,), **options)


FAULTS = {
    "takes a late answer for another": (
        *(reads, ReadHalf, "clean.eq(~state.outstanding.any() &", "clean.eq("),
        {"lawful": True},
    ),
    "gives what nobody asked for": (
        *(reads, ReadHalf, " & state.outstanding[k]", ""),
        {"lawful": False},
    ),
    "asks for too much": (
        *(reads, ReadHalf, "~state.dead & (outstanding != bursts)", "~state.dead"),
        {"lawful": False},
    ),
    "changes a beat that waits": (
        *(reads, ReadHalf, "& ~state.beat_valid.any()", ""),
        {"lawful": False},
    ),
    "forgets that a burst was cut short": (
        *(reads, ReadGuard, "short | (response.last & ~self.dead)", "short"),
        {"lawful": False},
    ),
    "never gives up": (
        *(reads, ReadHalf, "with m.If(timer.expired):", "with m.If(0):"),
        {"lawful": False, "timeout": TIMEOUT},
    ),
    "takes a late response for another": (
        *(writes, WriteHalf, "~state.any_outstanding.any()\n", "~state.any_pending.any()\n"),
        {"lawful": True},
    ),
    "sends data before its address": (
        *(writes, WriteHalf, "order.o.valid & (state.announced != 0)", "order.o.valid"),
        {"lawful": False},
    ),
    "answers a write whose data waits": (
        *(
            writes,
            WriteHalf,
            "answerable[k].eq(response_pending != data_pending)",
            "answerable[k].eq(response_pending != 0)",
        ),
        {"lawful": False},
    ),
    "writes when it has told of a time-out": (
        *(
            writes,
            WriteHalf,
            "(state.burst.id == k) & ~state.dead",
            "(state.burst.id == k)",
        ),
        {"lawful": False},
    ),
    "leaves data of a dead burst": (
        *(writes, WriteHalf, "Mux(state.dead, state.data_pending[k] != 0,", "Mux(state.dead, 0,"),
        {"lawful": False, "timeout": TIMEOUT},
    ),
}


@pytest.mark.parametrize(
    "fault",
    configs(FAULTS, quick=()),
)
def test_port_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    proof, component, right, wrong, options = fault
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(proof(**options), tmp_path, depth=14)
