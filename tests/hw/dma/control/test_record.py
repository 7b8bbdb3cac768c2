"""Records: written whole, counted when they have arrived; interrupts that several share."""

import numpy as np
import pytest

from cdma.hw.bus.burst import BusError
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.completion import Completion
from cdma.hw.dma.control.descriptor import RECORD_DTYPE, Status
from cdma.hw.dma.control.record import InterruptCoalescer, RecordWriter
from tests.lib.rtl.bench import STALLS, Bench, fields, stalls
from tests.lib.simulator import Simulator


def completion(rng, address, status=Status.OK, *, interrupt=0):
    record = np.zeros((), RECORD_DTYPE)
    raw = rng.integers(0, 256, 64, np.uint8)
    record = raw.view(RECORD_DTYPE)[0].copy()
    record["status"] = status
    content = int.from_bytes(record.tobytes(), "little")
    return {
        "bits": content | address << 512 | interrupt << 576,
        "bytes": record.tobytes(),
        "address": address,
    }


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("probability", STALLS)
def test_record_is_written_whole_to_its_place(width, probability):
    rng = np.random.default_rng(width)
    config = EngineConfig(codec=CodecConfig(sector_bytes=width), host_bytes=width)
    writer = RecordWriter(config)
    # The last one's address is off by 9: it goes where it would be without.
    addresses = [0x1_0000_0000 + 64 * k for k in range(5)] + [2**64 - 64, 0x4049]
    completions = [completion(rng, address) for address in addresses]
    beats = max(1, 64 // width)
    bench = Bench(writer)
    bench.source(
        writer.i,
        [fields(Completion(), c["bits"]) for c in completions],
        willing=stalls(probability[0], 1),
    )
    requests = bench.sink(writer.request, len(addresses), willing=stalls(probability[1], 2))
    sent = bench.sink(writer.beats, beats * len(addresses), willing=stalls(probability[1], 3))
    bench.source(writer.response, [BusError.NONE.value] * len(addresses))
    bench.run()
    memory = {}
    data = iter(sent.payloads)
    for request in requests.payloads:
        for beat in range(request["beats"] + 1):
            payload = next(data)
            assert payload["last"] == (beat == request["beats"])
            for lane in range(width):
                if payload["strobe"] >> lane & 1:
                    address = request["address"] + beat * width + lane
                    assert address not in memory
                    memory[address] = payload["data"] >> (8 * lane) & 0xFF
    expected = {
        address - address % 64 + k: byte
        for address, c in zip(addresses, completions, strict=True)
        for k, byte in enumerate(c["bytes"])
    }
    assert memory == expected


def answers(responses, statuses):
    """Run the writer and return what it tells when its records get these answers."""
    writer = RecordWriter(EngineConfig())
    rng = np.random.default_rng(1)
    told = []

    async def body(ctx):
        for index, (response, status) in enumerate(zip(responses, statuses, strict=True)):
            ctx.set(writer.i.valid, 1)
            item = completion(rng, 64 * index, status, interrupt=index % 2)
            shape = Completion()
            ctx.set(writer.i.payload, shape.from_bits(item["bits"]))
            ctx.set(writer.request.ready, 1)
            ctx.set(writer.beats.ready, 1)
            await ctx.tick()
            ctx.set(writer.i.valid, 0)
            await ctx.tick().repeat(8)
            ctx.set(writer.response.valid, 1)
            ctx.set(writer.response.payload, response)
            await ctx.delay(1e-10)
            assert ctx.get(writer.response.ready)
            about = ctx.get(writer.record_info)
            told.append((ctx.get(writer.record_done), about.failed, about.interrupt, about.address))
            await ctx.tick()
            ctx.set(writer.response.valid, 0)
            await ctx.delay(1e-10)
            told[-1] += (ctx.get(writer.done), BusError(ctx.get(writer.error)))

    simulator = Simulator(writer)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    return told


def test_records_count_when_they_have_arrived():
    none = BusError.NONE
    assert answers([none] * 3, [Status.OK, Status.OK_EXPANDED, Status.CRC_MISMATCH]) == [
        (1, 0, 0, 0, 1, none),
        (1, 0, 1, 64, 2, none),
        (1, 1, 0, 128, 3, none),
    ]


def test_record_that_cannot_be_written_stops_the_count():
    error = BusError.DECERR
    got = answers([BusError.NONE, error, BusError.NONE, BusError.SLVERR], [Status.OK] * 4)
    assert [row[4:] for row in got] == [(1, BusError.NONE), (1, error), (1, error), (1, error)]


def raises(events, *, count, cycles, last=60):
    """The cycles in which an interrupt is raised."""
    coalescer = InterruptCoalescer()
    raised = []

    async def body(ctx):
        ctx.set(coalescer.count, count)
        ctx.set(coalescer.cycles, cycles)
        for cycle in range(last):
            ctx.set(coalescer.request, cycle in events)
            await ctx.delay(1e-10)
            if ctx.get(coalescer.interrupt):
                raised.append(cycle)
            await ctx.tick()

    simulator = Simulator(coalescer)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    return raised


@pytest.mark.parametrize("count", [0, 1])
def test_every_record_raises_an_interrupt_without_coalescing(count):
    assert raises({2, 3, 9}, count=count, cycles=0) == [3, 4, 10]


def test_so_many_records_share_an_interrupt():
    assert raises({2, 3, 9, 10, 11, 12, 20}, count=3, cycles=0) == [10, 13]


def test_first_record_waits_no_longer_than_told():
    assert raises({5, 30, 31}, count=100, cycles=10) == [15, 40]


def test_records_that_come_with_an_interrupt_wait_for_the_next():
    assert raises({2, 3, 4, 5}, count=2, cycles=0) == [4, 6]
