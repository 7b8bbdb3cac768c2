"""Restored entries back to the manager as beats, and to the writes that fetched them."""

import random

import pytest
from amaranth.hdl import Cat, Signal

from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.buddy.read.response import ReadResponse
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.config import BuddyConfig, EntryConfig
from tests.lib.rtl.bench import STALLS, Bench, FlatPort, assert_no_bubble, stalls

CONFIGS = {width: BuddyConfig(entry=EntryConfig(sector_bytes=width)) for width in (32, 64, 128)}


def random_entries(config, count, seed):
    """Accesses, restored sectors, and what comes of them: beats, fetched sectors."""
    draw = random.Random(seed)
    width = config.entry.sector_bytes
    infos, sectors, beats, fetched = [], [], [], []
    for _ in range(count):
        size = draw.choice([width.bit_length() - 1, draw.randrange(width.bit_length())])
        first = draw.randrange(128 >> size)
        access = {
            "id": draw.randrange(16),
            "address": 128 * draw.randrange(1 << 33) + (first << size),
            "size": size,
            "beats": draw.randrange(1, (128 >> size) - first + 1),
            "last": draw.randrange(2),
            "unsupported": 0,
        }
        fetch = int(draw.random() < 0.3)
        status = draw.choice([0, 0, 0, AccessStatus.DEVICE_READ.value])
        damage = draw.choice([0, 0, 3]) if status == 0 else 0
        ends = status or (AccessStatus.CORRUPT_ENTRY.value if damage else 0)
        data = draw.getrandbits(1024) if not ends else 0
        infos.append({"access": access, "fetch": fetch, "status": status})
        parts = [data >> 8 * width * k & (1 << 8 * width) - 1 for k in range(128 // width)]
        sectors += [{"data": part, "status": damage, "offset": 5 * (damage > 0)} for part in parts]
        if fetch:
            fetched += [{"data": part, "status": ends} for part in parts]
            continue
        for k in range(access["beats"]):
            beats.append(
                {
                    "id": access["id"],
                    "data": parts[(first + k << size) // width],
                    "resp": AxiResponse.SLVERR if ends else AxiResponse.OKAY,
                    "last": int(access["last"] and k == access["beats"] - 1),
                }
            )
    return infos, sectors, beats, fetched


@pytest.mark.parametrize("width", CONFIGS)
@pytest.mark.parametrize(("source_stalls", "sink_stalls"), STALLS)
def test_each_beat_is_of_its_sector(width, source_stalls, sink_stalls):
    config = CONFIGS[width]
    infos, sectors, beats, fetched = random_entries(config, 80, seed=width)
    bench = Bench(ReadResponse(config))
    returner = bench.component
    bench.source(returner.info, infos, willing=stalls(source_stalls, 1))
    bench.source(returner.i, sectors, willing=stalls(source_stalls, 2))
    sink = bench.sink(returner.beats, len(beats), willing=stalls(sink_stalls, 3))
    writes = bench.sink(returner.fetched, len(fetched), willing=stalls(sink_stalls, 4))
    bench.run()
    sink.assert_received(beats)
    writes.assert_received(fetched)


@pytest.mark.parametrize("width", CONFIGS)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_each_failed_read_is_reported_once_and_no_fetch_is(width, stall):
    config = CONFIGS[width]
    infos, sectors, beats, fetched = random_entries(config, 60, seed=width + 1)
    # All sectors of an entry have the same status.
    damage = [sector["status"] for sector in sectors[:: config.entry.sectors]]
    reports = [
        (info["status"] or AccessStatus.CORRUPT_ENTRY.value, info["access"]["address"])
        for info, damaged in zip(infos, damage, strict=True)
        if not info["fetch"] and (info["status"] or damaged)
    ]
    assert len(reports) > 5
    bench = Bench(ReadResponse(config))
    response = bench.component
    bench.source(response.info, infos, willing=stalls(stall, 1))
    bench.source(response.i, sectors, willing=stalls(stall, 2))
    bench.sink(response.beats, len(beats), willing=stalls(stall, 3))
    bench.sink(response.fetched, len(fetched), willing=stalls(stall, 4))
    # Nobody can refuse a report.
    error = response.error
    port = FlatPort(error.valid, Signal(), Cat(error.status, error.address))
    sink = bench.sink(port, len(reports))
    bench.run()
    assert sink.received == [status | address << 4 for status, address in reports]


@pytest.mark.parametrize("width", CONFIGS)
def test_manager_that_takes_nothing_does_not_stop_what_writes_fetch(width):
    config = CONFIGS[width]
    read = {"id": 0, "address": 0, "size": width.bit_length() - 1, "last": 1, "unsupported": 0}
    read["beats"] = 128 // width
    infos = [{"access": read, "fetch": 0, "status": 0}] * config.reads
    infos.append({"access": read, "fetch": 1, "status": 0})
    per_entry = 128 // width
    sectors = [{"data": k, "status": 0, "offset": 0} for k in range(len(infos) * per_entry)]
    bench = Bench(ReadResponse(config))
    returner = bench.component
    bench.source(returner.info, infos)
    bench.source(returner.i, sectors)
    beats = config.reads * per_entry
    patience = beats + 40
    sink = bench.sink(returner.beats, beats, willing=lambda cycle: cycle > patience)
    fetched = bench.sink(returner.fetched, per_entry)
    bench.run()
    assert max(fetched.cycles) < patience < min(sink.cycles)


@pytest.mark.parametrize("width", CONFIGS)
def test_beat_per_cycle(width):
    config = CONFIGS[width]
    access = {"id": 1, "address": 0, "size": width.bit_length() - 1, "last": 1, "unsupported": 0}
    access["beats"] = 128 // width
    count = 30
    sectors = [{"data": k, "status": 0, "offset": 0} for k in range(count * 128 // width)]
    bench = Bench(ReadResponse(config))
    returner = bench.component
    bench.source(returner.info, [{"access": access, "fetch": 0, "status": 0}] * count)
    bench.source(returner.i, sectors)
    sink = bench.sink(returner.beats, len(sectors))
    bench.run()
    assert_no_bubble(sink.cycles)
    assert sink.cycles[0] == 2
