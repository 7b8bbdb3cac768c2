"""Reads of device memory: bursts, lines that begin anywhere, and what the bus gets wrong."""

import random

import numpy as np
import pytest

from cdma.golden import codec, crc32
from cdma.hw.bus.burst import BusError, ReadGuard
from cdma.hw.config import CodecConfig
from cdma.hw.dma.outbound.reader import LineReader
from cdma.hw.dma.outbound.unit import CompressionUnit
from cdma.hw.lib.codes.gf2 import ONES
from cdma.hw.lib.fifo import Fifo
from tests.hw.dma.outbound.unit_crcs import unit_crcs
from tests.lib.rtl.bench import STALLS, Bench, assert_no_bubble, stalls

CONFIG = CodecConfig()
WIDTH = CONFIG.sector_bytes
MEMORY_BYTES = 3 * 4096


@pytest.fixture(scope="module")
def memory():
    generator = random.Random(4)
    elements = [
        generator.randbytes(4) if generator.random() < 0.5 else bytes(4)
        for _ in range(MEMORY_BYTES // 4)
    ]
    return b"".join(elements)


def line_bytes(memory, address, size):
    return memory[address : address + size].ljust(CONFIG.line_bytes, b"\0")


def bursts(address, size):
    """The legal bursts that read a range: addresses and beats."""
    while size:
        room = min(size, 4096 - address % 4096)
        first = address // WIDTH * WIDTH
        yield first, -(-(address + room - first) // WIDTH)
        address, size = address + room, size - room


def beats(memory, address, size, errors=None):
    for first, count in bursts(address, size):
        for index in range(count):
            at = first + index * WIDTH
            yield {
                "data": int.from_bytes(memory[at : at + WIDTH], "little"),
                "error": (errors or {}).get(at, BusError.NONE).value,
            }


LINES = [
    (0, 128),
    (128, 128),
    (256, 4),
    (4, 128),
    (60, 100),
    (28, 4),
    (28, 8),
    (3968, 128),
    (3972, 128),
    (4092, 4),
    (4092, 8),
    (4064, 33),
    (8000, 1),
    (8180, 127),
    (8192, 97),
]


def sectors(memory, address, size):
    line = line_bytes(memory, address, size)
    return [int.from_bytes(line[start : start + WIDTH], "little") for start in range(0, 128, WIDTH)]


def read(bench, memory, lines, *, probability=(0.0, 0.0), errors=None, places=None):
    request_stalls, sink_stalls = probability
    requests = [request for line in lines for request in bursts(*line)]
    reader = bench.component
    given = bench.source(
        reader.i,
        [
            {"address": address, "size": size, "place": place}
            for (address, size), place in zip(lines, places or [{}] * len(lines), strict=True)
        ],
        willing=stalls(request_stalls, 1),
    )
    asked = bench.sink(reader.request, len(requests), willing=stalls(sink_stalls, 2))
    came = bench.source(
        reader.beats,
        [beat for line in lines for beat in beats(memory, *line, errors=errors)],
        willing=stalls(request_stalls, 3),
    )
    return requests, given, asked, came


@pytest.fixture(scope="module")
def reader():
    return Bench(LineReader(CONFIG, 8))


@pytest.mark.parametrize("probability", STALLS)
def test_reader_gives_lines_from_any_element(reader, memory, probability):
    requests, _, asked, _ = read(reader, memory, LINES, probability=probability)
    out = reader.sink(reader.component.o, 4 * len(LINES), willing=stalls(probability[1], 4))
    ends = reader.sink(reader.component.end, len(LINES), willing=stalls(probability[1], 5))
    reader.run()
    assert [(r["address"], r["beats"] + 1) for r in asked.payloads] == requests
    got = [
        int.from_bytes(b"".join(e.to_bytes(4, "little") for e in s["elements"]), "little")
        for s in out.payloads
    ]
    assert got == [sector for line in LINES for sector in sectors(memory, *line)]
    assert all(BusError(end["error"]) is BusError.NONE for end in ends.payloads)


def test_aligned_lines_come_a_sector_per_cycle(reader, memory):
    lines = [(128 * index, 128) for index in range(20)]
    _, _, _, came = read(reader, memory, lines)
    out = reader.sink(reader.component.o, 80)
    reader.sink(reader.component.end, 20)
    reader.run()
    assert_no_bubble(out.cycles)
    assert out.cycles == [cycle + 1 for cycle in came.cycles]


def test_first_fault_of_a_line_is_told_with_the_number_of_its_beat(reader, memory):
    lines = [(0, 128), (132, 128), (4092, 8), (4224, 128)]
    errors = {
        160: BusError.SLVERR,
        192: BusError.DECERR,
        4096: BusError.DECERR,
        4224: BusError.FRAMING,
    }
    read(reader, memory, lines, errors=errors)
    reader.sink(reader.component.o, 16)
    ends = reader.sink(reader.component.end, 4)
    reader.run()
    told = [(BusError(f["error"]), f["beat"]) for f in ends.payloads]
    assert told[0][0] is BusError.NONE
    assert told[1:] == [
        (BusError.SLVERR, 1),
        (BusError.DECERR, 1),
        (BusError.FRAMING, 0),
    ]


@pytest.mark.parametrize("probability", STALLS)
def test_unit_compresses_lines_and_tells_their_checksums(memory, probability):
    """Lines of two jobs, of which the unit reads each third line."""
    lines = [(128 * index, 128) for index in range(12)] + LINES
    units, jobs = 3, (lines[:12], lines[12:])
    # The first job begins with another unit's line.
    places = [
        {
            "begins": job is jobs[1] and index == 0,
            "first": index == 0,
            "last": index == len(job) - 1,
        }
        for job in jobs
        for index in range(len(job))
    ]
    bench = Bench(CompressionUnit(CONFIG, 8, units))
    read(bench, memory, lines, probability=probability, places=places)
    streams = [codec("zvc").compress(_array(line_bytes(memory, *line))) for line in lines]
    counts = [max(1, -(-(stream.size - 4) // WIDTH)) for stream in streams]
    out = bench.sink(bench.component.o, sum(counts), willing=stalls(probability[1], 4))
    reports = bench.sink(bench.component.report, len(lines), willing=stalls(probability[1], 5))
    bench.run()
    stream = b""
    for beat in out.payloads:
        if beat["sol"]:
            stream += beat["mask"].to_bytes(4, "little")
        stream += b"".join(e.to_bytes(4, "little") for e in beat["elements"][: beat["count"]])
    assert stream == b"".join(s.tobytes() for s in streams)
    zeros = bytes(CONFIG.line_bytes)
    expected = []
    for number, job in enumerate(jobs):
        whole = [line for own in job for line in (line_bytes(memory, *own), zeros, zeros)]
        # A first line that is the unit's, or behind one that is not.
        ahead = 1 - number
        expected += unit_crcs([zeros] * ahead + whole, units)[ahead::units]
    assert [r["crc32"] for r in reports.payloads] == expected
    assert [r["line"]["last"] for r in reports.payloads] == [p["last"] for p in places]


def test_lines_of_one_sector_come_one_per_cycle_with_their_faults(memory):
    """A line's end waits for its CRC, and the next lines do not wait for either."""
    bench = Bench(CompressionUnit(CodecConfig(sector_bytes=128), 8))
    lines = 20
    contents = [memory[128 * i : 128 * (i + 1)] for i in range(lines)]
    bad = 7
    place = {"begins": 1, "first": 1}
    bench.source(
        bench.component.i,
        [{"address": 128 * i, "size": 128, "place": place} for i in range(lines)],
    )
    bench.sink(bench.component.request, lines)
    bench.source(
        bench.component.beats,
        [
            {
                "data": int.from_bytes(content, "little"),
                "error": (BusError.SLVERR if i == bad else BusError.NONE).value,
            }
            for i, content in enumerate(contents)
        ],
    )
    out = bench.sink(bench.component.o, lines)
    reports = bench.sink(bench.component.report, lines)
    bench.run()
    assert_no_bubble(out.cycles)
    assert_no_bubble(reports.cycles)
    assert [b["count"] for b in out.payloads] == [
        np.count_nonzero(np.frombuffer(content, np.uint32)) for content in contents
    ]
    assert [r["crc32"] ^ ONES for r in reports.payloads] == [
        crc32(_array(content)) for content in contents
    ]
    told = [(BusError(r["line"]["error"]), r["line"]["beat"]) for r in reports.payloads]
    assert told[bad] == (BusError.SLVERR, 0)
    assert {error for error, _ in told[:bad] + told[bad + 1 :]} == {BusError.NONE}


def test_dense_lines_are_not_compressed(memory):
    bench = Bench(CompressionUnit(CONFIG, 8))
    bench.source(bench.component.i, [{"address": 256, "size": 128, "codec": 1}])
    bench.sink(bench.component.request, 1)
    bench.source(bench.component.beats, list(beats(memory, 256, 128)))
    out = bench.sink(bench.component.o, 4)
    bench.sink(bench.component.report, 1)
    bench.run()
    data = b"".join(e.to_bytes(4, "little") for b in out.payloads for e in b["elements"])
    assert data == memory[256:384]
    assert [b["count"] for b in out.payloads] == [8] * 4


def _array(content):
    return np.frombuffer(content, np.uint8)


# ReadGuard: bursts of the lengths asked for, whatever RLAST does.


def guarded(lengths, responses, *, probability=(0.0, 0.0)):
    bench = Bench(ReadGuard(4, 16, 4))
    guard = bench.component
    requests = [{"address": 4 * i, "beats": n - 1, "owner": 0} for i, n in enumerate(lengths)]
    bench.source(guard.request, requests, willing=stalls(probability[0], 1))
    asked = bench.sink(guard.bus_request, len(lengths), willing=stalls(probability[1], 2))
    bench.source(guard.bus_response, responses, willing=stalls(probability[0], 3))
    out = bench.sink(guard.o, sum(lengths), willing=stalls(probability[1], 4))
    bench.run()
    assert asked.payloads == requests
    return [(beat["data"], BusError(beat["error"])) for beat in out.payloads]


def response(data, *, last=False, resp=0):
    return {"data": data, "last": int(last), "resp": resp}


@pytest.mark.parametrize("probability", STALLS)
def test_guard_lets_good_bursts_through(probability):
    lengths = [1, 4, 2, 1, 16]
    data = iter(range(100, 200))
    responses = [response(next(data), last=index == n - 1) for n in lengths for index in range(n)]
    assert guarded(lengths, responses, probability=probability) == [
        (r["data"], BusError.NONE) for r in responses
    ]


def test_guard_passes_error_responses_on():
    responses = [response(1, resp=2), response(2, resp=3), response(3, resp=1, last=True)]
    assert [error for _, error in guarded([3], responses)] == [
        BusError.SLVERR,
        BusError.DECERR,
        BusError.NONE,
    ]


def test_guard_makes_up_beats_that_an_early_last_took():
    responses = [response(1), response(2, last=True), response(9, last=True)]
    got = guarded([4, 1], responses)
    assert [error for _, error in got] == [
        BusError.NONE,
        BusError.FRAMING,
        BusError.FRAMING,
        BusError.FRAMING,
        BusError.NONE,
    ]
    assert got[4][0] == 9


def test_guard_drops_beats_behind_a_late_last():
    responses = [response(1), response(2), response(3), response(4, last=True)]
    responses += [response(9, last=True)]
    assert guarded([2, 1], responses) == [
        (1, BusError.NONE),
        (2, BusError.FRAMING),
        (9, BusError.NONE),
    ]


# Fifo


@pytest.mark.parametrize("depth", [1, 2, 5, 16])
@pytest.mark.parametrize("probability", STALLS)
def test_fifo_keeps_order(depth, probability):
    values = [random.Random(2).getrandbits(16) for _ in range(100)]
    bench = Bench(Fifo(16, depth))
    bench.source(bench.component.i, values, willing=stalls(probability[0], 1))
    taken = bench.sink(bench.component.o, len(values), willing=stalls(probability[1], 2))
    bench.run()
    assert taken.payloads == values


def test_fifo_delays_by_two_cycles_at_full_rate():
    bench = Bench(Fifo(16, 4))
    given = bench.source(bench.component.i, list(range(20)))
    taken = bench.sink(bench.component.o, 20)
    bench.run()
    assert_no_bubble(given.cycles)
    assert taken.cycles == [cycle + 2 for cycle in given.cycles]
