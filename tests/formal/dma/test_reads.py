"""Reads of lines and of streams: no beat but those that they lie in, no burst over a page."""

from dataclasses import replace

import pytest
from amaranth.hdl import Cat, Const, ResetSignal, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.hw.bus.burst import PAGE_BYTES, BusError
from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS
from cdma.hw.dma.inbound.receiver import StreamReceiver
from cdma.hw.dma.limits import HOST_BURST_BEATS
from cdma.hw.dma.outbound.reader import LineReader
from tests.formal.bench import Bench, Condition, Port
from tests.formal.broken import break_contract, break_elaborate, find_fault
from tests.formal.dma.any_faults import AnyFaults
from tests.formal.dma.contracts import UnnamedMemory, line_request, read_request, receive_job
from tests.formal.engines import HOSTS, codec_of, engine_of
from tests.formal.lines import TINY
from tests.formal.queues import FollowedFifo
from tests.formal.rules import ALWAYS
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

MOVE_CYCLES = 1
"""In which nothing need move though all outside are willing."""


class Errors(data.StructLayout):
    """A `ReadBeat` without its data, on which no request depends."""

    def __init__(self, data_bytes: int) -> None:
        super().__init__({"data": 0, "error": BusError})


def replace_parts(monkeypatch) -> None:
    """Leave the contents of queues, and faults, to the solver."""
    for module in ("outbound.reader", "inbound.receiver"):
        monkeypatch.setattr(f"cdma.hw.dma.{module}.Fifo", FollowedFifo)
        monkeypatch.setattr(f"cdma.hw.dma.{module}.ReadBeat", Errors)
    monkeypatch.setattr("cdma.hw.dma.data_queue.Fifo", FollowedFifo)
    monkeypatch.setattr("cdma.hw.dma.inbound.receiver.JobFaultFilter", AnyFaults)


@pytest.fixture(autouse=True)
def _parts_are_replaced(monkeypatch):
    replace_parts(monkeypatch)


CODECS = {
    "tiny": TINY,
    **{str(width): codec_of(width) for width in (32, 64, 128)},
    "bytes": CodecConfig(element_bytes=1, sector_bytes=32, line_bytes=128),
}


def line_rules(config: CodecConfig):
    """`LineRequest`, of bytes that there are."""

    def rules(bench: Bench, port: Port) -> list[Condition]:
        line = port.payload
        element_bits = (config.element_bytes - 1).bit_length()
        end = Signal(DEVICE_ADDRESS_BITS + 1)
        bench.m.d.comb += end.eq(line.address + line.size)
        return [
            (ALWAYS, line.size != 0),
            (ALWAYS, line.size <= config.line_bytes),
            (ALWAYS, line.address[:element_bits] == 0),
            (ALWAYS, end <= 1 << DEVICE_ADDRESS_BITS),
        ]

    return rules


def reader_proof(config: CodecConfig, lines: int = 16, *, chained: bool = False) -> Bench:
    """Any lines, and memory that answers what it likes, when it likes.

    Chained, lines keep their contract, and so do bursts.
    """
    bench = Bench(relies=chained)
    m = bench.m
    rings = 2 if chained else 1
    reader = LineReader(config, lines, rings)
    inside = bench.add(reader)
    width = config.sector_bytes
    width_bits = (width - 1).bit_length()
    block = None
    if chained:
        block = UnnamedMemory(bench, "read", DEVICE_ADDRESS_BITS, width, rings)
    i = bench.drive(reader.i, line_request(config, block) if block else line_rules(config))
    request = bench.watch(reader.request)
    bench.drive(reader.beats)
    for stream in (reader.o, reader.end):
        m.d.comb += stream.ready.eq(AnySeq(1))
    pending = inside.component("pending")
    pending_count = pending.require(bench, inside, "pending.")
    # In reset, a line may go before its second burst was asked for.
    second = inside["second"]
    asks = request.valid & ~ResetSignal()

    # The beats that the line lies in, and those of the burst, counted from the beginning of memory.
    first, behind = Signal(DEVICE_ADDRESS_BITS + 1), Signal(DEVICE_ADDRESS_BITS + 1)
    begin, end = Signal(DEVICE_ADDRESS_BITS + 1), Signal(DEVICE_ADDRESS_BITS + 1)
    page_end = Signal(DEVICE_ADDRESS_BITS + 1)
    page_bits = PAGE_BYTES.bit_length() - 1
    line, burst = i.payload, request.payload
    m.d.comb += [
        first.eq(Cat(Const(0, width_bits), line.address[width_bits:])),
        behind.eq((line.address + line.size + (width - 1)) & ~(width - 1)),
        begin.eq(burst.address),
        end.eq(begin + (burst.beats + 1) * width),
        page_end.eq((line.address[page_bits:] + 1) << page_bits),
    ]
    whole = Signal()
    m.d.comb += whole.eq(behind <= page_end)
    bench.implies(request.valid, i.valid, burst.address[:width_bits] == 0)
    bench.implies(asks & ~second, begin == first)
    bench.implies(asks & ~second & ~whole, end == page_end, ~i.moves)
    bench.implies(asks & second, ~whole, begin == page_end)
    bench.implies(asks & (second | whole), end == behind)
    bench.implies(asks & request.ready & (second | whole), i.moves)
    bench.implies(i.moves, request.moves)
    # In words that need no first and second burst: within the line's beats, and within a page.
    bench.implies(
        asks,
        begin >= first,
        end <= behind,
        begin < end,
        burst.address[:page_bits] + (burst.beats + 1) * width <= PAGE_BYTES,
    )
    bench.implies(second & ~ResetSignal(), i.valid, i.waiting, ~whole)
    # As many beats are expected of it as were asked for.
    bench.require(i.moves == (pending.i.valid & pending.i.ready))
    bench.implies(i.moves, (pending.i.payload.beats + 1) * width == behind - first)
    bench.progress(
        i.valid & request.ready & (pending_count < lines), request.moves, cycles=MOVE_CYCLES
    )
    bench.cover(
        i.moves & second & (line.size == config.line_bytes),
        i.moves & second & (burst.beats == 0),
        i.moves & ~second & (end == page_end) & ~request.waiting,
        i.moves & (line.size == config.element_bytes) & (line.address[:width_bits] != 0),
        i.moves & (behind - first > config.line_bytes),
        ~pending.i.ready,
    )
    if block:
        bench.assert_item(asks, burst, read_request(block))
    return bench


@pytest.mark.parametrize("config", configs(CODECS, quick=["32"]))
def test_lines_are_read_by_their_own_beats(config, tmp_path):
    prove(reader_proof(config), tmp_path, depth=MOVE_CYCLES + 2, cover_depth=22)


@pytest.mark.parametrize("config", configs(CODECS, quick=()))
def test_reads_of_lines_keep_their_contract(config, tmp_path):
    prove(reader_proof(config, chained=True), tmp_path, depth=1)


READER_FAULTS = {
    "crosses a page": ("second_follows = crosses & ~second", "second_follows = C(0)"),
    "asks for a beat too many": (
        "last_beat.eq((end - 1) >> width_bits)",
        "last_beat.eq(end >> width_bits)",
    ),
    "goes beyond the first page": ("Mux(crosses, last_of_page, last_beat)", "last_beat"),
    "never leaves the second page": ("second.eq(second_follows)", "second.eq(crosses)"),
    "begins behind its first beat": (
        "Cat(C(0, width_bits), line.address[width_bits:])",
        "Cat(C(0, width_bits), line.address[width_bits:] + 1)",
    ),
    "expects a beat too few": (
        "(line.address[:width_bits] + line.size - 1) >> width_bits",
        "(line.size - 1) >> width_bits",
    ),
    "asks without a place for the line": (
        "self.request.valid.eq(self.i.valid & pending.i.ready)",
        "self.request.valid.eq(self.i.valid)",
    ),
}


@pytest.mark.parametrize("fault", configs(READER_FAULTS, quick=()))
def test_reader_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, LineReader, *fault)
    find_fault(reader_proof(CODECS["64"], lines=2), tmp_path, depth=8)


ENGINES = {
    **HOSTS,
    # A cover is as deep as the buffer.
    "4": engine_of(4, units=2, read_buffer_bytes=256),
}
"""By the bytes of a beat."""


def receiver_proof(config: EngineConfig, *, chained: bool = False) -> Bench:
    """Any jobs, an abort at any time, and a bus that gives as many beats as it was asked for.

    Chained, jobs keep their contract, and so do bursts.
    """
    bench = Bench(relies=chained)
    m = bench.m
    receiver = StreamReceiver(config)
    inside = bench.add(receiver)
    width = config.host_bytes
    width_bits = (width - 1).bit_length()
    room_beats = config.read_beats

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        return [(ALWAYS, port.payload.size != 0)]

    block = None
    if chained:
        block = UnnamedMemory(bench, "read", HOST_ADDRESS_BITS, width, config.rings)
    job = bench.drive(receiver.job, receive_job(block) if block else rules)
    m.d.comb += [receiver.abort.eq(AnySeq(1)), receiver.stop.eq(AnySeq(1))]
    request = bench.watch(receiver.request)
    beats = bench.drive(receiver.beats)
    for stream in (receiver.o, receiver.outcome):
        m.d.comb += stream.ready.eq(AnySeq(1))
    for name in ("jobs", "asked"):
        inside.component(name).require(bench, inside, f"{name}.")
    queued = inside.component("queue").require(bench, inside, "queue.")
    # Queues give anything here, so that a packet may end before all of it was asked for.
    bench.assume(~inside["done"] | inside.component("asked").o.valid)

    # The job that is asked for: its beats, and how many of them were.
    asking, fires = inside["asking"], inside["request_fire"]
    next_beat, beats_left, burst = inside["next_beat"], inside["beats_left"], inside["burst"]
    own = Signal(job.payload.shape(), name="own")
    count_bits = OFFSET_BITS + 1
    number, total = Signal(count_bits), Signal(count_bits)
    m.d.comb += total.eq((own.size + own.src[:width_bits] + (width - 1)) >> width_bits)
    with m.If(fires):
        m.d.sync += number.eq(number + burst)
    with m.If(job.moves):
        m.d.sync += [own.eq(job.payload), number.eq(0)]
    bench.implies(
        asking,
        own.size != 0,
        number < total,
        beats_left == total - number,
        next_beat == (own.src[width_bits:] + number)[: len(next_beat)],
    )
    bench.implies(job.moves & asking, inside["asked_all"])
    # From the cycle behind a fault of the job on, no burst is asked for until the next one begins.
    stopped = Signal(name="has_failed")
    own_fault = inside.component("faults").own
    m.d.sync += stopped.eq(~job.moves & (stopped | receiver.stop | own_fault))
    bench.require(inside["stopped"] == stopped)
    bench.implies(stopped, ~fires)

    # A burst is of those that come next, within a page, and waits as it was made.
    asked = Signal(request.payload.shape(), name="asked_request")
    made = inside.component("requests").i
    burst_bits = (HOST_BURST_BEATS - 1).bit_length()
    with m.If(fires):
        m.d.sync += asked.eq(made.payload)
    bench.implies(
        fires,
        asking,
        ~receiver.abort,
        made.payload.address == Cat(Const(0, width_bits), next_beat),
        made.payload.beats + 1 == burst,
        burst != 0,
        number + burst <= total,
        next_beat[:burst_bits] + burst <= HOST_BURST_BEATS,
    )
    assert HOST_BURST_BEATS * width <= PAGE_BYTES
    was_asked = Signal()
    m.d.sync += was_asked.eq(fires)
    bench.require((request.valid & ~request.waiting) == was_asked)
    bench.implies(
        request.valid,
        inside["requests.held"] == asked.as_value(),
        asked.beats < HOST_BURST_BEATS,
        request.payload.as_value() == asked.as_value(),
    )

    # There is room for every beat that may come, so each is taken at once.
    outstanding = Signal(range(room_beats + 1))
    coming = Signal(range(2 * room_beats + 1))
    m.d.sync += outstanding.eq(
        outstanding + request.moves * (request.payload.beats + 1) - beats.moves
    )
    m.d.comb += coming.eq(outstanding + request.valid * (asked.beats + 1))
    bench.assume(~beats.valid | (outstanding != 0))
    bench.require(inside["room"] + queued + coming == room_beats, coming <= room_beats)
    bench.implies(beats.valid, beats.ready)
    most = min(HOST_BURST_BEATS, room_beats)
    bench.cover(
        fires & (burst == most) & (number == 0),
        fires & (number != 0) & (burst == 1) & inside["asked_all"],
        fires & (number == 0) & (burst == 1) & ~inside["asked_all"],
        inside["asked_all"] & ~fires & (number != 0) & ~receiver.abort,
        inside["asked_all"] & stopped & (number != 0) & (number != total) & ~receiver.abort,
        inside["asked_all"] & receiver.abort,
        job.moves & asking,
        asking & (inside["room"] < burst),
    )
    if block:
        contract = read_request(block)
        bench.hold(asking, own, receive_job(block))
        bench.claim(~asking | (receiver.ring == own.ring))
        bench.hold(fires, made.payload, contract)
        bench.hold(request.valid, asked, contract)
        bench.assert_item(request.valid, request.payload, contract)
    return bench


def receiver_cover_depth(config: EngineConfig) -> int:
    """A buffer's room is taken by the longest bursts, and one cycle each."""
    return config.read_beats // HOST_BURST_BEATS + 12


@pytest.mark.parametrize("config", configs(ENGINES, quick=()))
def test_streams_are_read_by_their_own_beats(config, tmp_path):
    prove(receiver_proof(config), tmp_path, depth=3, cover_depth=receiver_cover_depth(config))


CHAINED = {**ENGINES, "32-two-rings": engine_of(32, rings=2)}


@pytest.mark.parametrize("config", configs(CHAINED, quick=()))
def test_reads_of_streams_keep_their_contract(config, tmp_path):
    prove(receiver_proof(config, chained=True), tmp_path, depth=1)


RECEIVER_FAULTS = {
    "goes on behind the job": (
        "burst.eq(Mux(final, beats_left, to_boundary))",
        "burst.eq(to_boundary)",
    ),
    "crosses a page": (
        "to_boundary.eq(HOST_BURST_BEATS - next_beat[:burst_bits])",
        "to_boundary.eq(HOST_BURST_BEATS)",
    ),
    "asks without room": ("& (room >= burst)", ""),
    "asks for a beat too many": (
        "(job.size + (job.src[:width_bits] + (width - 1))) >> width_bits",
        "(job.size + (job.src[:width_bits] + width)) >> width_bits",
    ),
    "goes on with the former job's beat": (
        "next_beat.eq(job.src[width_bits:])",
        "next_beat.eq(next_beat)",
    ),
    "loses a request": (" & requests.i.ready & asked.i.ready)", " & asked.i.ready)"),
    "asks during an abort": ("stops.eq(self.abort | stopped)", "stops.eq(stopped)"),
    "asks on behind a fault": ("stops.eq(self.abort | stopped)", "stops.eq(self.abort)"),
    "overlooks a fault": ("self.stop | faults.own", "self.stop"),
    "gives the next job up for a fault": ("stopped.eq(0),", ""),
    "has room for beats that wait": ("(queue.o.valid & queue.o.ready)", "self.beats.valid"),
}


def contract_benches(monkeypatch) -> list[Bench]:
    """The benches that state contracts here."""
    replace_parts(monkeypatch)
    return [
        reader_proof(CODECS["32"], chained=True),
        receiver_proof(CHAINED["32-two-rings"], chained=True),
    ]


READER_CONTRACT_FAULTS = {
    "goes beyond the first page": READER_FAULTS["goes beyond the first page"],
    "begins a beat too late": READER_FAULTS["begins behind its first beat"],
    "forgets the ring": ("request.owner.eq(line.ring)", "request.owner.eq(0)"),
}
RECEIVER_CONTRACT_FAULTS = {
    **{name: RECEIVER_FAULTS[name] for name in ("goes on behind the job", "crosses a page")},
    "asks for a beat too many": RECEIVER_FAULTS["asks for a beat too many"],
    "forgets the ring": (
        "requests.i.payload.owner.eq(self.ring)",
        "requests.i.payload.owner.eq(0)",
    ),
}


@pytest.mark.parametrize("fault", configs(READER_CONTRACT_FAULTS, quick=()))
def test_reader_that_breaks_its_contract_is_found(fault, tmp_path, monkeypatch):
    break_contract(monkeypatch, LineReader, *fault)
    find_fault(reader_proof(CODECS["64"], lines=2, chained=True), tmp_path, depth=6)


@pytest.mark.parametrize("fault", configs(RECEIVER_CONTRACT_FAULTS, quick=()))
def test_receiver_that_breaks_its_contract_is_found(fault, tmp_path, monkeypatch):
    break_contract(monkeypatch, StreamReceiver, *fault)
    small = replace(CHAINED["32-two-rings"], read_buffer_bytes=1024)
    find_fault(receiver_proof(small, chained=True), tmp_path, depth=6)


@pytest.mark.parametrize("fault", configs(RECEIVER_FAULTS, quick=()))
def test_receiver_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, StreamReceiver, *fault)
    small = replace(ENGINES["32"], read_buffer_bytes=1024)
    find_fault(receiver_proof(small), tmp_path, depth=16)
