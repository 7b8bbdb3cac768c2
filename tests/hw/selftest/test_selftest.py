"""The parts of the self-test: its data, its stalls, what it compares and what it writes."""

from collections import Counter

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

import cdma.hw.selftest.loop as loop_module
from cdma.golden import StreamStatus, codec
from cdma.golden.formats.zvc import decode
from cdma.hw.bus.axi import AxiStreamSignature
from cdma.hw.config import PRESETS, CodecConfig, ConfigError
from cdma.hw.lib.beat import Beat
from cdma.hw.selftest.comparator import BeatComparator, StreamMeter
from cdma.hw.selftest.config import SelfTestConfig
from cdma.hw.selftest.gate import StallGate
from cdma.hw.selftest.generator import SectorGenerator
from cdma.hw.selftest.plan import RoundPlanner
from cdma.hw.selftest.report import RoundReporter, RoundResult
from cdma.hw.selftest.uart import UartTransmitter
from tests.hw.selftest.model import (
    STALLED_EIGHTHS,
    RoundReport,
    data_of,
    expected,
    narrow_compressed,
    narrow_decompressed,
    seed_of,
    stalls_of,
)
from tests.lib.rtl.bench import Bench, FlatPort, always, every, stalls
from tests.lib.rtl.payloads import config_id
from tests.lib.simulator import Simulator

TINY = PRESETS["tiny"].codec
CONFIGS = [TINY, CodecConfig(), CodecConfig(element_bytes=2, sector_bytes=64)]


class Rounds(wiring.Component):
    """A generator that is started for one round after the other."""

    def __init__(self, config: CodecConfig, lines: int, rounds: int) -> None:
        self.config = config
        self.lines = lines
        self.rounds = rounds
        super().__init__({"o": Out(stream.Signature(Beat(config.sector_bytes)))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.planner = planner = RoundPlanner()
        m.submodules.generator = generator = SectorGenerator(self.config, self.lines)
        wiring.connect(m, generator.o, wiring.flipped(self.o))
        starts = Signal(init=1)
        ends = self.o.valid & self.o.ready & self.o.payload.last
        m.d.sync += starts.eq(ends & (planner.round != self.rounds - 1))
        m.d.comb += [
            generator.start.eq(starts),
            generator.plan.eq(planner.plan),
            planner.next.eq(ends),
        ]
        return m


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_generator_makes_the_data_that_the_page_describes(config):
    # A ramp takes 17 lines to come round.
    lines, rounds = 20, 16
    bench = Bench(Rounds(config, lines, rounds))
    count = lines * config.sectors
    sink = bench.sink(bench.component.o, rounds * count, willing=stalls(0.2, 1))
    bench.run()
    beats = sink.payloads
    for number in range(rounds):
        packet = beats[number * count : (number + 1) * count]
        data = b"".join(beat["data"].to_bytes(config.sector_bytes, "little") for beat in packet)
        assert data == data_of(config, lines, number).tobytes(), f"round {number}"
        assert {beat["size"] for beat in packet} == {config.sector_bytes}
        assert [beat["last"] for beat in packet] == [0] * (count - 1) + [1]


def test_rounds_have_the_densities_that_they_should():
    config, lines = CodecConfig(), 256
    for number, sixteenths in enumerate((0, 16, 6, 1, 15, 10, 3, 8)):
        elements = data_of(config, lines, number).view("<u4")
        assert np.mean(elements != 0) == pytest.approx(sixteenths / 16, abs=0.02)
        one_hot = data_of(config, lines, number + 8).view("<u4")
        assert np.mean(one_hot != 0) == pytest.approx(sixteenths / 16, abs=0.02)
        assert set(np.bitwise_count(one_hot).tolist()) <= {0, 1}
        assert number == 0 or len(set(one_hot.tolist()) - {0}) == 32
    seeds = [seed_of(number) for number in range(64)]
    assert len(set(seeds)) == 64
    assert 0 not in seeds


def test_64_rounds_have_every_density_with_every_kind_of_element_and_all_stalls():
    seen = {(n % 8, n >> 3 & 1, stalls_of(n)) for n in range(64)}
    assert len(seen) == 8 * 2 * 4


def test_narrow_lines_of_the_model_are_as_golden_ones_are():
    config = CodecConfig()
    data = data_of(config, 24, 7)
    stream = codec("zvc").compress(data)
    assert narrow_compressed(config, data).tobytes() == stream.tobytes()
    statuses = Counter()
    for cut in range(0, len(stream), 17):
        flipped, zeroed = stream.copy(), stream.copy()
        flipped[cut] ^= 1 << cut % 8
        zeroed[cut : cut + 8] = 0
        for damaged in (stream[:cut], flipped, zeroed, np.append(stream, flipped[:1])):
            decoded = decode(damaged, len(data), 4)
            status, out = narrow_decompressed(config, damaged, len(data))
            assert (status, out) == (decoded.status, decoded.data.tobytes())
            statuses[decoded.status] += 1
    assert set(statuses) == {
        StreamStatus.OK,
        StreamStatus.MASK_TRUNCATED,
        StreamStatus.PAYLOAD_TRUNCATED,
        StreamStatus.TRAILING_BYTES,
        StreamStatus.ZERO_ELEMENT,
    }


def test_a_fault_is_an_error_in_every_round_of_the_model():
    for config in (TINY, CodecConfig()):
        for number in range(16):
            told = expected(config, 16, number, 0, fault=True)
            assert (told.errors > 0, told.verdict) == (True, "FAIL")


def simulate(component, testbench):
    simulator = Simulator(component)
    simulator.add_clock(1e-9)
    simulator.add_testbench(testbench)
    simulator.run()


def test_planner_goes_through_seeds_densities_elements_and_stalls():
    planner = RoundPlanner()

    async def run(ctx):
        ctx.set(planner.next, 1)
        for number in range(70):
            plan = ctx.get(planner.plan)
            ramp = number % 8 == 7
            density = 0 if ramp else (0, 16, 6, 1, 15, 10, 3)[number % 8]
            assert ctx.get(planner.round) == number
            assert (plan.seed, plan.density, plan.ramp) == (seed_of(number), density, ramp)
            assert (plan.one_hot, plan.stalls) == (number >> 3 & 1, stalls_of(number))
            await ctx.tick()
        ctx.set(planner.next, 0)
        await ctx.tick().repeat(3)
        assert ctx.get(planner.round) == 70

    simulate(planner, run)


class Lying(wiring.Component):
    """A codec half that tells something else than the truth in its status."""

    def __init__(self, honest, field):
        self.honest = honest
        self.field = field
        super().__init__(honest.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.honest = honest = self.honest
        for name in ("s_cmd", "s_axis"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(honest, name))
        for name in ("m_axis", "m_sts"):
            wiring.connect(m, getattr(honest, name), wiring.flipped(getattr(self, name)))
        told = getattr(self.m_sts, self.field)
        m.d.comb += told.eq(getattr(honest.m_sts, self.field) ^ 1)
        return m


@pytest.mark.parametrize(
    ("half", "field", "check"),
    [
        (None, None, None),
        ("ZvcCompressorAxis", "status", "compressor"),
        ("ZvcCompressorAxis", "offset", "compressor"),
        ("ZvcCompressorAxis", "out_size", "size"),
        ("ZvcCompressorAxis", "crc32", "crc32"),
        ("ZvcDecompressorAxis", "status", "decompressor"),
        ("ZvcDecompressorAxis", "out_size", "decompressor"),
    ],
)
def test_each_check_fails_by_itself_if_the_codec_lies(monkeypatch, half, field, check):
    if half is not None:
        honest = getattr(loop_module, half)
        monkeypatch.setattr(loop_module, half, lambda config: Lying(honest(config), field))
    loop = loop_module.CodecLoop(SelfTestConfig(codec=TINY, clock_hz=25e6, lines=4))

    async def run(ctx):
        ctx.set(loop.plan.seed, seed_of(4))
        ctx.set(loop.plan.density, 15)
        ctx.set(loop.start, 1)
        await ctx.tick()
        ctx.set(loop.start, 0)
        for _ in range(200):
            await ctx.tick()
            if ctx.get(loop.done):
                break
        else:
            raise AssertionError("never done")
        checks = ctx.get(loop.checks)
        failed = {
            name
            for name in ("compressor", "decompressor", "crc32", "size")
            if getattr(checks, name)
        }
        assert failed == ({check} if check else set())
        assert (ctx.get(loop.wrong), ctx.get(loop.sectors)) == (0, 8)
        # 4 masks, and the elements that are not zero.
        assert ctx.get(loop.compressed) == len(narrow_compressed(TINY, data_of(TINY, 4, 4)))

    simulate(loop, run)


class HalfStalled(wiring.Component):
    """A gate that is closed in half of the cycles."""

    def __init__(self) -> None:
        port = AxiStreamSignature(4)
        super().__init__({"i": In(port), "o": Out(port)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.gate = gate = StallGate(4, 0x1D2B)
        wiring.connect(m, wiring.flipped(self.i), gate.i)
        wiring.connect(m, gate.o, wiring.flipped(self.o))
        m.d.comb += gate.stalls.eq(2)
        return m


@pytest.mark.parametrize(("level", "eighths"), list(enumerate(STALLED_EIGHTHS)))
def test_gate_stalls_as_often_as_it_should(level, eighths):
    component = StallGate(4, 0xACE1)
    cycles = 4000

    async def run(ctx):
        ctx.set(component.stalls, level)
        ctx.set(component.i.tvalid, 1)
        ctx.set(component.o.tready, 1)
        await ctx.tick()
        passed = 0
        longest = gap = 0
        for _ in range(cycles):
            passes = ctx.get(component.o.tvalid)
            assert ctx.get(component.i.tready) == passes
            passed += passes
            gap = 0 if passes else gap + 1
            longest = max(longest, gap)
            await ctx.tick()
        assert passed / cycles == pytest.approx(1 - eighths / 8, abs=0.02)
        # The watchdog waits for longer.
        assert longest < 200

    simulate(component, run)


def test_gate_loses_and_changes_nothing():
    bench = Bench(HalfStalled())
    component = bench.component
    beats = [{"tdata": n * 0x01010101, "tkeep": 15, "tlast": n % 5 == 0} for n in range(200)]
    bench.source(FlatPort.axis(component.i), beats, willing=stalls(0.3, 1))
    sink = bench.sink(FlatPort.axis(component.o), len(beats), willing=stalls(0.3, 2))
    bench.run()
    sink.assert_received(beats)


def test_closed_gate_keeps_what_it_offers_and_takes_nothing_new():
    component = StallGate(4, 0x1D2B)

    async def run(ctx):
        ctx.set(component.i.tvalid, 1)
        await ctx.tick()
        assert ctx.get(component.o.tvalid)
        ctx.set(component.closed, 1)
        for _ in range(5):
            await ctx.tick()
            assert ctx.get(component.o.tvalid), "an offer was withdrawn"
        ctx.set(component.o.tready, 1)
        await ctx.tick()
        for _ in range(50):
            assert not ctx.get(component.o.tvalid)
            assert not ctx.get(component.i.tready)
            await ctx.tick()

    simulate(component, run)


WIDTH = 4


class Compared:
    """A comparator with what it should get and what it gets; `wrong` is what it has counted."""

    def __init__(self, should, gets):
        self.component = BeatComparator(CodecConfig(element_bytes=1, sector_bytes=4, line_bytes=8))
        self.should, self.gets = should, gets
        self.wrong = self.took = 0
        simulate(self.component, self.run)

    async def run(self, ctx):
        component = self.component
        ctx.set(component.start, 1)
        await ctx.tick()
        ctx.set(component.start, 0)
        should, gets = list(self.should), list(self.gets)
        for _ in range(len(should) + len(gets) + 8):
            ctx.set(component.expected.valid, bool(should))
            ctx.set(component.i.tvalid, bool(gets))
            if should:
                ctx.set(component.expected.payload.data, should[0])
            if gets:
                data, keep, last = gets[0]
                ctx.set(component.i.tdata, data)
                ctx.set(component.i.tkeep, keep)
                ctx.set(component.i.tlast, last)
            taken = ctx.get(component.i.tready) and bool(gets)
            self.took += ctx.get(component.took)
            if ctx.get(component.expected.ready) and should:
                should.pop(0)
            if taken:
                gets.pop(0)
            if ctx.get(component.done):
                assert not should
                assert not gets
                break
            await ctx.tick()
        else:
            raise AssertionError("never done")
        self.wrong = ctx.get(component.wrong)
        await ctx.tick()
        assert ctx.get(component.wrong) == self.wrong, "done came too early"


def packet(values):
    return [(value, 15, index == len(values) - 1) for index, value in enumerate(values)]


def test_comparator_finds_each_bit():
    should = [0x01234567, 0, 0xFFFFFFFF, 0x89ABCDEF]
    assert Compared(should, packet(should)).wrong == 0
    for bit in range(8 * WIDTH):
        wrong = [should[0], should[1] ^ 1 << bit, should[2], should[3] ^ 1 << bit]
        compared = Compared(should, packet(wrong))
        assert (compared.wrong, compared.took) == (2, 4), f"bit {bit}"


def test_comparator_counts_what_is_missing_partial_or_too_much():
    should = [1, 2, 3, 4, 5]
    assert Compared(should, packet(should[:2])).wrong == 3
    # Ends in a beat of fewer bytes, or of none.
    assert Compared(should, [(1, 15, 0), (2, 7, 1)]).wrong == 4
    assert Compared(should, [(1, 15, 0), (2, 15, 0), (0, 0, 1)]).wrong == 3
    long = Compared(should, packet([*should, should[-1], should[-1]]))
    assert (long.wrong, long.took) == (2, 5)


def test_meter_counts_bytes_kept_of_beats_that_pass():
    component = StreamMeter(4)

    async def run(ctx):
        total = 0
        for passes, keep in ((1, 15), (0, 15), (1, 15), (1, 7), (1, 0), (0, 1)):
            ctx.set(component.passes, passes)
            ctx.set(component.tkeep, keep)
            total += passes * keep.bit_count()
            await ctx.tick()
        ctx.set(component.passes, 0)
        await ctx.tick()
        assert ctx.get(component.count) == total
        ctx.set(component.start, 1)
        await ctx.tick()
        assert ctx.get(component.count) == 0

    simulate(component, run)


def record(**more):
    fields = {
        "round": 0x12,
        "lines": 0x1000,
        "in": 0x80000,
        "out": 0x31C40,
        "cycles": 0xDEADBEEF,
        "errors": 0,
        "status": 0x09,
        "verdict": RoundResult.PASS,
    }
    return {**fields, **more}


def test_reporter_writes_a_line_for_each_record():
    records = [
        record(),
        record(round=0x13, errors=0xA, verdict=RoundResult.FAIL),
        record(round=0xFFFFFFFF, status=0x60, verdict=RoundResult.TIMEOUT),
    ]
    lines = [
        "round 00000012 lines 00001000 in 00080000 out 00031c40 cycles deadbeef errors 00000000 "
        "status 09 PASS",
        "round 00000013 lines 00001000 in 00080000 out 00031c40 cycles deadbeef errors 0000000a "
        "status 09 FAIL",
        "round ffffffff lines 00001000 in 00080000 out 00031c40 cycles deadbeef errors 00000000 "
        "status 60 TIMEOUT",
    ]
    text = "".join(f"{line}\r\n" for line in lines).encode()
    bench = Bench(RoundReporter())
    for sink_pace in (always, every(3)):
        bench.source(bench.component.i, records)
        sink = bench.sink(bench.component.o, len(text), willing=sink_pace)
        bench.run()
        assert bytes(sink.received) == text
    assert [RoundReport.parse(line).verdict for line in lines] == ["PASS", "FAIL", "TIMEOUT"]


@pytest.mark.parametrize("bit_cycles", [2, 3, 27])
def test_uart_sends_frames_of_ten_bits_without_gaps(bit_cycles):
    component = UartTransmitter(bit_cycles)
    sent = [0x55, 0x00, 0xFF, 0xA3]

    async def run(ctx):
        for _ in range(3):
            assert ctx.get(component.tx) == 1
            await ctx.tick()
        waiting = list(sent)
        levels = []
        for _ in range((10 * len(sent) + 3) * bit_cycles):
            ctx.set(component.i.valid, bool(waiting))
            if waiting:
                ctx.set(component.i.payload, waiting[0])
                if ctx.get(component.i.ready):
                    waiting.pop(0)
            await ctx.tick()
            levels.append(ctx.get(component.tx))
        bits = []
        for byte in sent:
            bits += [0, *(byte >> k & 1 for k in range(8)), 1]
        bits += [1] * 3
        assert levels == [bit for bit in bits for _ in range(bit_cycles)]

    simulate(component, run)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lines": 7}, "lines must be 8 to 33554431, not 7"),
        ({"lines": 1 << 25}, "lines must be 8 to 33554431, not 33554432"),
        ({"watchdog_cycles": 1000}, "watchdog_cycles must be at least 1024, not 1000"),
        ({"baud": 0}, "baud must be positive, not 0"),
        ({"baud": 13_000_000}, "baud must be at most half of clock_hz and divide it within 2%, "),
        ({"baud": 10_000_000}, "not 10000000 for 2.5e\\+07 Hz"),
    ],
)
def test_config_that_cannot_be_is_told(fields, message):
    with pytest.raises(ConfigError, match=message):
        SelfTestConfig(**{"codec": CodecConfig(), "clock_hz": 25e6, **fields})


@pytest.mark.parametrize("clock_hz", [25e6, 48e6, 50e6, 100e6])
def test_clocks_of_boards_give_the_baud_rate(clock_hz):
    config = SelfTestConfig(codec=CodecConfig(), clock_hz=clock_hz)
    assert clock_hz / config.bit_cycles == pytest.approx(115_200, rel=0.002)
    assert (config.length, config.sectors) == (524_288, 16_384)
