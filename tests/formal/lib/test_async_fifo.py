"""The queue between two clocks, at all ratios and phases, with metastable synchronizers."""

from typing import Any

import pytest
from amaranth.hdl import Module, Signal, Value
from amaranth.hdl._ast import AnySeq

from cdma.hw.lib.clocks import async_fifo
from cdma.hw.lib.clocks.async_fifo import AsyncFifo
from cdma.hw.lib.count import count_ones
from tests.formal.bench import Bench, Inside
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.clocks import MetastableSynchronizer, TwoClocks
from tests.formal.order import Order, Run, one
from tests.formal.smtbmc import check, prove
from tests.lib.shares import configs


class OpenAsyncFifo(AsyncFifo):
    """An `AsyncFifo` that shows what its memory holds, in `rows`."""

    def __init__(self, shape: Any, depth: int, **options: Any) -> None:
        super().__init__(shape, depth, **options)
        bits = len(Value.cast(self.o.payload))
        self.rows = [Signal(bits, name=f"row_{k}") for k in range(depth)]

    def elaborate(self, platform) -> Module:
        m = super().elaborate(platform)
        storage, src_loc = m._named_submodules["storage"]
        opened = storage.elaborate(platform)
        storage._MustUse__used = True
        m._named_submodules["storage"] = (opened, src_loc)
        for address, row in enumerate(self.rows):
            port = opened.submodules.words.read_port(domain="comb")
            m.d.comb += [port.addr.eq(address), row.eq(Value.cast(port.data))]
        return m


@pytest.fixture(autouse=True)
def metastable(monkeypatch):
    monkeypatch.setattr(async_fifo, "Synchronizer", MetastableSynchronizer)


def decoded(bench: Bench, gray: Value) -> Signal:
    """The number of a Gray code."""
    number = Signal(len(gray))
    bench.m.d.comb += [number[k].eq(gray[k:].xor()) for k in range(len(gray))]
    return number


def less(bench: Bench, a: Value, b: Value, name: str) -> Signal:
    """The difference of two pointers, modulo two laps."""
    difference = Signal(len(a), name=name)
    bench.m.d.comb += difference.eq(a - b)
    return difference


def require_pointers(bench: Bench, fifo: AsyncFifo, inside: Inside) -> Signal:
    """State where pointers can be, without any reset; returns the number of stored payloads."""
    written, taken = inside["written"], inside["taken"]
    stored = less(bench, written, taken, "stored")
    bench.require(stored <= fifo.depth)
    for side, pointer, other in (("i", written, taken), ("o", taken, written)):
        gray = inside[f"{pointer.name}_gray"]
        crossing = inside.component(f"{side}_pointer")
        bench.require(gray == pointer ^ pointer[1:])
        # Older and older values: each at least where the other side is, or a lap before it.
        base = other if side == "i" else other - fifo.depth
        ahead = [
            less(bench, value, base, f"{side}_ahead")
            for value in (
                pointer,
                *(decoded(bench, v) for v in (crossing.before, *crossing.contents)),
            )
        ]
        bench.require(*(ahead[k + 1] <= ahead[k] for k in range(len(ahead) - 1)))
        bench.require((ahead[0] <= fifo.depth) & (ahead[0] - ahead[1] <= 1))
        state = inside.component(f"{side}_state")
        known = [inside[f"{side}_runs"], state.before, *state.contents]
        bench.require(*(known[k] | ~known[k + 1] for k in range(len(known) - 1)))
        bench.implies(~known[-1], other == 0)
    return stored


def queue_bench(depth: int, stages: int = 2, *, is_open: bool = True) -> Bench:
    """The queue with its contract; if `is_open`, with what makes it inductive, too."""
    bench = Bench()
    clocks = TwoClocks(bench, "write", "read")
    fifo = OpenAsyncFifo(8, depth, i_domain="write", o_domain="read", stages=stages)
    inside = clocks.add(fifo)
    i, o = clocks.drive(fifo.i, "write"), clocks.watch(fifo.o, "read")
    order = Order(bench, 8, count_bits=depth.bit_length() + 1)
    order.comes(one(i.moves, i.payload))
    order.leaves(one(o.moves, o.payload))
    for side in ("i", "o"):
        # A synchronizer may take each bit as it was or as it is.
        pointer = inside.component(f"{side}_pointer")
        bench.require(count_ones(pointer.i ^ pointer.before) <= 1)
    if is_open:
        stored = require_pointers(bench, fifo, inside)
        bench.implies(i.moves, stored < depth)
        bench.implies(inside["read_fire"] & clocks.ticks["read"], stored != 0)
        order.on_the_way(
            one(inside["holds"], Value.cast(fifo.o.payload)),
            Run(stored, [*fifo.rows, *fifo.rows], inside["taken"][:-1]),
        )
        bench.cover(inside["full"], stored == depth)
    bench.cover(inside["written"][-1] & o.moves)
    return bench


SHAPES = {
    "2-of-2": (2, 2),
    "4-of-2": (4, 2),
    "8-of-2": (8, 2),
    "16-of-2": (16, 2),
    "4-of-3": (4, 3),
}


@pytest.mark.parametrize("shape", configs(SHAPES, quick=["4-of-2"]))
def test_async_fifo_is_a_queue(shape, tmp_path):
    prove(queue_bench(*shape), tmp_path, depth=2, cover_depth=4 * shape[0] + 20)


FAULTS = {
    # Several bits of a pointer change at once. All else is right for such pointers.
    "binary-pointers": [
        ("gray.eq(following ^ following[1:])", "gray.eq(following)"),
        ("taken_seen ^ (0b11 << bits - 2)", "taken_seen ^ (1 << bits - 1)"),
    ],
    "full-of-another-lap": [("0b11 << bits - 2", "1 << bits - 1")],
    "never-full": [("~full & i_sees_output", "i_sees_output")],
    "never-empty": [("(taken_gray != written_seen) & o_sees_input", "o_sees_input")],
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=["binary-pointers"]))
def test_a_faulty_async_fifo_is_found(fault, monkeypatch, tmp_path):
    for right, wrong in fault:
        break_elaborate(monkeypatch, AsyncFifo, right, wrong)
    find_fault(queue_bench(2, is_open=False), tmp_path, depth=20)


def reset_bench(
    reset_cycles: int | None = None, *, is_asynchronous: bool, sides: str = "both"
) -> Bench:
    """The queue with resets of one side or of both, none of which is too short.

    Payloads are numbers. Those that come out are some that went in, in their order, and between
    those that were sent when there was no reset, none is missing.
    """
    bench = Bench()
    m = bench.m
    clocks = TwoClocks(bench, "write", "read", is_asynchronous=is_asynchronous)
    fifo = AsyncFifo(5, 2, i_domain="write", o_domain="read")
    clocks.add(fifo)
    least = fifo.reset_cycles if reset_cycles is None else reset_cycles
    for domain in ("write", "read") if sides == "both" else (sides,):
        clocks.reset(domain, least)
    in_reset = clocks.resets["write"] | clocks.resets["read"]

    sent, next_due, lost = Signal(5), Signal(5), Signal(5)
    i_fire, o_fire, o_waits, offered = Signal(), Signal(), Signal(), Signal(5)
    m.d.comb += [
        fifo.i.valid.eq(AnySeq(1)),
        fifo.i.payload.eq(sent),
        fifo.o.ready.eq(AnySeq(1)),
        i_fire.eq(fifo.i.valid & fifo.i.ready & clocks.ticks["write"]),
        o_fire.eq(fifo.o.valid & fifo.o.ready & clocks.ticks["read"] & ~clocks.resets["read"]),
    ]
    m.d.sync += [
        sent.eq(sent + i_fire),
        o_waits.eq(fifo.o.valid & ~o_fire),
        offered.eq(fifo.o.payload),
    ]
    with m.If(in_reset):
        m.d.sync += lost.eq(sent + i_fire)
    with m.If(o_fire):
        m.d.sync += next_due.eq(fifo.o.payload + 1)
    # So many do not come in the proof's depth.
    bench.assume(sent < 31)
    bench.implies(o_fire, fifo.o.payload < sent, fifo.o.payload >= next_due)
    bench.implies(o_fire & (fifo.o.payload != next_due), fifo.o.payload <= lost)
    bench.implies(
        o_waits & ~clocks.resets["read"] & ~clocks.reset_before["read"],
        fifo.o.valid & (fifo.o.payload == offered),
    )
    bench.cover(o_fire & (fifo.o.payload != next_due))
    return bench


RESETS = {"sync-14": (False, 14), "sync-22": (False, 22), "async-22": (True, 22)}
"""Whether resets act without a clock, and the depth."""


@pytest.mark.parametrize("kind", configs(RESETS, quick=["sync-14"]))
def test_resets_lose_what_is_stored_and_nothing_else(kind, tmp_path):
    is_asynchronous, depth = kind
    bench = reset_bench(is_asynchronous=is_asynchronous)
    check(bench, tmp_path, depth=depth, cover_depth=24)


def test_a_reset_that_is_too_short_is_found(tmp_path):
    bench = reset_bench(5, is_asynchronous=False, sides="read")
    find_fault(bench, tmp_path, depth=15)


@pytest.mark.verify
def test_a_pointer_that_is_not_behind_the_state_is_found(monkeypatch, tmp_path):
    break_elaborate(monkeypatch, AsyncFifo, "self.stages + 1, other", "self.stages, other")
    bench = reset_bench(is_asynchronous=False, sides="write")
    find_fault(bench, tmp_path, depth=20)
