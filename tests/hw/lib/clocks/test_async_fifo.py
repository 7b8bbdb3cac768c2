"""The queue between two clocks: order, latency, rate, capacity and resets, at many ratios."""

import gc
import random

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from cdma.hw.lib.clocks.async_fifo import AsyncFifo
from cdma.hw.lib.clocks.synchronizer import Synchronizer
from cdma.hw.lib.clocks.two_clock_ram import TwoClockRam
from tests.lib.rtl.bench import STALLS, always, stalls
from tests.lib.rtl.clocks import CLOCKS, USUAL
from tests.lib.shares import configs

RATIOS = configs(CLOCKS, quick=USUAL)


class Bench:
    """A queue between a source and a sink with clocks of their own.

    Attributes
    ----------
    sent, came : list of (int, int)
        Each transfer's number of the edge, counted from 0 for each clock, and payload.
    """

    def __init__(self, clocks, *, depth=8, stages=2):
        periods, phases = clocks[:2], (clocks[0], clocks[0] + clocks[2])
        self.fifo = AsyncFifo(16, depth, i_domain="write", o_domain="read", stages=stages)
        self.write, self.read = ClockDomain("write"), ClockDomain("read")
        module = Module()
        module.domains += [self.write, self.read]
        module.submodules.fifo = self.fifo
        self.simulator = Simulator(module)
        self.sent, self.came = [], []
        for name, period, phase in zip(("write", "read"), periods, phases, strict=True):
            self.simulator.add_clock(period * 1e-9, phase=phase * 1e-9, domain=name)
        self.times = [
            [round(1000 * (phase + k * period)) for k in range(20_000)]
            for period, phase in zip(periods, phases, strict=True)
        ]

    def source(self, values, willing=always):
        async def drive(ctx):
            left, offering = list(values), False
            for cycle in range(20_000):
                offering = bool(left) and (offering or willing(cycle))
                ctx.set(self.fifo.i.valid, offering)
                ctx.set(self.fifo.i.payload, left[0] if offering else 0xDEAD)
                _, reset, ready = await ctx.tick("write").sample(self.fifo.i.ready)
                if offering and ready and not reset:
                    self.sent.append((cycle, left.pop(0)))
                    offering = False

        self.simulator.add_testbench(drive, background=True)

    def sink(self, count=None, willing=always, cycles=20_000):
        """Take so many payloads, or until the cycles are over."""

        async def take(ctx):
            fifo, held = self.fifo, None
            for cycle in range(cycles):
                ready = willing(cycle)
                ctx.set(fifo.o.ready, ready)
                _, reset, valid, payload = await ctx.tick("read").sample(
                    fifo.o.valid, fifo.o.payload
                )
                assert held is None or (valid, payload) == (1, held)
                held = payload if valid and not ready and not reset else None
                if valid and ready and not reset:
                    self.came.append((cycle, payload))
                if len(self.came) == count:
                    return

        self.simulator.add_testbench(take)

    def edges(self, sent, came):
        """Edges of the sink's clock behind one of the source's, up to and with another one."""
        start, end = self.times[0][sent], self.times[1][came]
        return sum(start < time <= end for time in self.times[1][: came + 1])


def payloads(count):
    generator = random.Random(1)
    return [generator.getrandbits(16) for _ in range(count)]


def values(transfers):
    return [payload for _, payload in transfers]


@pytest.mark.parametrize("clocks", RATIOS)
@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_order_is_kept_under_stalls(clocks, source, sink):
    bench = Bench(clocks, depth=4)
    bench.source(payloads(100), stalls(source, 1))
    bench.sink(100, stalls(sink, 2))
    bench.simulator.run()
    assert values(bench.came) == payloads(100)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("clocks", RATIOS)
def test_a_payload_comes_with_the_edge_that_the_latency_says(clocks, stages):
    bench = Bench(clocks, stages=stages)
    bench.source(payloads(10), lambda cycle: cycle % 60 == 30)
    bench.sink(10)
    bench.simulator.run()
    assert len(bench.came) == 10
    for (sent, _), (came, _) in zip(bench.sent, bench.came, strict=True):
        # What is valid with an edge is taken with the next one.
        assert bench.edges(sent, came) == bench.fifo.latency + 1


@pytest.mark.parametrize("clocks", RATIOS)
def test_a_transfer_goes_through_in_each_cycle_of_the_slower_clock(clocks):
    bench = Bench(clocks)
    bench.source(payloads(200))
    bench.sink(200)
    bench.simulator.run()
    slower = bench.sent if clocks[0] > clocks[1] else bench.came
    cycles = [cycle for cycle, _ in slower][20:180]
    if clocks[0] == clocks[1] or max(clocks[:2]) / min(clocks[:2]) > 1.1:
        assert cycles == list(range(cycles[0], cycles[0] + len(cycles)))
    else:
        assert len(cycles) / (cycles[-1] - cycles[0] + 1) > 0.98


@pytest.mark.parametrize("depth", [2, 4, 8, 16])
def test_a_blocked_queue_holds_its_depth_and_one(depth):
    bench = Bench(CLOCKS["shifted"], depth=depth)
    bench.source(payloads(40))
    bench.sink(40, lambda cycle: cycle >= 60)
    bench.simulator.run()
    end = bench.times[1][60]
    assert sum(bench.times[0][cycle] < end for cycle, _ in bench.sent) == depth + 1
    assert values(bench.came) == payloads(40)


@pytest.mark.parametrize("side", ["write", "read", "both", "write-first", "read-first"])
@pytest.mark.parametrize("clocks", RATIOS)
def test_a_reset_of_either_side_empties_the_queue(clocks, side):
    bench = Bench(clocks)
    slow = max(clocks[:2]) * 1e-9
    resets = {"write": bench.write.rst, "read": bench.read.rst}
    names = {"both": ["write", "read"], "write-first": ["write", "read"]}
    order = names.get(side, ["read", "write"] if side == "read-first" else [side])
    sent = {}

    async def reset(ctx):
        for burst in range(4):
            await ctx.delay((20 + 3 * burst) * slow)
            # Within an edge of its own side's clock, as a synchronizer would.
            for name in order:
                await ctx.tick(name)
                ctx.set(resets[name], 1)
                await ctx.delay(0 if side == "both" else slow)
            await ctx.delay((bench.fifo.reset_cycles + 1) * slow)
            sent[burst] = (len(bench.sent), len(bench.came))
            for name in order:
                await ctx.tick(name)
                ctx.set(resets[name], 0)
                await ctx.delay(0 if side == "both" else slow)

    numbers = list(range(1, 20_000))
    bench.source(numbers, stalls(0.3, 3))
    bench.sink(None, stalls(0.5, 4), cycles=round(260 * slow * 1e9 / clocks[1]))
    bench.simulator.add_testbench(reset)
    bench.simulator.run()
    came = values(bench.came)
    # Nothing twice, changed or out of order; what is missing was in the queue in a reset.
    assert came == sorted(set(came))
    assert set(came) <= set(values(bench.sent))
    runs = [k for k in range(1, len(came)) if came[k] != came[k - 1] + 1]
    assert len(runs) <= 4
    assert len(sent) == 4
    assert len(bench.sent) > sent[3][0] + 5
    assert len(bench.came) > sent[3][1] + 5
    # Of each, no more than what it holds.
    assert all(came[k] - came[k - 1] - 1 <= 8 + 1 for k in runs)


@pytest.mark.parametrize("side", ["write", "read"])
def test_what_is_in_the_memory_is_lost_in_a_reset(side):
    bench = Bench(CLOCKS["shifted"])
    released = 30 + bench.fifo.reset_cycles
    bench.source(range(1, 8), lambda cycle: len(bench.sent) < 5 or cycle > released)

    async def reset(ctx):
        rst = {"write": bench.write.rst, "read": bench.read.rst}[side]
        for cycle in range(released):
            ctx.set(rst, cycle >= 30)
            await ctx.tick(side)
        ctx.set(rst, 0)

    bench.simulator.add_testbench(reset)
    bench.sink(3 if side == "write" else 2, lambda cycle: cycle >= released + 30)
    bench.simulator.run()
    # What the output offers stays there, unless it is the output's own reset.
    assert values(bench.came) == ([1, 6, 7] if side == "write" else [6, 7])


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_depth_and_stages_have_bounds():
    for depth in (0, 1, 3, 6):
        with pytest.raises(ValueError, match=f"power of two, at least 2, not {depth}"):
            AsyncFifo(8, depth, i_domain="write", o_domain="read")
    with pytest.raises(ValueError, match="stages must be at least 2, not 1"):
        Synchronizer(4, 1, "read")
    with pytest.raises(ValueError, match="ports must have two domains, not 'read' both"):
        TwoClockRam(8, 4, write_domain="read", read_domain="read")
    # While what was not built may still go unused.
    gc.collect()
