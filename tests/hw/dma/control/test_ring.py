"""The ring: descriptors fetched ahead, in order, until something is wrong."""

import random
from collections import deque

import numpy as np
import pytest

from cdma.hw.bus.burst import BusError
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.ring import DescriptorFetcher
from tests.lib.simulator import Simulator

BASE = 0x1_0000_1000


def config_of(width, transfers=4):
    return EngineConfig(
        codec=CodecConfig(sector_bytes=width), host_bytes=width, transfers=transfers
    )


class Ring:
    """The fetcher between registers and a host that answers after some cycles."""

    def __init__(
        self, width, *, transfers=4, entries_log2=3, stall=0.0, latency=9, faults=None, seed=0
    ):
        self.width = width
        self.fetcher = DescriptorFetcher(config_of(width, transfers))
        self.log2 = entries_log2
        self.stall, self.latency, self.faults = stall, latency, faults or {}
        self.rng = random.Random(seed)
        content = np.random.default_rng(seed).integers(0, 256, 64 << entries_log2, np.uint8)
        self.memory = content.tobytes()
        self.got = []
        self.requests = []
        self.most_held = 0

    def descriptor(self, index):
        at = 64 * (index % (1 << self.log2))
        return int.from_bytes(self.memory[at : at + 64], "little")

    def run(self, script, *, cycles=400, hold=False):
        """`script(ctx, cycle, fetcher)` plays software, before each clock edge."""
        fetcher = self.fetcher

        async def body(ctx):
            beats = deque()
            offered = None
            ctx.set(fetcher.base, BASE >> 6)
            ctx.set(fetcher.log2_entries, self.log2)
            for cycle in range(cycles):
                script(ctx, cycle, fetcher)
                ctx.set(fetcher.request.ready, self.rng.random() >= self.stall)
                ctx.set(fetcher.o.ready, not hold and self.rng.random() >= self.stall)
                willing = self.rng.random() >= self.stall
                if willing and offered is None and beats and beats[0][0] <= cycle:
                    offered = beats.popleft()[1]
                ctx.set(fetcher.beats.valid, offered is not None)
                if offered is not None:
                    start = offered - BASE
                    data = (b"\xaa" * -min(0, start)) + self.memory[max(0, start) :][: self.width]
                    ctx.set(
                        fetcher.beats.payload,
                        {
                            "data": int.from_bytes(data.ljust(self.width, b"\xee"), "little"),
                            "error": self.faults.get(offered, BusError.NONE),
                        },
                    )
                await ctx.delay(1e-10)
                if ctx.get(fetcher.request.valid) and ctx.get(fetcher.request.ready):
                    request = ctx.get(fetcher.request.payload)
                    self.requests.append(request.address)
                    assert request.address % self.width == 0
                    for beat in range(request.beats + 1):
                        beats.append((cycle + self.latency, request.address + beat * self.width))
                if ctx.get(fetcher.beats.valid) and ctx.get(fetcher.beats.ready):
                    offered = None
                if ctx.get(fetcher.o.valid) and ctx.get(fetcher.o.ready):
                    payload = ctx.get(fetcher.o.payload)
                    self.got.append(
                        (
                            payload.index,
                            payload.descriptor.as_bits(),
                        )
                    )
                self.most_held = max(self.most_held, len(self.requests) - len(self.got))
                await ctx.tick()
            self.head = ctx.get(fetcher.head)
            self.faulty = ctx.get(fetcher.faulty)
            self.fault = ctx.get(fetcher.fault)
            self.idle = ctx.get(fetcher.idle)

        simulator = Simulator(fetcher)
        simulator.add_clock(1e-9)
        simulator.add_testbench(body)
        simulator.run()
        return self


def doorbell(tail, *, done=0):
    def script(ctx, cycle, fetcher):
        ctx.set(fetcher.enable, 1)
        ctx.set(fetcher.done, done)
        ctx.set(fetcher.tail, tail if cycle >= 3 else 0)

    return script


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_descriptors_come_in_order_each_with_its_number(width, stall):
    ring = Ring(width, stall=stall, seed=width).run(doorbell(7))
    assert ring.got == [(index, ring.descriptor(index)) for index in range(7)]
    assert ring.head == 7
    assert (ring.idle, ring.faulty) == (1, 0)


def test_ring_wraps_as_descriptors_end():
    ring = Ring(32, entries_log2=1, stall=0.3)

    def script(ctx, cycle, fetcher):
        ctx.set(fetcher.enable, 1)
        ctx.set(fetcher.done, len(ring.got))
        ctx.set(fetcher.tail, min(9, len(ring.got) + 2))

    ring.run(script, cycles=600)
    assert ring.got == [(index, ring.descriptor(index)) for index in range(9)]


def test_no_more_are_fetched_than_there_is_room_for():
    for transfers in (2, 4, 7):
        ring = Ring(32, transfers=transfers).run(doorbell(8), hold=True)
        assert len(ring.requests) == transfers
        assert not ring.idle


@pytest.mark.parametrize("width", [32, 128])
@pytest.mark.parametrize("transfers", [2, 3, 4])
@pytest.mark.parametrize("latency", [0, 1, 9])
def test_none_is_lost_however_little_room_there_is(width, transfers, latency):
    ring = Ring(width, transfers=transfers, latency=latency).run(doorbell(8))
    assert [number for number, _ in ring.got] == list(range(8))
    assert ring.idle


def test_nothing_is_fetched_while_disabled():
    ring = Ring(32).run(lambda ctx, cycle, fetcher: ctx.set(fetcher.tail, 5))
    assert not ring.requests
    assert ring.idle


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("index", [0, 2, 6])
@pytest.mark.parametrize("error", [BusError.SLVERR, BusError.TIMEOUT])
def test_ring_stops_at_a_descriptor_that_cannot_be_read(width, index, error):
    at = BASE + 64 * index
    beat = (at + 63) // width * width
    ring = Ring(width, faults={beat: error}, stall=0.2).run(doorbell(8))
    first = (beat - BASE) // 64 if width > 64 else index
    assert [number for number, _ in ring.got] == list(range(first))
    assert ring.head == first
    assert (ring.idle, ring.faulty) == (1, 1)
    assert BusError(ring.fault.error) is error
    assert ring.fault.address == beat


@pytest.mark.parametrize(
    ("log2_entries", "tail", "done"), [(0, 1, 0), (3, 9, 0), (3, 0xFFFF, 0), (15, 0x8001, 0)]
)
def test_senseless_registers_stop_the_ring(log2_entries, tail, done):
    ring = Ring(32)
    ring.log2 = log2_entries
    ring.run(doorbell(tail, done=done))
    assert ring.faulty
    assert not ring.requests
    assert BusError(ring.fault.error) is BusError.NONE
    assert ring.fault.address == BASE


def test_ring_outside_of_its_window_is_not_read():
    def script(ctx, cycle, fetcher):
        doorbell(3)(ctx, cycle, fetcher)
        ctx.set(fetcher.outside, 1)

    ring = Ring(32).run(script)
    assert ring.faulty
    assert not ring.requests
    assert (BusError(ring.fault.error), ring.fault.outside) == (BusError.NONE, 1)
    assert ring.fault.address == BASE


def test_cleared_ring_begins_again():
    ring = Ring(32, faults={BASE + 64: BusError.SLVERR})

    def script(ctx, cycle, fetcher):
        ctx.set(fetcher.enable, cycle < 150 or cycle > 205)
        ctx.set(fetcher.tail, 3 if cycle < 150 or cycle > 205 else 0)
        if cycle == 200:
            assert (ctx.get(fetcher.faulty), ctx.get(fetcher.idle)) == (1, 1)
            ring.faults.clear()
        ctx.set(fetcher.clear, cycle == 200)

    ring.run(script)
    assert [number for number, _ in ring.got] == [0, 0, 1, 2]
    assert not ring.faulty
