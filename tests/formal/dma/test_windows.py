"""Windows: no descriptor that passes its checks names a byte outside, whatever it says."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from amaranth.hdl import C, Cat, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control import checker as checker_module
from cdma.hw.dma.control.checker import DescriptorChecker
from cdma.hw.dma.control.descriptor import (
    HOST_ADDRESS_BITS,
    FetchedDescriptor,
    Opcode,
    Status,
    WindowDetail,
)
from cdma.hw.dma.control.registers import Registers
from cdma.hw.dma.control.windows import PAGE_BITS, RingWindowChecker
from cdma.hw.dma.limits import ENTRY_BYTES
from tests.formal.bench import Bench, channel
from tests.formal.broken import break_contract, break_elaborate, find_fault, state_contracts_alone
from tests.formal.dma.contracts import (
    Memories,
    UnnamedMemory,
    checked_descriptor,
    ring_registers,
)
from tests.formal.engines import HOSTS
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

WIDEST_BEAT = 128
"""No port is wider, so whole beats around a range are no more than multiples of this."""


DEFAULT = EngineConfig()
CHAINED = {name: HOSTS[name] for name in ("4", "32")}
"""Engines whose contract is proven, by the bytes of a beat."""


class Range:
    """Bytes from `start` to before `end`, in a window, by plain arithmetic."""

    def __init__(self, bench: Bench, name: str, window, start: Value, nbytes: Value) -> None:
        bits = len(start) + 2
        self.start = Signal(bits, name=f"{name}_start")
        self.end = Signal(bits, name=f"{name}_end")
        self.base = Signal(bits, name=f"{name}_base")
        self.stop = Signal(bits, name=f"{name}_stop")
        beats_start, beats_end = self.start & ~(WIDEST_BEAT - 1), Signal(bits, name=f"{name}_beats")
        bench.m.d.comb += [
            self.start.eq(start),
            self.end.eq(start + nbytes),
            self.base.eq(window.base * PAGE_BYTES),
            self.stop.eq((window.last + 1) * PAGE_BYTES),
            beats_end.eq((self.end + WIDEST_BEAT - 1) & ~(WIDEST_BEAT - 1)),
        ]
        self.empty = nbytes == 0
        self.inside = (self.base <= self.start) & (self.end <= self.stop)
        self.beats_inside = (self.base <= beats_start) & (beats_end <= self.stop)


def checker_proof(config: EngineConfig = DEFAULT, *, chained: bool = False) -> Bench:
    """Windows as the solver likes, but the same for all time, and any descriptors.

    Chained, the proof also asserts the contract of what passes, of any blocks of memory outside of
    the windows.
    """
    bench = Bench(relies=chained)
    m = bench.m
    checker = DescriptorChecker(config)
    inside = bench.add(checker)
    for window in (checker.record_window, checker.host_window, checker.device_window):
        m.d.comb += Value.cast(window).eq(AnyConst(len(Value.cast(window))))
    m.d.comb += checker.clear.eq(AnySeq(1))
    bench.assume(~checker.clear | checker.idle)
    bench.drive(checker.i)
    o = bench.watch(checker.o)
    summed, checked, faulty = inside["summed"], inside["checked"], checker.faulty
    d = FetchedDescriptor()(inside["fetched"]).descriptor

    # What the first cycle has added up is what the second one compares.
    bench.implies(checked, summed)
    bench.require(checker.idle == ~summed)
    bench.implies(
        summed,
        inside["data_end"] == d.src + d.length,
        inside["stream_end"] == d.src + d.src_length,
        inside["dst_end"] == d.dst + d.dst_capacity,
        inside["host_limit"] == checker.host_window.last + 1,
        inside["device_limit"] == checker.device_window.last + 1,
    )

    # What is read and written is as long as the descriptor says.
    outward = (d.opcode == Opcode.COMPRESS_OUT) | (d.opcode == Opcode.COPY_OUT)
    from_stream = d.opcode == Opcode.DECOMPRESS_IN
    inward = from_stream | (d.opcode == Opcode.COPY_IN)
    read_bytes = Mux(from_stream, d.src_length, d.length)
    ranges = {
        name: Range(bench, name, window, start, nbytes)
        for name, window, start, nbytes in (
            ("device_read", checker.device_window, d.src, read_bytes),
            ("host_written", checker.host_window, d.dst, d.dst_capacity),
            ("host_read", checker.host_window, d.src, read_bytes),
            ("device_written", checker.device_window, d.dst, d.dst_capacity),
        )
    }
    ways = (
        (outward, ranges["device_read"], ranges["host_written"]),
        (inward, ranges["host_read"], ranges["device_written"]),
    )
    accepted = o.valid & (o.payload.status == Status.OK)
    refused = o.valid & (o.payload.status == Status.OUTSIDE_WINDOW)
    bench.implies(o.valid & ~refused, o.payload.detail == 0)
    bench.implies(refused, outward | inward)
    for way, source, destination in ways:
        bench.implies(accepted & way, source.inside, source.beats_inside, ~source.empty)
        bench.implies(
            accepted & way & ~destination.empty, destination.inside, destination.beats_inside
        )
        # None is refused that lies inside.
        in_source = o.payload.detail == WindowDetail.SOURCE
        bench.implies(refused & way & in_source, ~source.inside)
        bench.implies(
            refused & way & ~in_source,
            o.payload.detail == WindowDetail.DESTINATION,
            source.inside,
            ~destination.inside,
            ~destination.empty,
        )
        for edge in (source, destination):
            bench.cover(
                o.moves & accepted & way & (edge.start == edge.base) & (edge.end == edge.stop)
            )
            bench.cover(o.moves & refused & way & (edge.end == edge.stop + 1))
        bench.cover(o.moves & accepted & way & destination.empty & ~destination.inside)

    # A record is written where it may be, or the checker has stopped.
    record = Range(bench, "record", checker.record_window, d.record & ~63, C(ENTRY_BYTES))
    bench.implies(o.valid, record.inside)
    stopped_at = Signal(64)
    m.d.comb += stopped_at.eq(checker.fault_address)
    fault = Range(bench, "fault", checker.record_window, stopped_at, C(ENTRY_BYTES))
    bench.implies(faulty, ~fault.inside, ~o.valid)
    # Until it is cleared it stays so, and tells of the first fault.
    stays, first = Signal(), Signal(64)
    m.d.sync += [stays.eq(faulty & ~checker.clear), first.eq(stopped_at)]
    bench.implies(stays, faulty, stopped_at == first)
    bench.cover(faulty, faulty & checker.idle, checker.clear & faulty)
    if chained:
        memories = Memories.of(bench, config)
        host = [checker.host_window, checker.record_window]
        for block, windows in (
            (memories.device_read, [checker.device_window]),
            (memories.device_written, [checker.device_window]),
            (memories.host_read, host[:1]),
            (memories.host_written, host),
        ):
            page = block.last[PAGE_BITS:]
            bench.assume(*((page < window.base) | (page > window.last) for window in windows))
        bench.claim(~checked | (inside["worst_length"] != 0))
        bench.assert_item(o.valid, o.payload, checked_descriptor(config, memories))
    return bench


@pytest.mark.verify
def test_what_passes_lies_in_its_windows_and_what_is_refused_does_not(tmp_path):
    prove(checker_proof(), tmp_path, depth=2, cover_depth=8)


@pytest.mark.parametrize("config", configs(CHAINED, quick=()))
def test_what_passes_keeps_its_contract(config, tmp_path):
    prove(checker_proof(config, chained=True), tmp_path, depth=2)


def wrong_end(window, limit: Value, start: Value, end: Value) -> Value:
    """A byte too many passes."""
    return (start[12:] < window.base) | (end > Cat(C(1, 12), limit))


def strict_end(window, limit: Value, start: Value, end: Value) -> Value:
    """The last byte is refused."""
    return (start[12:] < window.base) | (end >= Cat(C(0, 12), limit))


def wrong_start(window, limit: Value, start: Value, end: Value) -> Value:
    """The page before the first passes."""
    return (start[12:] + 1 < window.base) | (end > Cat(C(0, 12), limit))


def wrong_page(window, page: Value) -> Value:
    """`<=` for `<`: the first page is refused."""
    return (page <= window.base) | (page > window.last)


def wrong_last(window, page: Value) -> Value:
    """The page behind the last passes."""
    return (page < window.base) | (page > window.last + 1)


FUNCTIONS: dict[str, tuple[str, Callable[..., Value]]] = {
    "a byte behind the window": ("range_outside", wrong_end),
    "refuses the last byte": ("range_outside", strict_end),
    "a page before the window": ("range_outside", wrong_start),
    "refuses the first page of records": ("page_outside", wrong_page),
    "a page behind the records": ("page_outside", wrong_last),
}
LINES = {
    "takes one memory's window for the other's": (
        "Mux(kind.outward, device_outside, host_outside)",
        "Mux(kind.outward, host_outside, device_outside)",
    ),
    "forgets the destination": ("with m.Elif(destination_outside):", "with m.Elif(0):"),
    "refuses an empty destination": ("& d.dst_capacity.any()", ""),
    "gives what has no record": ("checked & ~self.faulty", "checked"),
    "goes on behind a fault": ("with m.If(~self.faulty):", "with m.If(1):"),
}


def contract_benches(_monkeypatch) -> list[Bench]:
    """The benches that state contracts here."""
    return [checker_proof(DEFAULT, chained=True), ring_proof(closed=True, chained=True)]


def finds_it(tmp_path) -> None:
    find_fault(checker_proof(), tmp_path, depth=6)


@pytest.mark.parametrize("fault", configs(FUNCTIONS, quick=()))
def test_checker_with_a_wrong_comparison_is_found(fault, tmp_path, monkeypatch):
    monkeypatch.setattr(checker_module, *fault)
    finds_it(tmp_path)


@pytest.mark.parametrize("fault", configs(LINES, quick=()))
def test_checker_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, DescriptorChecker, *fault)
    finds_it(tmp_path)


CONTRACT_FAULTS = {
    "takes one memory's window for the other's": LINES["takes one memory's window for the other's"],
    "forgets the destination": LINES["forgets the destination"],
    "takes a stream of nothing": ("(kind.from_stream & (d.src_length == 0))", "0"),
    "knows no worst case": ("worst_length.eq(self._worst_length(d))", "worst_length.eq(0)"),
    "gives what has no record": LINES["gives what has no record"],
}


@pytest.mark.parametrize("fault", configs(CONTRACT_FAULTS, quick=()))
def test_checker_that_breaks_its_contract_is_found(fault, tmp_path, monkeypatch):
    break_contract(monkeypatch, DescriptorChecker, *fault)
    find_fault(checker_proof(CHAINED["32"], chained=True), tmp_path, depth=6)


def ring_proof(*, closed: bool, chained: bool = False) -> Bench:
    """Registers, as the engine wires them to the ring's window, under any accesses.

    The engine is idle whenever it is not enabled, or not, as the solver likes. Chained, the proof
    asserts the contract of the registers, of any block outside of the window.
    """
    bench = Bench(relies=chained)
    m = bench.m
    registers, ring = Registers(EngineConfig()), RingWindowChecker()
    bench.add(registers)
    bench.add(ring)
    axil = registers.s_axil
    bench.drive_record(*channel(axil, "aw", "addr", "prot"))
    bench.drive_record(*channel(axil, "w", "data", "strb"))
    bench.drive_record(*channel(axil, "ar", "addr", "prot"))
    bench.watch_record(*channel(axil, "b", "resp"))
    bench.watch_record(*channel(axil, "r", "data", "resp"))
    busy = AnySeq(1)
    base, last = registers.descriptor_window_base, registers.descriptor_window_last
    m.d.comb += [
        registers.setup_closed.eq((registers.control.enable | busy) if closed else 0),
        registers.windows_closed.eq(registers.setup_closed | registers.window_lock.lock),
        registers.ring_clear.eq(AnySeq(1)),
        ring.base.eq(registers.ring_base.address),
        ring.log2_entries.eq(registers.ring_size.log2_entries),
        ring.window.base.eq(base.address),
        ring.window.last.eq(last.address),
    ]
    start, end = Signal(66), Signal(66)
    m.d.comb += [
        start.eq(registers.ring_base.address * ENTRY_BYTES),
        end.eq(start + (C(ENTRY_BYTES, 66) << registers.ring_size.log2_entries)),
    ]
    first, stop = Signal(66), Signal(66)
    m.d.comb += [first.eq(base.address * PAGE_BYTES), stop.eq((last.address + 1) * PAGE_BYTES)]
    leaves = (start < first) | (end > stop)
    enabled = registers.control.enable
    bench.implies(enabled, ring.outside == leaves)
    locked, was_locked, before = Signal(), Signal(), Signal(len(base.address))
    m.d.comb += locked.eq(registers.window_lock.lock)
    m.d.sync += [was_locked.eq(locked), before.eq(base.address)]
    bench.implies(was_locked, locked, base.address == before)
    bench.cover(enabled & ring.outside & locked, enabled & ~ring.outside & (base.address != 0))
    if chained:
        bench.subject = "RingWindowChecker"
        block = UnnamedMemory(bench, "read", HOST_ADDRESS_BITS, WIDEST_BEAT)
        page = block.last[PAGE_BITS:]
        unnamed = (page < base.address) | (page > last.address)
        entries = Signal(16)
        m.d.comb += entries.eq(1 << registers.ring_size.log2_entries)
        judged = SimpleNamespace(base=registers.ring_base.address, entries=entries)
        bench.assert_item(enabled & ~ring.outside & unnamed, judged, ring_registers(block))
    return bench


@pytest.mark.verify
def test_ring_is_judged_when_the_engine_is_enabled(tmp_path):
    prove(ring_proof(closed=True), tmp_path, depth=6, cover_depth=24)


@pytest.mark.verify
def test_ring_that_is_let_in_keeps_its_contract(tmp_path):
    prove(ring_proof(closed=True, chained=True), tmp_path, depth=1, cover_depth=24)


@pytest.mark.verify
def test_ring_that_moves_from_its_window_is_found(tmp_path, monkeypatch):
    state_contracts_alone(monkeypatch)
    find_fault(ring_proof(closed=False, chained=True), tmp_path, depth=14)


@pytest.mark.verify
def test_registers_that_do_not_close_are_found(tmp_path):
    find_fault(ring_proof(closed=False), tmp_path, depth=14)
