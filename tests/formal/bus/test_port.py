"""The shared AXI4 port: who gets what, on any bus; and that a bus without answers keeps nobody.

The proofs are of the ports as they are shipped. Their queues are longer than the solver can see, so
it follows one burst of each source, whichever it likes (`FollowedFifo`).
"""

from dataclasses import dataclass, replace

import pytest
from amaranth.hdl import Cat, Const, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.buddy.controller import buddy_port, device_port
from cdma.hw.bus.burst import BusError, ReadGuard
from cdma.hw.bus.port import Axi4Port
from cdma.hw.bus.read_half import ReadHalf
from cdma.hw.bus.write_half import WriteHalf
from cdma.hw.config import BUDDY_PRESETS, PRESETS
from cdma.hw.dma.engine import host_port, memory_port
from tests.formal.bench import Bench, Inside, channel
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.queues import CountedFifo, FollowedFifo, open_fifos
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

SEEN_BURSTS = 4
"""With no more at once, covers can have all of them outstanding."""
TIMEOUT = 2
ANSWER_CYCLES = 3
LIVES_CYCLES = 2


@pytest.fixture(autouse=True)
def _queues_are_open(monkeypatch):
    open_fifos(monkeypatch, "cdma.hw.bus.burst", fifo=FollowedFifo)
    open_fifos(monkeypatch, "cdma.hw.bus.write_half", fifo=CountedFifo)


@dataclass(frozen=True)
class Shape:
    """Parameters of an `Axi4Port`."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    data_bytes: int = 1
    address_bits: int = 2
    id_bits: int = 1
    owners: int = 1
    user_bits: int = 0

    def port(self) -> Axi4Port:
        return Axi4Port(
            self.data_bytes,
            self.address_bits,
            self.id_bits,
            self.reads,
            self.writes,
            self.owners,
            self.user_bits,
        )


def shape_of(port: Axi4Port) -> Shape:
    # It is not elaborated.
    port._MustUse__used = True
    return Shape(
        port.reads,
        port.writes,
        port.data_bytes,
        port.address_bits,
        port.id_bits,
        port.owners,
        port.user_bits,
    )


def shipped_shapes() -> dict[str, Shape]:
    """All ports of the engine's presets, some with rings, and of the buddy's; each shape once."""
    rings = {
        f"{name}-{count}-rings": replace(PRESETS[name], rings=count, stream_id_bits=bits)
        for name, count, bits in (("titanx_gen3", 4, 2), ("tiny", 2, 8))
    }
    buddies = {name: BUDDY_PRESETS[name] for name in ("channel", "narrow", "tiny")}
    shapes: dict[str, Shape] = {}
    for choice, ports in (
        ({**PRESETS, **rings}, {"host": host_port, "memory": memory_port}),
        (buddies, {"device": device_port, "buddy": buddy_port}),
    ):
        for name, config in choice.items():
            for kind, make in ports.items():
                shape = shape_of(make(config))
                if shape not in shapes.values():
                    shapes[f"{name}-{kind}"] = shape
    return shapes


def total(flags) -> Value:
    return sum(flags, Const(0))


def place(inside: Inside, path: str, layout) -> tuple[Signal, Value]:
    """A register of a buffer: whether something is there, and what."""
    return inside[f"{path}_valid"], layout(inside[path])


def skid(inside: Inside, path: str, layout) -> list[tuple[Signal, Value]]:
    """The places of a skid buffer, the oldest first."""
    return [place(inside, f"{path}.{name}", layout) for name in ("front", "spare")]


def number_bits(bursts: int) -> int:
    """Bits of numbers modulo more than can be in flight, with those that wait at either side."""
    return max(3, (bursts + 3).bit_length())


def number(bench: Bench, name: str, bits: int, *, up=0) -> Signal:
    """Counts, modulo."""
    count = Signal(bits, name=name)
    bench.m.d.sync += count.eq(count + up)
    return count


def follow(
    bench: Bench, queue: FollowedFifo, bits: int, comes: Value, leaves: Value, item: Value
) -> tuple[Signal, Signal]:
    """Follow the burst of any number through a queue that is all there is between both sides.

    It leaves as the item that it was when it came. Returns how many came, and how many left.
    """
    m = bench.m
    came, left = number(bench, "came", bits, up=comes), number(bench, "left", bits, up=leaves)
    picked, ahead, inside = Signal(bits), Signal(bits), Signal(bits)
    kept = Signal(len(queue.item), reset_less=True)
    m.d.comb += [
        picked.eq(AnyConst(bits)),
        ahead.eq(picked - left),
        inside.eq(came - left),
        queue.follows.eq(came == picked),
    ]
    with m.If(comes & (came == picked)):
        m.d.sync += kept.eq(Value.cast(queue.i.payload))
    bench.require(queue.followed == (ahead < inside))
    bench.implies(queue.followed, queue.ahead == ahead, queue.item == kept)
    bench.implies(leaves, inside != 0)
    bench.implies(leaves & (left == picked), item == kept)
    bench.cover(leaves & (left == picked) & (picked == 1))
    return came, left


def most(shown: int, bound: int) -> int:
    """All of a source's bursts, or as many as covers reach."""
    return bound if bound <= SEEN_BURSTS else shown


def read_proof(shape: Shape, *, lawful: bool, timeout: int | None = None) -> Bench:
    """Any sources, and a bus that may answer anything, or only what it was asked for."""
    bench = Bench()
    m = bench.m
    half = ReadHalf(shape.data_bytes, shape.address_bits, shape.id_bits, shape.reads, shape.owners)
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
    for waits, item in asked:
        bench.implies(waits, item.id < len(shape.reads))

    arbiter = inside.component("arbiter")
    lives = []
    for k, bound in enumerate(shape.reads):
        bits = number_bits(bound)
        guard = f"guard_{k}"
        owed = inside[f"outstanding_{k}"]
        expected = inside.component(f"{guard}.expected")
        waiting = expected.require(bench, inside, f"{guard}.expected.")
        under_way, beat = inside[f"{guard}.outstanding"], inside[f"{guard}.beat"]
        short, dropping = inside[f"{guard}.short"], inside[f"{guard}.dropping"]
        lives.append(under_way)
        bench.require(owed <= bound, under_way == waiting)

        # The beats of each burst are as many as were asked for.
        pops = inside[f"{guard}.burst_end"]
        given = Signal(8, name=f"given_{k}")
        with m.If(beats[k].moves):
            m.d.sync += given.eq(Mux(pops, 0, given + 1))
        bench.require(beat == given)
        bench.implies(pops, beats[k].moves)
        bench.implies(requests[k].moves, expected.i.payload == requests[k].payload.beats)
        came, left = follow(bench, expected, bits, requests[k].moves, pops, given)
        unanswered = Signal(bits, name=f"unanswered_{k}")
        m.d.comb += unanswered.eq(came - left)
        bench.require(unanswered == waiting)
        bench.implies(beats[k].valid, unanswered != 0)
        bench.implies(short, given != 0, under_way != 0)
        # Alive, the bus owes an RLAST for each burst that a source waits for, but for one that it
        # has cut short, and for one that it has not ended in time.
        bench.implies(~dead, under_way + dropping == owed + short)
        bench.implies(dropping, owed != 0)
        bench.implies(dropping & ~dead, given == 0)
        runs_over = Signal(8, name=f"length_{k}")
        m.d.comb += runs_over.eq(expected.o.payload)
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
        if shape.owners > 1:
            bench.implies(goes, arbiter.o.payload.owner == requests[k].payload.owner)
        good = beats[k].valid & (beats[k].payload.error == BusError.NONE)
        bench.implies(good, ~dead, there, answer.id == k)
        bench.implies(good, beats[k].payload.data == answer.response.data)
        bench.cover(dead & requests[k].moves, dead & beats[k].moves, good & beats[k].moves)

        if lawful:
            # The bus answers what it was asked for, burst by burst. Solver's choice of a burst:
            # the lowest bit of its beats alone is 1.
            sent = number(bench, f"sent_{k}", bits, up=goes)
            ar = number(
                bench, f"ar_{k}", bits, up=bus_request.moves & (bus_request.payload.id == k)
            )
            mine = answers.payload.id == k
            ended = number(
                bench, f"ended_{k}", bits, up=answers.moves & mine & answers.payload.response.last
            )
            picked = Signal(bits, name=f"picked_{k}")
            m.d.comb += picked.eq(AnyConst(bits))
            bench.assume(~(answers.valid & mine) | (ar != ended))
            bench.assume(
                ~(answers.valid & mine) | (answers.payload.response.data[0] == (ended == picked))
            )
            in_request = total(waits & (item.id == k) for waits, item in asked)
            is_last = there & (answer.id == k) & answer.response.last
            out = Signal(bits, name=f"out_{k}")
            open_bursts = Signal(bits, name=f"open_{k}")
            unseen = Signal(bits, name=f"unseen_{k}")
            m.d.comb += [
                out.eq(sent - owed),
                open_bursts.eq(ar - ended),
                unseen.eq(sent - ar),
            ]
            bench.require(
                open_bursts <= bound,
                unseen == in_request,
                owed == open_bursts + in_request + is_last,
            )
            bench.implies(there & (answer.id == k), answer.response.data[0] == (out == picked))
            # Every beat that passes for good is of the burst that it is given for.
            own = Signal(bits, name=f"own_{k}")
            m.d.comb += own.eq(sent - under_way)
            bench.implies(good, beats[k].payload.data[0] == (own == picked))
            bench.cover(good & beats[k].payload.data[0], dead & (owed == most(1, bound)))
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


def write_proof(shape: Shape, *, lawful: bool, timeout: int | None = None) -> Bench:
    """As for reads."""
    bench = Bench()
    m = bench.m
    bursts = shape.writes
    bits = number_bits(sum(bursts))
    half = WriteHalf(shape.data_bytes, shape.address_bits, shape.id_bits, bursts, shape.owners)
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
    queue = inside.component("order")
    queued = queue.require(bench, inside, "order.")
    queued_of = queue.counts(bench, inside, "order.")
    bench.assume(queue.possible)
    oldest = queue.o.payload
    for waits, item in [(queue.o.valid, oldest), *asked]:
        bench.implies(waits, item.id < len(bursts))
    bench.require(*(count == 0 for count in queued_of[len(bursts) :]))
    announced, waits, sent = inside["announced"], inside["request_stalled"], inside["sent"]
    ends, open_burst = inside["burst_end"], inside["open_burst"]

    # On the bus, each burst has as many beats as its address told, WLAST on the last one.
    enters = Signal()
    counted = Signal(8)
    m.d.comb += enters.eq(bus_beat.i.valid & bus_beat.i.ready)
    with m.If(enters):
        m.d.sync += counted.eq(Mux(bus_beat.i.payload.last, 0, counted + 1))
    bench.require(sent == counted, ends == (enters & bus_beat.i.payload.last))
    accepts = arbiter.o.valid & arbiter.o.ready
    bench.implies(
        accepts,
        Value.cast(queue.i.payload) == Cat(arbiter.o.payload.id, arbiter.o.payload.beats),
    )
    began, ended = follow(bench, queue, bits, accepts, ends, Cat(oldest.id, counted))
    between = Signal(bits)
    m.d.comb += between.eq(began - ended)
    bench.require(between == queued)
    bench.implies(sent != 0, open_burst)
    bench.implies(open_burst, sent <= oldest.beats)
    bench.require(queued <= sum(bursts))

    # No beat before its address is offered.
    shown = number(bench, "shown", bits, up=bus_request.valid & ~bus_request.waiting)
    closed = number(bench, "closed", bits, up=bus_beats.moves & bus_beats.payload.last)
    bench.require(waits == bus_request.waiting)
    front, behind = asked
    bench.require(queued == announced + (front[0] & ~waits) + behind[0])
    held, beat = place(inside, "bus_beat.held", beat_layout)
    lasts = Signal()
    open_bursts = Signal(bits)
    m.d.comb += [lasts.eq(held & beat.last), open_bursts.eq(shown - closed)]
    bench.require(open_bursts == announced + lasts)
    bench.implies(held & ~beat.last, sent != 0)
    bench.implies(bus_beats.valid, open_bursts != 0)
    # The source of the beat that is there.
    held_id = Signal(shape.id_bits)
    with m.If(enters):
        m.d.sync += held_id.eq(oldest.id)

    # Once dead, nothing new on the bus names a byte.
    was_dead = Signal()
    m.d.sync += was_dead.eq(dead)
    fresh = bus_beats.valid & ~bus_beats.waiting
    bench.implies(was_dead & fresh, bus_beats.payload.strobe == 0)
    bench.cover(was_dead & fresh, was_dead & bus_beats.valid & bus_beats.payload.strobe.any())

    willing = []
    for k, bound in enumerate(bursts):
        owed, unanswered, unsent = (
            inside[f"{name}_{k}"] for name in ("outstanding", "response_pending", "data_pending")
        )
        own = open_burst & (oldest.id == k) & ~dead
        # A source's bursts are as long as it has told.
        bench.assume(~(own & beats[k].valid) | (beats[k].payload.last == (sent == oldest.beats)))
        # Each burst is answered once, when its data has been taken.
        begun = number(bench, f"begun_{k}", bits, up=requests[k].moves)
        taken = number(bench, f"taken_{k}", bits, up=beats[k].moves & beats[k].payload.last)
        told = number(bench, f"told_{k}", bits, up=responses[k].moves)
        count = Signal(bits, name=f"count_{k}")
        rest = Signal(bits, name=f"rest_{k}")
        m.d.comb += [count.eq(begun - told), rest.eq(begun - taken)]
        bench.require(count == unanswered, rest == unsent, unsent <= unanswered)
        bench.require(unanswered <= bound, owed <= bound)
        bench.implies(responses[k].valid, told != taken)
        bench.implies(dead & responses[k].valid, responses[k].payload == BusError.TIMEOUT)
        bench.implies(~dead, responses[k].payload != BusError.TIMEOUT, owed == unanswered)
        bench.implies(~dead, queued_of[k] == unsent)
        goes = Signal(name=f"goes_{k}")
        m.d.comb += goes.eq(accepts & (arbiter.o.payload.id == k))
        bench.require(goes == (requests[k].moves & ~dead))
        bench.implies(
            goes,
            arbiter.o.payload.address == requests[k].payload.address,
            arbiter.o.payload.beats == requests[k].payload.beats,
        )
        if shape.owners > 1:
            bench.implies(goes, arbiter.o.payload.owner == requests[k].payload.owner)
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
            # The bus answers a burst when it has all of it. The response to the burst that the
            # solver has chosen is an error, the others are not.
            accepted = number(bench, f"accepted_{k}", bits, up=goes)
            aw = number(
                bench, f"aw_{k}", bits, up=bus_request.moves & (bus_request.payload.id == k)
            )
            is_mine = held_id == k
            closes = bus_beats.moves & bus_beats.payload.last & is_mine
            ended_own = number(bench, f"ended_own_{k}", bits, up=closes)
            mine = answers.payload.id == k
            returned = number(bench, f"returned_{k}", bits, up=answers.moves & mine)
            picked = Signal(bits, name=f"picked_{k}")
            out = Signal(bits, name=f"out_{k}")
            addressed, whole, unseen, written = (
                Signal(bits, name=f"{name}_{k}")
                for name in ("addressed", "whole", "unseen", "written")
            )
            m.d.comb += [
                picked.eq(AnyConst(bits)),
                out.eq(accepted - owed),
                addressed.eq(aw - returned),
                whole.eq(ended_own - returned),
                unseen.eq(accepted - aw),
                written.eq(accepted - queued_of[k] - ended_own),
            ]
            bench.assume(
                ~(answers.valid & mine)
                | (
                    (addressed != 0)
                    & (whole != 0)
                    & (answers.payload.resp[1] == (returned == picked))
                )
            )
            bench.require(
                unseen == total(there & (item.id == k) for there, item in asked),
                addressed <= bound,
                whole + (lasts & is_mine) + queued_of[k] <= bound,
                owed
                == unseen + addressed + total(there & (item.id == k) for there, item in answered),
                written == (lasts & is_mine),
            )
            before: Value = Const(0)
            for index, (there, item) in enumerate(answered):
                burst = Signal(bits, name=f"burst_{k}_{index}")
                m.d.comb += burst.eq(out + before)
                bench.implies(there & (item.id == k), item.resp[1] == (burst == picked))
                before = before + (there & (item.id == k))
            fails = responses[k].payload != BusError.NONE
            bench.implies(responses[k].valid & ~dead, fails == (out == picked))
            bench.cover(responses[k].moves & ~dead & (out == 2))
            bench.cover(dead & (owed == most(1, bound)))

    if lawful:
        bench.assume(~answers.valid | (answers.payload.id < len(bursts)))
        addresses = number(bench, "addresses", bits, up=bus_request.moves)
        stalled = Signal(bits)
        m.d.comb += stalled.eq(shown - addresses)
        bench.require(stalled == waits)
        for there, item in answered:
            bench.implies(there, item.id < len(bursts))
        bench.implies(dead & clean, queued == 0)

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


SMALL = {
    "1": Shape((1,), (1,)),
    "2": Shape((2,), (2,)),
    "1+2": Shape((1, 2), (1, 2)),
}
SHIPPED = shipped_shapes()
SHAPES = {
    **SMALL,
    **SHIPPED,
    **{
        f"{data_bytes}-bytes": replace(
            SHIPPED["titanx_gen3-host"], data_bytes=data_bytes, id_bits=3
        )
        for data_bytes in (8, 16, 64)
    },
}
LAWFUL = {
    **SMALL,
    **{
        name: SHIPPED[name]
        for name in (
            *("titanx_gen3-host", "titanx_gen3-memory", "v100_nvlink2-host", "wide-memory"),
            *("tiny-host", "tiny-memory", "narrow-device"),
        )
    },
}
"""Those that are also proven with buses that answer only what they were asked for."""


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_reads_are_answered_as_asked_on_any_bus(shape, tmp_path):
    prove(read_proof(shape, lawful=False), tmp_path, depth=2)


@pytest.mark.parametrize("shape", configs(LAWFUL, quick=()))
def test_reads_are_answered_as_asked_on_a_lawful_bus(shape, tmp_path):
    prove(read_proof(shape, lawful=True), tmp_path, depth=2)


@pytest.mark.parametrize("shape", configs(SMALL, quick=()))
def test_reads_are_answered_in_time(shape, tmp_path):
    prove(read_proof(shape, lawful=False, timeout=TIMEOUT), tmp_path, depth=8)


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_writes_are_answered_as_asked_on_any_bus(shape, tmp_path):
    prove(write_proof(shape, lawful=False), tmp_path, depth=2)


@pytest.mark.parametrize("shape", configs(LAWFUL, quick=()))
def test_writes_are_answered_as_asked_on_a_lawful_bus(shape, tmp_path):
    prove(write_proof(shape, lawful=True), tmp_path, depth=2)


@pytest.mark.parametrize("shape", configs(SMALL, quick=()))
def test_writes_are_answered_in_time(shape, tmp_path):
    prove(write_proof(shape, lawful=False, timeout=TIMEOUT), tmp_path, depth=9)


def port_proof(shape: Shape) -> Bench:
    """The pins, whatever goes on inside."""
    bench = Bench()
    port = shape.port()
    inside = bench.add(port, ignored=True)
    attributes = Value.cast(port.attributes)
    bench.m.d.comb += attributes.eq(AnyConst(len(attributes)))
    for path, member, value in port.signature.flatten(port):
        if member.flow.name == "In" and path[0] not in ("m_axi", "attributes"):
            bench.m.d.comb += Value.cast(value).eq(AnySeq(len(Value.cast(value))))
    axi = port.m_axi
    address = ("id", "addr", "len", "size", "burst", "lock", "cache", "prot", "qos")
    if shape.user_bits:
        address = (*address, "user")
    for name, half, sources in (("ar", "reads", shape.reads), ("aw", "writes", shape.writes)):
        request = bench.watch_record(*channel(axi, name, *address))
        pins = {field: getattr(axi, f"{name}{field}") for field in address}
        asked = inside.component(half).bus_request.payload
        told = port.attributes if shape.owners == 1 else port.attributes[asked.owner]
        bench.require(1 << pins["size"] == shape.data_bytes, pins["burst"] == 1)
        bench.require(pins["cache"] == getattr(told, f"{name}cache"))
        bench.require(pins["prot"] == told.prot, Cat(pins["lock"], pins["qos"]) == 0)
        if shape.user_bits:
            bench.require(pins["user"] == told.user)
        layout = asked.shape()
        skids = skid(inside, f"{half}.requests", layout)
        bench.implies(skids[1][0], skids[0][0])
        for waits, item in skids:
            bench.implies(waits, item.id < len(sources))
        bench.implies(request.valid, pins["id"] < len(sources))
        # No pin follows from another one in the same cycle.
        bench.require(request.valid == (skids[0][0] & ~ResetSignal()))
    bench.watch_record(*channel(axi, "w", "data", "strb", "last"))
    bench.require(axi.wvalid == (inside["writes.bus_beat.held_valid"] & ~ResetSignal()))
    bench.drive_record(*channel(axi, "r", "id", "data", "resp", "last"))
    bench.drive_record(*channel(axi, "b", "id", "resp"))
    return bench


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_pins_keep_the_rules_of_axi(shape, tmp_path):
    prove(port_proof(shape), tmp_path, depth=2)


def reads(**options) -> Bench:
    return read_proof(SMALL["1+2"], **options)


def writes(**options) -> Bench:
    return write_proof(SMALL["2"], **options)


def pins() -> Bench:
    return port_proof(replace(SMALL["1+2"], owners=2, user_bits=3))


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
    "answers the other source": (
        *(lambda **options: write_proof(SMALL["1+2"], **options), WriteHalf),
        *("own = bus.payload.id == k", "own = bus.payload.id != k", {"lawful": True}),
    ),
    "offers an address in reset": (
        *(pins, Axi4Port, "half.bus_request.valid & ~ResetSignal()", "half.bus_request.valid", {}),
    ),
    "offers data in reset": (
        *(pins, Axi4Port, "writes.bus_beats.valid & ~ResetSignal()", "writes.bus_beats.valid", {}),
    ),
    "tells another owner's attributes": (
        *(pins, Axi4Port, "attributes[half.bus_request.payload.owner]", "attributes[0]", {}),
    ),
    "waits for READY": (
        *(pins, Axi4Port, "axi.wvalid.eq(writes", "axi.wvalid.eq(axi.wready & writes", {}),
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
