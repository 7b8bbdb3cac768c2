"""Lines to memory: what is right is written where it belongs, what is wrong is told."""

import random
from itertools import pairwise

import numpy as np
import pytest

from cdma import golden
from cdma.golden import StreamStatus
from cdma.golden.formats.zvc import decode
from cdma.hw.bus.burst import BusError
from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.stream.checker import LineError
from cdma.hw.config import CodecConfig
from cdma.hw.dma.inbound.expansion import ExpansionUnit, PacketShifter
from cdma.hw.lib.codes.gf2 import FORWARD, power, times
from tests.lib.rtl.bench import STALLS, Bench, assert_no_bubble, stalls
from tests.lib.rtl.payloads import beats_of, config_id, sparse
from tests.lib.shares import configs, widths

CONFIGS = [
    CodecConfig(),
    CodecConfig(element_bytes=2),
    CodecConfig(element_bytes=1, sector_bytes=64),
    CodecConfig(sector_bytes=128),
    CodecConfig(sector_bytes=128, latency="fast"),
    CodecConfig(latency="fast"),
]
BURSTS = 8
LINE = 128

FINDINGS = {
    StreamStatus.OK: LineError.NONE,
    StreamStatus.MASK_TRUNCATED: LineError.MASK_MISSING,
    StreamStatus.PAYLOAD_TRUNCATED: LineError.ELEMENT_MISSING,
    StreamStatus.ZERO_ELEMENT: LineError.ELEMENT_ZERO,
    StreamStatus.NONZERO_FILL: LineError.FILL_NONZERO,
}


@pytest.fixture(
    scope="module",
    params=configs(
        {config_id(one): one for one in CONFIGS}, quick=["E4-S32", "E1-S64", "E4-S32-fast"]
    ),
)
def bench(request):
    return Bench(ExpansionUnit(request.param, BURSTS))


@pytest.fixture
def config(bench):
    return bench.component.config


class Line:
    """A line's stream, where it should go, and what must come of it."""

    def __init__(self, config, address, stream, size=LINE, *, writable=LINE, dense=False):
        self.config, self.address, self.dense = config, address, dense
        self.stream, self.size, self.writable = bytes(stream), size, min(writable, size)
        if dense:
            self.bytes = self.stream
            self.line_error = LineError.NONE if len(stream) == size else LineError.ELEMENT_MISSING
            self.offset = len(stream)
        else:
            array = np.frombuffer(self.stream, np.uint8)
            decoded = decode(array, size, config.element_bytes)
            self.bytes = decoded.data.tobytes()[: decoded.valid_bytes]
            self.line_error = FINDINGS[decoded.status]
            self.offset = len(stream) if decoded.status == StreamStatus.OK else decoded.offset

    @classmethod
    def of(cls, config, address, content, **options):
        """Make the case of a line's content."""
        stream = content
        if not options.get("dense"):
            array = np.frombuffer(content, np.uint8)
            stream = golden.codec("zvc", config.element_bytes).compress(array)
        return cls(config, address, stream, len(content), **options)

    @property
    def command(self):
        return {
            "address": self.address,
            "size": self.size,
            "writable": self.writable,
            "codec": self.dense,
        }

    @property
    def beats(self):
        """As they are split off the stream, which ends in this line if that is too short."""
        config = self.config
        if self.dense:
            mask = (1 << -(-self.size // config.element_bytes)) - 1
            content = self.stream + bytes(-len(self.stream) % config.element_bytes)
        else:
            mask = int.from_bytes(self.stream[: config.mask_bytes], "little")
            content = self.stream[config.mask_bytes :]
        if not self.dense and len(self.stream) < config.mask_bytes:
            return [{"sol": 1, "eol": 1, "last": 1, "truncation": Truncation.MASK}]
        left = mask.bit_count()
        count = len(content) // config.element_bytes
        elements = np.frombuffer(content, f"<u{config.element_bytes}", count).tolist()
        beats = []
        while True:
            wanted = min(left, config.lanes)
            group = elements[:wanted]
            elements = elements[wanted:]
            left -= wanted
            short = len(group) < wanted
            ends = short or not left
            beats.append(
                {
                    "mask": 0 if beats else mask,
                    "elements": group,
                    "count": len(group),
                    "sol": not beats,
                    "eol": ends,
                    "last": ends,
                    "truncation": Truncation.PAYLOAD if short else Truncation.NONE,
                }
            )
            if ends:
                return beats

    @property
    def written(self):
        return self.bytes[: self.writable]

    @property
    def bursts(self):
        """Address and beats."""
        width = self.config.sector_bytes
        start, end = self.address // width, -(-(self.address + len(self.written)) // width)
        if not self.written:
            return []
        cut = min((start // 8 + 1) * 8, end)
        pieces = [(start, cut), (cut, end)]
        return [(a * width, b - a) for a, b in pieces if b > a]

    def report(self, errors):
        """`errors`: of each burst."""
        size, error, address = len(self.bytes), BusError.NONE, None
        for (burst, _), answer in zip(self.bursts, errors, strict=True):
            if answer != BusError.NONE and error == BusError.NONE:
                size, error, address = max(burst - self.address, 0), answer, burst
        return {
            "line_error": self.line_error,
            "offset": self.offset,
            "size": size,
            "crc32": None if self.line_error != LineError.NONE else line_crc(self.bytes),
            "error": error,
            "address": address,
        }


def line_crc(content):
    """CRC of a line filled up with zeros, from a state of zero and without inversion."""
    crc = golden.crc32(np.frombuffer(content + bytes(LINE - len(content)), np.uint8))
    return crc ^ 0xFFFF_FFFF ^ times(power(FORWARD, LINE), 0xFFFF_FFFF)


def expand(bench, lines, *, probability=(0.0, 0.0), errors=None):
    """Errors: of bursts, by their number. Checks memory and reports."""
    unit = bench.component
    width = unit.config.sector_bytes
    bursts = [burst for line in lines for burst in line.bursts]
    answers = [(errors or {}).get(number, BusError.NONE) for number in range(len(bursts))]

    bench.source(unit.commands, [line.command for line in lines], willing=stalls(probability[0], 1))
    given = bench.source(
        unit.i, [beat for line in lines for beat in line.beats], willing=stalls(probability[0], 2)
    )
    requests = bench.sink(unit.request, len(bursts), willing=stalls(probability[1], 3))
    beats = bench.sink(
        unit.beats, sum(count for _, count in bursts), willing=stalls(probability[1], 4)
    )
    bench.source(unit.response, [a.value for a in answers], willing=stalls(probability[0], 5))
    reports = bench.sink(unit.report, len(lines), willing=stalls(probability[1], 6))
    bench.run()

    assert [(r["address"], r["beats"] + 1) for r in requests.payloads] == bursts
    memory = {}
    stream = iter(beats.payloads)
    for address, count in bursts:
        for index in range(count):
            beat = next(stream)
            assert beat["last"] == (index == count - 1)
            for lane in range(width):
                if beat["strobe"] >> lane & 1:
                    place = address + width * index + lane
                    assert place not in memory
                    memory[place] = beat["data"] >> 8 * lane & 0xFF
    wanted = {line.address + j: byte for line in lines for j, byte in enumerate(line.written)}
    assert memory == wanted

    answers = iter(answers)
    for line, report in zip(lines, reports.payloads, strict=True):
        expected = line.report([next(answers) for _ in line.bursts])
        # What is not told is anything.
        assert {name: report[name] for name, value in expected.items() if value is not None} == {
            name: value for name, value in expected.items() if value is not None
        }
    return given, requests, beats, reports


def content(config, seed, size=LINE, density=0.5):
    return sparse(config, size, density, seed)


def places(config, count, step=0x800):
    """Addresses at every kind of element offset, some before the end of a burst."""
    generator = random.Random(count)
    width = config.sector_bytes
    offsets = [0, config.element_bytes, width - config.element_bytes, 8 * width - 64]
    return [
        step * k + (offsets[k % 4] if k < 8 else generator.randrange(0, 512, config.element_bytes))
        for k in range(count)
    ]


@pytest.mark.parametrize("probability", STALLS)
def test_lines_land_where_they_belong(bench, config, probability):
    generator = random.Random(5)
    lines = []
    for k, address in enumerate(places(config, 24)):
        size = LINE if k % 3 else generator.randrange(1, LINE + 1)
        piece = content(config, k, size, generator.choice([0, 0.1, 0.5, 1]))
        writable = LINE if k % 4 else generator.randrange(0, LINE)
        lines.append(
            Line.of(config, address, piece, writable=writable, dense=generator.random() < 0.3)
        )
    expand(bench, lines, probability=probability)


@pytest.mark.parametrize("writable", [0, 1, 31, 32, 33, 127])
def test_no_byte_beyond_what_may_be_written(bench, config, writable):
    lines = [
        Line.of(config, address, content(config, k, density=1), writable=writable)
        for k, address in enumerate(places(config, 6))
    ]
    expand(bench, lines)


@pytest.mark.parametrize("probability", [STALLS[0], STALLS[3]])
def test_damaged_line_is_told_and_the_next_one_is_free_of_it(bench, config, probability):
    lines = []
    addresses = iter(places(config, 200))
    element_bytes = config.element_bytes
    for seed, density in enumerate((0.1, 0.6, 1)):
        good = Line.of(config, next(addresses), content(config, seed, density=density))
        size = len(good.stream)
        for cut in {0, 1, config.mask_bytes, config.mask_bytes + 1, size // 2, size - 1}:
            lines.append(Line(config, next(addresses), good.stream[:cut]))
            assert lines[-1].line_error != LineError.NONE or cut == size
            lines.append(Line.of(config, next(addresses), content(config, seed + cut)))
        for place in {0, (size - config.mask_bytes) // element_bytes - 1}:
            zeroed = bytearray(good.stream)
            start = config.mask_bytes + place * element_bytes
            zeroed[start : start + element_bytes] = bytes(element_bytes)
            lines.append(Line(config, next(addresses), zeroed))
            assert lines[-1].line_error == LineError.ELEMENT_ZERO
        dense = Line(config, next(addresses), content(config, seed)[: 32 * seed + 4], dense=True)
        assert dense.line_error == LineError.ELEMENT_MISSING
        lines.append(dense)
    full = Line.of(config, next(addresses), content(config, 9, density=1))
    for size in (1, 32, 33, 127):
        lines.append(Line(config, next(addresses), full.stream, size))
        assert lines[-1].line_error == LineError.FILL_NONZERO
        lines.append(Line.of(config, next(addresses), content(config, size)))
    expand(bench, lines, probability=probability)


def test_size_of_a_line_ends_before_the_burst_that_fails(bench, config):
    boundary = 8 * config.sector_bytes
    element = config.element_bytes
    addresses = [0, boundary - 32, boundary - element, boundary - 64 + element, 3 * element]
    lines = [
        Line.of(config, 0x1000 * k + address, content(config, k, density=0.8))
        for k, address in enumerate(addresses)
    ]
    count = sum(len(line.bursts) for line in lines)
    assert count > len(lines)
    for wrong in range(count):
        expand(bench, lines, errors={wrong: BusError.SLVERR})
    expand(bench, lines, errors=dict.fromkeys(range(count), BusError.TIMEOUT))


@pytest.mark.parametrize("aligned", [True, False])
def test_a_sector_per_cycle(bench, config, aligned):
    lead = 0 if aligned else config.element_bytes
    lines = [
        Line.of(config, LINE * k + lead, content(config, k, density=k % 3 / 2)) for k in range(24)
    ]
    _, _, beats, reports = expand(bench, lines)
    period = config.sectors + (not aligned)
    if period > 1:
        assert_no_bubble(beats.cycles)
    ends = reports.cycles
    assert all(after - before == max(2, period) for before, after in pairwise(ends))


def test_latency_to_the_request(bench, config):
    line = Line.of(config, 0, content(config, 1, density=0.01))
    given, requests, _, _ = expand(bench, [line])
    cycles = requests.cycles[0] - given.cycles[-1]
    assert cycles == bench.component.request_latency + config.sectors


@pytest.mark.parametrize("sector_bytes", widths(32, 64, 128, quick=[32]))
@pytest.mark.parametrize("codec", ["quantize", "xc"])
def test_a_sector_per_cycle_of_codecs_that_look_at_whole_lines(codec, sector_bytes):
    """Short lines are in the decompressor many at a time, and none waits for the one before."""
    config = CodecConfig(element_bytes=1, sector_bytes=sector_bytes, codecs=(codec, "raw"))
    bench = Bench(ExpansionUnit(config, BURSTS))
    unit, lines = bench.component, 40
    commands = [
        {"address": LINE * k, "size": LINE, "writable": LINE, "codec": 0, "parameters": 120}
        for k in range(lines)
    ]
    zeros = {"mask": 0, "count": 0, "sol": 1, "eol": 1, "last": 1, "truncation": Truncation.NONE}
    bench.source(unit.commands, commands)
    bench.source(unit.i, [zeros] * lines)
    bench.sink(unit.request, lines)
    beats = bench.sink(unit.beats, config.sectors * lines)
    bench.source(unit.response, [BusError.NONE.value] * lines)
    reports = bench.sink(unit.report, lines)
    bench.run()
    assert not any(beat["data"] for beat in beats.payloads)
    assert {report["status"] for report in reports.payloads} == {StreamStatus.OK}
    if config.sectors > 1:
        assert_no_bubble(beats.cycles)
    assert {b - a for a, b in pairwise(reports.cycles)} == {max(2, config.sectors)}


def test_shifter_puts_padding_before_packets_without_a_bubble():
    bench = Bench(PacketShifter(CONFIGS[0]))
    # Elements of padding, a packet's size, and the sizes of the beats that it becomes.
    cases = [
        (0, 32, [32]),
        (0, 64, [32, 32]),
        (3, 39, [32, 19]),
        (1, 32, [32, 4]),
        (7, 64, [32, 32, 28]),
        (7, 0, [28]),
        (0, 0, [0]),
        (2, 20, [28]),
    ]
    contents = [random.Random(k).randbytes(size) for k, (_, size, _) in enumerate(cases)]
    bench.source(bench.component.lead, [lead for lead, _, _ in cases])
    given = bench.source(bench.component.i, [b for piece in contents for b in beats_of(piece, 32)])
    out = bench.sink(bench.component.o, sum(len(sizes) for _, _, sizes in cases))
    bench.run()
    assert_no_bubble(out.cycles)
    assert out.cycles[0] == given.cycles[0] + 1
    beats = iter(out.payloads)
    for (lead, _, sizes), piece in zip(cases, contents, strict=True):
        mine = [next(beats) for _ in sizes]
        assert [beat["size"] for beat in mine] == sizes
        assert [beat["last"] for beat in mine] == [0] * (len(sizes) - 1) + [1]
        joined = b"".join(beat["data"].to_bytes(32, "little")[: beat["size"]] for beat in mine)
        assert joined[4 * lead :] == piece
