"""An AXI4 port that crosses to another clock: nothing is lost, and data follows its address."""

import random

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from cdma.hw.bus.clock_crossing import Axi4ClockCrossing
from tests.lib.rtl.axi4_bus import Axi4Bus, Behavior, content
from tests.lib.rtl.clocks import CLOCKS, USUAL
from tests.lib.shares import configs

WIDTH = 4
OTHERS = ("just-behind", "just-before", "seven-to-five")
"""Ratios and phases that are left to the queues' own tests."""

RATIOS = configs({name: CLOCKS[name] for name in CLOCKS if name not in OTHERS}, quick=USUAL)


class Manager:
    """Drives the crossing's port: bursts of reads and of writes, each with all its data at once.

    Attributes
    ----------
    answers : dict[int, list]
        By ID, what came for reads: the bursts' words. `responses` are those of writes.
    """

    def __init__(self, axi, count, stall, seed):
        self.axi, self.stall, self.random = axi, stall, random.Random(seed)
        self.reads = [self._burst() for _ in range(count)]
        self.writes = [self._burst() for _ in range(count)]
        self.data = [
            [(self.random.getrandbits(8 * WIDTH), self.random.getrandbits(WIDTH)) for _ in range(n)]
            for _, _, n in self.writes
        ]
        self.answers = {0: [], 1: []}
        self.responses = {0: 0, 1: 0}
        self.count = count

    def _burst(self):
        beats = self.random.randint(1, 16)
        id, page = self.random.randrange(2), self.random.randrange(1 << 12)
        return id, page * 64, beats

    @property
    def is_done(self):
        words = sum(len(words) for words in self.answers.values())
        return sum(self.responses.values()) == self.count and words == sum(
            beats for _, _, beats in self.reads
        )

    async def run(self, ctx):
        axi = self.axi
        addresses = {"ar": list(self.reads), "aw": list(self.writes)}
        beats = []
        data = list(self.data)
        offers = dict.fromkeys(("ar", "aw", "w"), False)
        for _ in range(40_000):
            if self.is_done:
                break
            queues = {**addresses, "w": beats}
            for channel, queue in queues.items():
                offers[channel] = bool(queue) and (
                    offers[channel] or self.random.random() >= self.stall
                )
                ctx.set(getattr(axi, f"{channel}valid"), offers[channel])
            for channel in ("ar", "aw"):
                if offers[channel]:
                    id, address, length = addresses[channel][0]
                    for name, value in (
                        ("id", id),
                        ("addr", address),
                        ("len", length - 1),
                        ("size", 2),
                        ("burst", 1),
                        ("cache", 2),
                    ):
                        ctx.set(getattr(axi, channel + name), value)
            if offers["w"]:
                for name, value in zip(("data", "strb", "last"), beats[0], strict=True):
                    ctx.set(getattr(axi, f"w{name}"), value)
            takes = {c: self.random.random() >= self.stall for c in ("b", "r")}
            for channel, taken in takes.items():
                ctx.set(getattr(axi, f"{channel}ready"), taken)
            names = ["arready", "awready", "wready", "bvalid", "bid", "rvalid", "rid", "rdata"]
            _, _, ar, aw, w, bvalid, bid, rvalid, rid, rdata = await ctx.tick().sample(
                *(getattr(axi, name) for name in names)
            )
            if ar and offers["ar"]:
                addresses["ar"].pop(0)
                offers["ar"] = False
            if aw and offers["aw"]:
                addresses["aw"].pop(0)
                offers["aw"] = False
                burst = data.pop(0)
                beats += [(*beat, k == len(burst) - 1) for k, beat in enumerate(burst)]
            if w and offers["w"]:
                beats.pop(0)
                offers["w"] = False
            if bvalid and takes["b"]:
                self.responses[bid] += 1
            if rvalid and takes["r"]:
                self.answers[rid].append(rdata)


class Bench:
    """The crossing between a manager and a bus that checks what it gets."""

    def __init__(self, clocks, *, count=15, stall=0.0, behavior=None):
        self.crossing = Axi4ClockCrossing(WIDTH, 32, 1, domain="host")
        module = Module()
        self.domains = {name: ClockDomain(name) for name in ("sync", "host")}
        module.domains += self.domains.values()
        module.submodules.crossing = self.crossing
        self.simulator = Simulator(module)
        phase = clocks[0]
        self.simulator.add_clock(clocks[0] * 1e-9, phase=phase * 1e-9)
        self.simulator.add_clock(clocks[1] * 1e-9, phase=(phase + clocks[2]) * 1e-9, domain="host")
        self.manager = Manager(self.crossing.s_axi, count, stall, seed=1)
        self.bus = Axi4Bus(self.crossing.m_axi, behavior or Behavior(), seed=2)
        self.simulator.add_testbench(self.manager.run)
        self.simulator.add_testbench(self._run_bus, background=True)

    async def _run_bus(self, ctx):
        inputs, outputs = self.bus.inputs(), self.bus.outputs()
        cycle = 0
        while True:
            for wire, value in zip(inputs, self.bus.drive(ctx, cycle), strict=True):
                ctx.set(wire, value)
            _, _, *values = await ctx.tick("host").sample(*outputs)
            self.bus.observe(cycle, values)
            cycle += 1

    def run(self):
        self.simulator.run()
        assert self.manager.is_done

    def check(self):
        """Everything is where it should be, and the bus owes nothing."""
        written = {}
        for (_, address, _), beats in zip(self.manager.writes, self.manager.data, strict=True):
            for k, (word, strobe) in enumerate(beats):
                for lane in range(WIDTH):
                    if strobe >> lane & 1:
                        written[address + WIDTH * k + lane] = word >> 8 * lane & 0xFF
        assert self.bus.written == written
        for id, words in self.manager.answers.items():
            assert words == [
                content(address + WIDTH * k, WIDTH)
                for other, address, beats in self.manager.reads
                for k in range(beats)
                if other == id
            ]
        assert not self.bus.owes


@pytest.mark.parametrize("data_first", [False, True])
@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("clocks", RATIOS)
def test_bursts_cross_whole_and_addresses_before_their_data(clocks, stall, data_first):
    behavior = Behavior(stall=stall, data_first=data_first)
    bench = Bench(clocks, stall=stall, behavior=behavior)
    bench.run()
    bench.check()


def test_a_bus_may_take_many_addresses_before_any_data():
    behavior = Behavior(hangs={"w": 0}, lift=300)
    bench = Bench(CLOCKS["shifted"], behavior=behavior)
    bench.run()
    bench.check()
    # All that were counted, while no beat was taken.
    first = bench.bus.transfers["w"][0]
    assert sum(cycle < first for cycle in bench.bus.transfers["aw"]) == 15


def two_clocks(crossing):
    """A simulator with the crossing and two clocks alike, and the clocks' domains."""
    module = Module()
    domains = {name: ClockDomain(name) for name in ("sync", "host")}
    module.domains += domains.values()
    module.submodules.crossing = crossing
    simulator = Simulator(module)
    simulator.add_clock(1e-9)
    simulator.add_clock(1e-9, domain="host")
    return simulator, domains


@pytest.mark.parametrize("channel", ["aw", "ar"])
def test_an_address_keeps_its_user_bits(channel):
    crossing = Axi4ClockCrossing(WIDTH, 32, 1, user_bits=5, domain="host")
    simulator, _ = two_clocks(crossing)
    sent = [(0x1000 * k, (7 * k + 3) % 32) for k in range(12)]
    names = [channel + name for name in ("valid", "ready", "addr", "user")]
    came = []

    async def manage(ctx):
        valid, ready, address, user = (getattr(crossing.s_axi, name) for name in names)
        for pair in sent:
            ctx.set(valid, 1)
            ctx.set(address, pair[0])
            ctx.set(user, pair[1])
            await ctx.tick().until(ready)
        ctx.set(valid, 0)

    async def serve(ctx):
        valid, ready, address, user = (getattr(crossing.m_axi, name) for name in names)
        ctx.set(ready, 1)
        while len(came) < len(sent):
            came.append(await ctx.tick("host").sample(address, user).until(valid))

    simulator.add_testbench(manage)
    simulator.add_testbench(serve)
    simulator.run()
    assert came == sent


def test_a_port_in_reset_offers_nothing_at_once():
    crossing = Axi4ClockCrossing(WIDTH, 32, 1, domain="host")
    simulator, domains = two_clocks(crossing)

    async def bench(ctx):
        ctx.set(crossing.s_axi.arvalid, 1)
        await ctx.tick("host").repeat(12)
        assert ctx.get(crossing.m_axi.arvalid)
        ctx.set(domains["host"].rst, 1)
        assert not ctx.get(crossing.m_axi.arvalid)

    simulator.add_testbench(bench)
    simulator.run()
