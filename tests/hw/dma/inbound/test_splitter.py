"""Streams to lines for the units: every line with its command, wherever the stream ends."""

import random
from dataclasses import dataclass

import numpy as np
import pytest
from amaranth.hdl import Cat

from cdma.golden.formats.zvc import Zvc
from cdma.hw.codec.payloads import Truncation
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.inbound.splitter import LineSplitter
from tests.lib.rtl.bench import (
    STALLS,
    Bench,
    always,
    assert_no_bubble,
    every,
    from_cycle,
    offer,
    stalls,
)
from tests.lib.rtl.payloads import (
    beats_of,
    cut_line_beats,
    line_beats_of,
    line_with,
    mixed_packet,
    sparse,
)
from tests.lib.shares import configs
from tests.lib.simulator import Simulator

LINE = 128

SHAPES = [
    *((4, 32, 3, 2, w) for w in (1, 2)),
    (2, 32, 2, 2, 2),
    *((1, 32, 1, 2, w) for w in (1, 2)),
    *((4, 128, 6, 2, w) for w in (1, 2)),
    (4, 32, 3, 1, 1),
]
"""Element and sector bytes, units, lines per cycle, line beats of a chunk."""


def config_of(element_bytes, sector_bytes, units, split_lines, split_beats):
    return EngineConfig(
        codec=CodecConfig(element_bytes=element_bytes, sector_bytes=sector_bytes),
        host_bytes=sector_bytes,
        units=units,
        split_lines=split_lines,
        split_beats=split_beats,
    )


class Splitter(LineSplitter):
    """The splitter before units that check and write each line as soon as they have its command.

    A line at an address of `wrong` has an error in its stream, one of `refused` is not written.
    """

    def __init__(self, config, wrong=(), refused=()):
        self.wrong = wrong
        self.refused = refused
        super().__init__(config)

    def elaborate(self, platform):
        m = super().elaborate(platform)
        for k, command in enumerate(self.commands):
            fires = command.valid & command.ready
            for ended, failed, addresses in (
                (self.line_checked[k], self.line_wrong[k], self.wrong),
                (self.line_answered[k], self.line_refused[k], self.refused),
            ):
                is_one = Cat(command.payload.address == address for address in addresses).any()
                m.d.sync += [ended.eq(fires), failed.eq(fires & is_one)]
        return m


@pytest.fixture(
    scope="module",
    params=configs(
        {
            f"E{e}-S{s}-{units}-units-{lines}-per-cycle-in-{beats}": (e, s, units, lines, beats)
            for e, s, units, lines, beats in SHAPES
        },
        quick=[
            "E4-S32-3-units-2-per-cycle-in-1",
            "E4-S32-3-units-2-per-cycle-in-2",
            "E1-S32-1-units-2-per-cycle-in-2",
        ],
    ),
)
def bench(request):
    return Bench(Splitter(config_of(*request.param)))


@pytest.fixture
def config(bench):
    return bench.component.config


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job, and its packet: `content`'s stream, cut off or torn after `size` bytes, or longer."""

    content: bytes
    dst: int = 0x1000
    capacity: int = 1 << 32
    dense: bool = False
    first_unit: int = 0
    size: int | None = None
    framing_error: bool = False
    extra: bytes = b""

    def job(self, config):
        return {
            "dst": self.dst,
            "length": len(self.content),
            "capacity": self.capacity,
            "codec": self.dense,
            "first_unit": self.first_unit % config.units,
        }

    def stream(self, config):
        if self.dense:
            return self.content
        array = np.frombuffer(self.content, np.uint8)
        return Zvc(config.codec.element_bytes).compress(array).tobytes()

    def packet(self, config):
        return (self.stream(config) + self.extra)[: self.size]

    def beats(self, config):
        width = config.host_bytes
        if not self.framing_error:
            return beats_of(self.packet(config), width)
        beats = beats_of(self.stream(config), width)
        index, keep = divmod(self.size, width)
        beats[index] |= {"size": keep, "framing_error": 1}
        return beats

    def line_beats(self, config):
        stream = self.stream(config)
        size = len(stream) if self.size is None else min(self.size, len(stream))
        if self.dense:
            return dense_line_beats(config.codec, self.content, size)
        if size < len(stream):
            return cut_line_beats(config.codec, self.content, size)
        return line_beats_of(config.codec, self.content)

    def lines(self, config):
        """(unit, line beats, command) of each line."""
        lines = []
        for beat in self.line_beats(config):
            if beat.get("sol"):
                index = len(lines)
                size = min(LINE, len(self.content) - index * LINE)
                command = {
                    "address": self.dst + index * LINE,
                    "size": size,
                    "writable": min(size, max(0, self.capacity - index * LINE)),
                    "codec": self.dense,
                }
                lines.append(((self.first_unit + index) % config.units, [], command))
            lines[-1][1].append({**beat, "last": beat.get("eol", 0)})
        # Without a capacity, all are checked; otherwise none behind the first one that has no room.
        return lines[: self.capacity // LINE + 1] if self.capacity else lines

    def cut(self, config):
        """True if lines are left out."""
        return bool(self.capacity) and (self.capacity // LINE + 1) * LINE < len(self.content)


def dense_line_beats(codec, content, size):
    """Beats that the first `size` bytes of the content should give."""
    element, width = codec.element_bytes, codec.sector_bytes
    beats = []
    for start in range(0, len(content), width):
        # Whole elements, the last one filled up; what is there of them if the packet ends here.
        end = min(start + width, len(content))
        short = size < end
        there = content[start : max(start, size) // element * element if short else end]
        there += bytes(-len(there) % element)
        sol = start % LINE == 0
        line_end = min(start + LINE, len(content))
        beats.append(
            {
                "mask": (1 << -(-(line_end - start) // element)) - 1 if sol else 0,
                "elements": np.frombuffer(there, f"<u{element}").tolist(),
                "count": len(there) // element,
                "sol": sol,
                "eol": short or end % LINE == 0 or end == len(content),
                "last": short or end == len(content),
                "truncation": Truncation.PAYLOAD if short else Truncation.NONE,
            }
        )
        if short:
            break
    return beats


@dataclass
class Ends:
    packets: object
    lines: list
    commands: list


def split(bench, cases, *, source=always, lines=None, commands=None):
    """`lines` and `commands`: what the units are willing to take, by unit."""
    config = bench.component.config
    splitter = bench.component
    units = range(config.units)
    expected_lines = [[] for _ in units]
    expected_commands = [[] for _ in units]
    for case in cases:
        for unit, beats, command in case.lines(config):
            expected_lines[unit] += beats
            expected_commands[unit].append(command)
    packets = [case.packet(config) for case in cases]
    bench.source(splitter.job, [case.job(config) for case in cases])
    given = bench.source(
        splitter.i,
        [beat for case in cases for beat in case.beats(config)],
        willing=source,
    )
    line_sinks = [
        bench.sink(splitter.lines[k], len(expected_lines[k]), willing=lines(k) if lines else always)
        for k in units
    ]
    command_sinks = [
        bench.sink(
            splitter.commands[k],
            len(expected_commands[k]),
            willing=commands(k) if commands else always,
        )
        for k in units
    ]
    ends = bench.sink(splitter.ends, len(cases))
    tails = bench.sink(splitter.tail, len(cases))
    bench.run()
    for k in units:
        line_sinks[k].assert_received(expected_lines[k])
        command_sinks[k].assert_received(expected_commands[k])
    ends.assert_received(
        [{"lines": len(case.lines(config)), "cut": case.cut(config)} for case in cases]
    )
    for case, packet, tail in zip(cases, packets, tails.payloads, strict=True):
        assert (tail["size"], tail["framing_error"]) == (len(packet), case.framing_error)
        # After damage nothing says whether more bytes are trailing.
        if len(packet) >= len(case.stream(config)):
            assert tail["trailing"] == bool(case.extra)
    return Ends(given, line_sinks, command_sinks)


def some_cases(config, seed):
    """Jobs of both kinds, sizes from a byte on, that begin at any unit."""
    codec, generator = config.codec, random.Random(seed)
    sizes = [1, codec.element_bytes, codec.sector_bytes, LINE - 1, LINE, LINE + 1, 700, 1100]
    generator.shuffle(sizes)
    for index, size in enumerate(sizes):
        yield Case(
            content=mixed_packet(codec, 9, seed + index)[:size],
            dst=generator.randrange(1 << 20) * codec.element_bytes,
            dense=generator.random() < 0.4,
            first_unit=generator.randrange(config.units),
        )


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_every_line_goes_to_its_unit_with_its_command(bench, config, source, sink):
    for seed in range(2):
        split(
            bench,
            list(some_cases(config, seed)),
            source=stalls(source, seed),
            lines=lambda k, seed=seed: stalls(sink, 10 * seed + k),
            commands=lambda k, seed=seed: stalls(sink, 100 + 10 * seed + k),
        )


def test_line_that_has_begun_does_not_wait_for_its_command_to_be_taken(bench, config):
    content = line_with(config.codec, range(config.codec.elements))
    run = split(bench, [Case(content=content)], commands=lambda k: from_cycle(30))
    assert max(run.lines[0].cycles) < 30


@pytest.mark.parametrize("sink", [0.0, 0.5])
def test_short_lines_leave_in_any_order_that_units_take_them(bench, config, sink):
    # All that makes pairs of lines go together, one after the other, or not at all.
    counts = [random.Random(3).choice((0, 1, 2, 3, 7, 9)) for _ in range(60)]
    content = b"".join(line_with(config.codec, range(count)) for count in counts)
    cases = [Case(content=content[: LINE * n], first_unit=n) for n in (60, 1, 2, 3, 4)]
    split(bench, cases, lines=lambda k: stalls(sink, k), commands=lambda k: stalls(sink, 20 + k))


@pytest.mark.parametrize("dense", [False, True])
def test_capacity_is_shared_out_to_the_byte(bench, config, dense):
    content = sparse(config.codec, 4 * LINE - 7, 0.1, 3)
    capacities = (0, 1, 127, 128, 129, 255, 256, 300, 504, 505, 506, 1 << 39)
    split(bench, [Case(content=content, capacity=c, dense=dense) for c in capacities])


def test_addresses_of_the_top_of_memory(bench, config):
    content = sparse(config.codec, 3 * LINE, 0.1, 4)
    split(bench, [Case(content=content, dst=(1 << 40) - 3 * LINE, first_unit=config.units - 1)])


def test_compressed_stream_cut_anywhere_ends_in_a_damaged_line(bench, config):
    counts = (1, 0, 2, 40 // config.codec.element_bytes, 0, 3)
    content = b"".join(line_with(config.codec, range(count)) for count in counts)
    length = len(Case(content=content).stream(config))
    step = 1 + config.codec.mask_elements // 2
    cases = [Case(content=content, size=size, first_unit=size) for size in range(0, length, step)]
    split(bench, cases)


def test_dense_stream_cut_anywhere_ends_in_a_damaged_line(bench, config):
    content = line_with(config.codec, range(config.codec.elements)) * 3
    content = content[: 2 * LINE + 37]
    sizes = [*range(0, 70), *range(120, 135), *range(250, 2 * LINE + 37)]
    split(
        bench,
        [Case(content=content, size=size, dense=True, first_unit=size) for size in sizes],
    )


@pytest.mark.parametrize("dense", [False, True])
def test_bytes_behind_the_lines_are_trailing_and_drained(bench, config, dense):
    content = mixed_packet(config.codec, 3, 5)[: 2 * LINE + 9]
    cases = [
        Case(content=content, dense=dense, extra=b"\x55" * extra)
        for extra in (1, 0, config.codec.element_bytes, 0, 32, 0, 300, 0)
    ]
    split(bench, cases)


@pytest.mark.parametrize("dense", [False, True])
def test_packet_is_cut_at_its_hole(bench, config, dense):
    content = line_with(config.codec, range(config.codec.elements)) * 2
    whole = Case(content=content, dense=dense)
    cases = []
    for size in (0, 4, 5, config.host_bytes + 4, LINE, LINE + 30):
        cases += [Case(content=content, dense=dense, size=size, framing_error=True), whole]
    split(bench, cases)


# Rate


def ends_of_lines(run):
    """Cycles in which lines have left for their units."""
    return sorted(
        cycle
        for sink in run.lines
        for cycle, beat in zip(sink.cycles, sink.payloads, strict=True)
        if beat["eol"]
    )


def test_takes_a_beat_per_cycle(bench, config):
    codec = config.codec
    # Dense lines, and lines whose elements fill a beat.
    for dense, count in ((True, codec.elements), (False, codec.elements), (False, codec.lanes)):
        content = line_with(codec, range(count)) * 24
        run = split(bench, [Case(content=content, dense=dense)])
        assert_no_bubble(run.packets.cycles)


LINK_CYCLES = 2
"""Cycles per beat of 32 B: a link of 16 B per cycle."""


@pytest.fixture(scope="module")
def six_units():
    return Bench(Splitter(EngineConfig(units=6)))


@pytest.mark.parametrize("unit_cycles", [1, 4])
def test_ratio_12_at_16_bytes_per_cycle_is_split_at_the_rate_of_the_link(six_units, unit_cycles):
    config = six_units.component.config
    # 12.0 = 128 / (4 + 128 x 0.052)
    content = sparse(config.codec, 600 * LINE, 0.052, 6)
    case = Case(content=content)
    assert 11.8 < len(content) / len(case.stream(config)) < 12.2
    run = split(
        six_units,
        [case],
        source=every(LINK_CYCLES),
        # Units take a line in as many cycles as it has sectors.
        lines=lambda k: every(unit_cycles),
    )
    cycles = ends_of_lines(run)
    if unit_cycles == 1:
        # The link never waits, once the first beat has been taken.
        given = run.packets.cycles[1:]
        assert given == list(range(2, 2 + LINK_CYCLES * len(given), LINK_CYCLES))
        assert 600 / (cycles[-1] - cycles[0]) > 1.49
    else:
        # Six such units take no more than 1.5, and have no queues here.
        assert 600 / (cycles[-1] - cycles[0]) > 1.45


def test_ratio_7_at_16_bytes_per_cycle_needs_no_pairs():
    bench = Bench(Splitter(config_of(4, 32, 6, 1, 1)))
    content = sparse(bench.component.config.codec, 300 * LINE, 0.11, 6)
    run = split(bench, [Case(content=content)], source=every(LINK_CYCLES))
    given = run.packets.cycles[1:]
    assert given == list(range(2, 2 + LINK_CYCLES * len(given), LINK_CYCLES))


@pytest.mark.parametrize("dense", [False, True])
def test_line_comes_soon_after_its_beat_and_so_does_the_next_job(bench, config, dense):
    jobs = 10
    # Lengths that more than one element tells take a cycle more.
    latency = 1 if dense else 2 + (config.codec.mask_elements > 1)
    run = split(bench, [Case(content=bytes(4), dense=dense)] * jobs)
    given = run.packets.cycles
    assert ends_of_lines(run) == [cycle + latency for cycle in given]
    assert given == list(range(given[0], given[0] + (latency + 1) * jobs, latency + 1))


# What is told beside the lines


@pytest.mark.parametrize("beats", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_tells_of_every_line_and_of_hunger_and_no_line_comes_before_its_command(seed, beats):
    config = config_of(4, 32, 3, 2, beats)
    splitter = Splitter(config)
    content = sparse(config.codec, 90 * LINE, 0.06, 8)
    # What is behind the lines does not come in time.
    case = Case(content=content, extra=bytes(2 * config.host_bytes))
    packet = case.beats(config)[:-1]
    generator = random.Random(seed)

    async def body(ctx):
        told, cycle, sent = 0, 0, 0
        begun, commanded = [0] * config.units, [0] * config.units
        ctx.set(splitter.job.valid, 1)
        ctx.set(splitter.job.payload, case.job(config))
        await ctx.tick()
        ctx.set(splitter.job.valid, 0)
        ctx.set(splitter.ends.ready, 1)
        ctx.set(splitter.tail.ready, 1)
        offered = False
        while told < 90:
            assert cycle < 1000
            # Now and then nothing comes for a while.
            offered = sent < len(packet) and (offered or cycle % 40 >= 20)
            ctx.set(splitter.i.valid, offered)
            if offered:
                ctx.set(splitter.i.payload, packet[sent])
            for k in range(config.units):
                ctx.set(splitter.lines[k].ready, generator.random() < 0.8)
                ctx.set(splitter.commands[k].ready, generator.random() < 0.8)
            if cycle % 40 == 19:
                assert ctx.get(splitter.starved) == 1
            told += ctx.get(splitter.split)
            if ctx.get(splitter.split):
                assert ctx.get(splitter.starved) == 0
            for k in range(config.units):
                line, command = splitter.lines[k], splitter.commands[k]
                if ctx.get(line.valid):
                    assert begun[k] < commanded[k] + ctx.get(command.valid)
                if ctx.get(line.valid) and ctx.get(line.ready):
                    begun[k] += ctx.get(line.payload.eol)
                commanded[k] += ctx.get(command.valid) and ctx.get(command.ready)
            if offered and ctx.get(splitter.i.ready):
                sent, offered = sent + 1, False
            await ctx.tick()
            cycle += 1
        # All lines are out: there is nothing to be hungry for.
        for _ in range(10):
            await ctx.tick()
            assert ctx.get(splitter.starved) == 0
            assert ctx.get(splitter.split) == 0

    simulator = Simulator(splitter)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()


@pytest.mark.parametrize("beats", [1, 2])
@pytest.mark.parametrize("which", ["wrong", "refused"])
@pytest.mark.parametrize("line", [0, 3, 29])
def test_lines_behind_a_fault_are_dropped_and_the_next_job_is_whole(line, which, beats):
    config = config_of(4, 32, 3, 2, beats)
    cases = [
        Case(content=mixed_packet(config.codec, 30, 5)[: 30 * LINE], dst=0x4000),
        Case(content=mixed_packet(config.codec, 4, 6)[: 3 * LINE + 8], dst=0x9000),
    ]
    splitter = Splitter(config, **{which: (cases[0].dst + line * LINE,)})
    whole = [case.lines(config) for case in cases]
    sent, ends = [[] for _ in range(config.units)], []

    async def body(ctx):
        jobs = [case.job(config) for case in cases]
        packet = [beat for case in cases for beat in case.beats(config)]
        given = ((splitter.job, jobs), (splitter.i, packet))
        for stream in (splitter.ends, splitter.tail, *splitter.commands, *splitter.lines):
            ctx.set(stream.ready, 1)
        for _ in range(600):
            await offer(ctx, given)
            for k, command in enumerate(splitter.commands):
                if ctx.get(command.valid):
                    sent[k].append(ctx.get(command.payload.address))
            if ctx.get(splitter.ends.valid):
                end = ctx.get(splitter.ends.payload)
                ends.append((end.lines, end.cut))
            await ctx.tick()

    simulator = Simulator(splitter)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    first, second = ends
    assert second == (len(whole[1]), 0)
    assert line < first[0] <= min(len(whole[0]), line + 12)
    assert first[1] == (first[0] < len(whole[0]))
    for k, addresses in enumerate(sent):
        wanted = [
            command["address"]
            for lines in (whole[0][: first[0]], whole[1])
            for unit, _, command in lines
            if unit == k
        ]
        assert addresses == wanted
