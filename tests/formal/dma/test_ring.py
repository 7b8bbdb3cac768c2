"""The descriptor ring: fetched in order, never without room, and nothing behind a fault."""

from types import SimpleNamespace

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.bus.burst import BusError
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS, FetchedDescriptor
from cdma.hw.dma.control.ring import BASE_BITS, INDEX_BITS, DescriptorFetcher
from cdma.hw.dma.limits import ENTRY_BYTES
from tests.formal.bench import Bench
from tests.formal.broken import break_contract, break_elaborate, find_fault
from tests.formal.dma.contracts import UnnamedMemory, read_request, ring_registers
from tests.formal.engines import HOSTS, engine_of
from tests.formal.order import Order, one
from tests.formal.queues import Queue, StraightFifo, open_fifos
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

COUNT_BITS = 4
"""Fewer descriptors are on their way, or wait."""
MOVE_CYCLES = 3
"""In which nothing need move though all outside are willing."""


def open_queues(monkeypatch) -> None:
    """Let the solver see all that is queued."""
    open_fifos(monkeypatch, "cdma.hw.dma.control.ring", fifo=StraightFifo)


@pytest.fixture(autouse=True)
def _queues_are_open(monkeypatch):
    open_queues(monkeypatch)


def fetcher_proof(config: EngineConfig, *, chained: bool = False) -> Bench:
    """Registers that change at any time, and a bus that answers what it was asked for, or errors.

    Of each descriptor the solver picks a word to be followed. Chained, registers that are not
    refused keep their contract, and so do bursts.
    """
    bench = Bench(relies=chained)
    m = bench.m
    fetcher = DescriptorFetcher(config)
    inside = bench.add(fetcher)
    width = config.host_bytes
    beats_each = max(1, ENTRY_BYTES // width)
    word_bits = 8 * min(width, ENTRY_BYTES)
    registers = ("enable", "base", "log2_entries", "tail", "done", "clear", "outside")
    for register in registers:
        wire = getattr(fetcher, register)
        m.d.comb += wire.eq(AnySeq(len(wire)))
    bench.assume(~fetcher.clear | (fetcher.idle & ~fetcher.enable))
    request = bench.watch(fetcher.request)
    beats = bench.drive(fetcher.beats)
    o = bench.watch(fetcher.o)
    clear = fetcher.clear
    queue = Queue.inside(bench, inside, "queue")
    expected = Queue.inside(bench, inside, "expected")

    # Requests are for one descriptor after the other, if the registers allow it then.
    asks = inside["request_fire"]
    number = Signal(INDEX_BITS)
    entries, ahead = Signal(INDEX_BITS), Signal(INDEX_BITS)
    address, asked_address = Signal(64), Signal(64)
    was_asked, failed = Signal(), Signal()
    index = Signal(INDEX_BITS)
    m.d.comb += [
        entries.eq(1 << fetcher.log2_entries),
        ahead.eq(fetcher.tail - fetcher.done),
        index.eq(number & (entries - 1)),
        address.eq(Cat(Const(0, 6), (fetcher.base + index)[:BASE_BITS])),
    ]
    m.d.sync += [was_asked.eq(asks), number.eq(number + asks)]
    with m.If(asks):
        m.d.sync += asked_address.eq(address)
    wanted = Signal()
    sense = Signal()
    m.d.comb += [
        wanted.eq(fetcher.enable & (number != fetcher.tail) & ~failed),
        sense.eq((fetcher.log2_entries != 0) & (ahead <= entries) & ~fetcher.outside),
    ]
    bench.implies(asks, wanted, sense)
    bench.require(inside["requested"] == number)
    bench.require((request.valid & ~request.waiting) == was_asked)
    bench.implies(request.valid, inside["requests.held"] == asked_address)
    bench.implies(request.valid, request.payload.address == asked_address & ~(width - 1))
    bench.require(request.payload.beats == beats_each - 1)

    if chained:
        block = UnnamedMemory(bench, "read", HOST_ADDRESS_BITS, width)
        ring = SimpleNamespace(base=fetcher.base, entries=entries)
        bench.assume_item(wanted & sense, ring, ring_registers(block))
        _, is_spared = block.spared(asked_address, Const(ENTRY_BYTES))
        bench.claim(~request.valid | is_spared)
        bench.assert_item(request.valid, request.payload, read_request(block))

    # The bus gives as many beats as it was asked for, and they are taken at once.
    beat = Signal(range(beats_each))
    ended = Signal()
    open_requests = Signal(COUNT_BITS)
    m.d.comb += ended.eq(beats.moves & (beat == beats_each - 1))
    with m.If(beats.moves):
        m.d.sync += beat.eq(Mux(ended, 0, beat + 1))
    m.d.sync += open_requests.eq(open_requests + request.moves - ended)
    bench.assume(~beats.valid | (open_requests != 0))
    bench.require(~beats.valid | beats.ready, inside["beat"] == beat)
    bench.implies(beat != 0, open_requests != 0)
    bench.require(expected.count == open_requests + request.valid)
    bench.implies((expected.count != 0) & ~expected.items[0][0], was_asked, open_requests == 0)
    bench.require(expected.count + queue.count <= config.transfers)
    bench.require(inside["reserved"] == expected.count + queue.count)
    bench.require(fetcher.idle == (inside["reserved"] == 0))
    places = Order(bench, 64, count_bits=COUNT_BITS)
    place = expected.items[0][1]
    places.comes(one(asks, address))
    places.leaves(one(ended, place))
    places.on_the_way(*expected.runs)

    # The first fault ends it all.
    error = Signal(BusError)
    bad, senseless = Signal(), Signal()
    fault_error, fault_address, fault_outside = Signal(BusError), Signal(64), Signal()
    m.d.comb += [
        error.eq(beats.payload.error),
        bad.eq(beats.moves & (error != BusError.NONE) & ~failed),
        senseless.eq(wanted & ~sense),
    ]
    with m.If(bad):
        m.d.sync += [
            fault_error.eq(error),
            fault_address.eq((place & ~(width - 1)) + beat * width),
            fault_outside.eq(0),
        ]
    with m.Elif(senseless):
        m.d.sync += [
            fault_error.eq(BusError.NONE),
            fault_address.eq(Cat(Const(0, 6), fetcher.base)),
            fault_outside.eq(fetcher.outside),
        ]
    m.d.sync += failed.eq((failed | bad | senseless) & ~clear)
    bench.require(fetcher.faulty == failed)
    bench.implies(
        failed,
        fetcher.fault.error == fault_error,
        fetcher.fault.address == fault_address,
        fetcher.fault.outside == fault_outside,
    )

    # Before it, each descriptor is given as it came, with its number.
    word = Signal(range(beats_each))
    picked, now = Signal(word_bits), Signal(word_bits)
    good = Signal()
    given = Signal(INDEX_BITS)
    m.d.comb += word.eq(AnyConst(len(word)))
    if width > ENTRY_BYTES:
        m.d.comb += now.eq(beats.payload.data.word_select(place[6], word_bits))
    else:
        m.d.comb += now.eq(Mux(beat == word, beats.payload.data, picked))
    with m.If(beats.moves):
        m.d.sync += picked.eq(now)
    m.d.comb += good.eq(ended & ~failed & ~bad)
    layout = FetchedDescriptor()

    def followed(item) -> Value:
        return layout(item).descriptor.as_value().word_select(word, word_bits)

    order = Order(bench, word_bits, count_bits=COUNT_BITS)
    order.comes(one(good, now))
    order.leaves(one(o.moves, followed(Value.cast(o.payload))))
    order.on_the_way(*(one(there, followed(item)) for there, item in queue.items))
    for arrived in range(1, beats_each):
        for j in range(arrived):
            bench.implies(
                (beat == arrived) & (word == j),
                picked == inside["collected"].word_select(beats_each - arrived + j, word_bits),
            )
    m.d.sync += given.eq(given + o.moves)
    for ahead_of_it, (there, item) in enumerate(queue.items):
        own = Signal(INDEX_BITS, name=f"index_{ahead_of_it}")
        m.d.comb += own.eq(given + (queue.items[0][0] + ahead_of_it - 1 if ahead_of_it else 0))
        bench.implies(there, layout(item).index == own)
    came = Signal(INDEX_BITS)
    m.d.comb += came.eq(given + queue.count)
    bench.require(fetcher.head == came)
    with m.If(clear):
        m.d.sync += [number.eq(0), given.eq(0)]

    willing = request.ready & o.ready & (beats.valid | (open_requests == 0))
    bench.progress(
        willing & (~fetcher.idle | (wanted & sense)),
        request.moves | beats.moves | o.moves,
        cycles=MOVE_CYCLES,
    )
    bench.cover(
        failed & (fault_error == BusError.SLVERR) & o.moves,
        failed & (fault_error == BusError.NONE),
        failed & ended,
        clear & failed & (given == 1),
        o.moves & (given == 1),
        queue.count == config.transfers,
        o.moves & (index == 0) & (given == 2),
    )
    return bench


RINGS = {**HOSTS, **{f"{n} ahead": engine_of(64, transfers=n) for n in (2, 3)}}


@pytest.mark.parametrize("config", configs(RINGS, quick=()))
def test_descriptors_come_in_order_until_a_fault(config, tmp_path):
    cover_depth = 20 + 5 * ENTRY_BYTES // config.host_bytes
    prove(fetcher_proof(config), tmp_path, depth=MOVE_CYCLES, cover_depth=cover_depth)


CHAINED = {name: HOSTS[name] for name in ("4", "32", "128")}


@pytest.mark.parametrize("config", configs(CHAINED, quick=()))
def test_reads_of_descriptors_keep_their_contract(config, tmp_path):
    prove(fetcher_proof(config, chained=True), tmp_path, depth=1)


def contract_benches(monkeypatch) -> list[Bench]:
    """The benches that state contracts here."""
    open_queues(monkeypatch)
    return [fetcher_proof(HOSTS["32"], chained=True)]


FAULTS = {
    "asks without room": ("& has_room", ""),
    "loses a request": ("& requests.i.ready", ""),
    "gives what follows a fault": ("(self.faulty | read_failed)", "read_failed"),
    "gives what is faulty": ("(self.faulty | read_failed)", "self.faulty"),
    "goes around too late": ("requested & (entries - 1)", "requested & entries"),
    "goes on in the old place": ("requested.eq(0)", "requested.eq(requested)"),
    "takes too much from the ring": ("(ahead > entries)", "(ahead < 0)"),
    "forgets what is dropped": (" - dropped)", ")"),
}


CONTRACT_FAULTS = {
    "goes around too late": FAULTS["goes around too late"],
    "reads a beat too many": ("max(1, ENTRY_BYTES // width) - 1)", "ENTRY_BYTES // width)"),
    "begins inside a beat": (
        "Cat(C(0, width_bits), requests.o.payload[width_bits:])",
        "requests.o.payload + 1",
    ),
}


@pytest.mark.parametrize("fault", configs(CONTRACT_FAULTS, quick=()))
def test_fetcher_that_breaks_its_contract_is_found(fault, tmp_path, monkeypatch):
    break_contract(monkeypatch, DescriptorFetcher, *fault)
    find_fault(fetcher_proof(HOSTS["64"], chained=True), tmp_path, depth=8)


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_fetcher_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, DescriptorFetcher, *fault)
    find_fault(fetcher_proof(HOSTS["64"]), tmp_path, depth=16)


@pytest.mark.verify
def test_a_queue_of_one_is_found(tmp_path, monkeypatch):
    break_elaborate(
        monkeypatch,
        DescriptorFetcher,
        "max(2, self.config.transfers - 1)",
        "self.config.transfers - 1",
    )
    find_fault(fetcher_proof(RINGS["2 ahead"]), tmp_path, depth=16)
