"""Issue of lines: in order, round the units, never without room, and ended by an abort."""

import random
from dataclasses import dataclass, field

import pytest

from cdma.hw.config import EngineConfig
from cdma.hw.dma.outbound.buffer import UnitBuffer
from cdma.hw.dma.outbound.issue import LineIssuer
from tests.lib.simulator import Simulator

LINE_BYTES = 128
SECTORS = 4
PLACE = ("begins", "first", "last")
STOP_CYCLES = 4
"""From the cycle in which a line leaves the issuer to the first one without another line of its
job, if it has a fault."""


def engine(units, lines_per_unit):
    return EngineConfig(units=units, buffer_bytes=units * lines_per_unit * LINE_BYTES)


@dataclass
class Trace:
    """Record of an issuer: per unit the lines, in all the ends, and the cycles of issue."""

    lines: list[list[dict]]
    ends: list[tuple[int, int]] = field(default_factory=list)
    issued: list[int] = field(default_factory=list)
    waits: dict[str, int] = field(default_factory=lambda: {"no_credit": 0, "throttled": 0})
    most_reserved: int = 0


def issue(
    config,
    jobs,
    *,
    seed=0,
    busy=0.0,
    permits=lambda rng: 2,
    hold=(1, 8),
    abort_at=None,
    stop_at=None,
    faults=(),
):
    """Run jobs to their ends. Units take lines unless `busy`; what a line reserved is given back in
    two parts, `hold` cycles after it was issued: what it did not need, and what it did. It has been
    read as soon as a unit has it; the bus answers lines at the addresses `faults` with errors."""
    issuer = LineIssuer(config)
    rng = random.Random(seed)
    trace = Trace(lines=[[] for _ in range(config.units)])

    async def body(ctx):
        queue = list(jobs)
        back: dict[int, list[int]] = {}
        reserved = [0] * config.units
        cycle = 0
        read = [(0, 0)] * config.units
        while len(trace.ends) < len(jobs) or any(ctx.get(output.valid) for output in issuer.o):
            assert cycle < 20_000, "the issuer hangs"
            freed = back.pop(cycle, [0] * config.units)
            for k in range(config.units):
                ctx.set(issuer.freed[k], freed[k])
                ctx.set(issuer.o[k].ready, int(rng.random() >= busy))
                ctx.set(issuer.line_ended[k], read[k][0])
                ctx.set(issuer.line_failed[k], read[k][1])
            read = [(0, 0)] * config.units
            ctx.set(issuer.stop, int(cycle == stop_at))
            ctx.set(issuer.permits, permits(rng))
            ctx.set(issuer.abort, int(abort_at is not None and cycle >= abort_at))
            ctx.set(issuer.i.valid, bool(queue))
            if queue:
                ctx.set(issuer.i.payload, queue[0])
            ctx.set(issuer.ends.ready, int(rng.random() >= busy))
            await ctx.delay(1e-10)
            count = ctx.get(issuer.issued)
            trace.issued.append(count)
            for name in trace.waits:
                trace.waits[name] += ctx.get(getattr(issuer, name))
            if queue and ctx.get(issuer.i.ready):
                queue.pop(0)
            if ctx.get(issuer.ends.valid) and ctx.get(issuer.ends.ready):
                end = ctx.get(issuer.ends.payload)
                trace.ends.append((end.lines, end.cut))
            for k, output in enumerate(issuer.o):
                if ctx.get(output.valid) and ctx.get(output.ready):
                    line = ctx.get(output.payload)
                    trace.lines[k].append(
                        {
                            "address": line.address,
                            "size": line.size,
                            "codec": line.codec,
                            "place": tuple(getattr(line.place, name) for name in PLACE),
                        }
                    )
                    read[k] = (1, int(line.address in faults))
                    reserved[k] += SECTORS
                    unused = rng.randrange(SECTORS)
                    for part in (unused, SECTORS - unused):
                        when = cycle + 1 + rng.randint(*hold)
                        while back.get(when, [0] * config.units)[k] + part > SECTORS:
                            when += 1
                        back.setdefault(when, [0] * config.units)[k] += part
                reserved[k] -= freed[k]
                trace.most_reserved = max(trace.most_reserved, reserved[k])
            await ctx.tick()
            cycle += 1

    simulator = Simulator(issuer)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    return trace


def expected_lines(config, jobs):
    lines = [[] for _ in range(config.units)]
    for job in jobs:
        unit = job["first_unit"]
        for index, start in enumerate(range(0, job["length"], LINE_BYTES)):
            size = min(LINE_BYTES, job["length"] - start)
            last = index + config.units >= count(job)
            lines[unit].append(
                {
                    "address": job["src"] + start,
                    "size": size,
                    "codec": job.get("codec", 0),
                    "place": (index == 0, index < config.units, last),
                }
            )
            unit = (unit + 1) % config.units
    return lines


def count(job):
    return -(-job["length"] // LINE_BYTES)


JOBS = [
    {"src": 0x1000, "length": 1, "first_unit": 0},
    {"src": 0x2004, "length": 128, "first_unit": 1, "codec": 1},
    {"src": 0x3000, "length": 129, "first_unit": 0},
    {"src": 0xFF_0000_0000, "length": 5000, "first_unit": 1},
    {"src": 0x4000, "length": 256, "first_unit": 1, "throttle_class": 1},
    {"src": 0x5000, "length": 1024, "first_unit": 0},
]


@pytest.mark.parametrize("units", [2, 3, 6])
@pytest.mark.parametrize("busy", [0.0, 0.5])
def test_lines_go_round_the_units_in_order(units, busy):
    config = engine(units, 4)
    trace = issue(config, JOBS, busy=busy, permits=lambda rng: rng.randint(0, 2))
    assert trace.lines == expected_lines(config, JOBS)
    assert trace.ends == [(count(job), 0) for job in JOBS]


def test_one_unit_is_enough():
    config = engine(1, 4)
    jobs = [{**job, "first_unit": 0} for job in JOBS]
    trace = issue(config, jobs)
    assert trace.lines == expected_lines(config, jobs)
    assert max(trace.issued) == 1


def test_two_lines_per_cycle_while_there_is_room():
    config = engine(6, 50)
    trace = issue(config, [{"src": 0, "length": 100 * LINE_BYTES, "first_unit": 0}])
    start = trace.issued.index(2)
    assert trace.issued[start : start + 50] == [2] * 50


@pytest.mark.parametrize("lines_per_unit", [2, 3, 10])
def test_no_line_is_issued_without_room_for_its_worst_case(lines_per_unit):
    config = engine(2, lines_per_unit)
    job = {"src": 0, "length": 200 * LINE_BYTES, "first_unit": 0}
    trace = issue(config, [job], hold=(20, 40))
    assert trace.lines == expected_lines(config, [job])
    assert trace.most_reserved <= config.unit_beats
    assert trace.most_reserved > config.unit_beats - SECTORS
    assert trace.waits["no_credit"] > 100


def test_throttle_limits_lines_and_is_blamed():
    config = engine(6, 50)
    job = {"src": 0, "length": 100 * LINE_BYTES, "first_unit": 0}
    trace = issue(config, [job], permits=lambda rng: int(rng.random() < 0.25))
    assert trace.lines == expected_lines(config, [job])
    assert max(trace.issued) == 1
    assert trace.waits["throttled"] > 200
    assert trace.waits["no_credit"] == 0


@pytest.mark.parametrize("abort_at", [0, 1, 2, 5, 9, 30])
def test_abort_ends_every_job_with_what_was_issued(abort_at):
    config = engine(2, 2)
    trace = issue(config, JOBS, abort_at=abort_at, hold=(5, 9))
    assert len(trace.ends) == len(JOBS)
    assert sum(lines for lines, _ in trace.ends) == sum(map(len, trace.lines))
    first_cut = [cut for _, cut in trace.ends].index(1)
    for job, (lines, cut) in zip(JOBS, trace.ends, strict=True):
        assert cut == (lines < count(job))
    whole = expected_lines(config, JOBS)
    for got, all_of_it in zip(trace.lines, whole, strict=True):
        assert got == all_of_it[: len(got)]
    assert all(lines == 0 for lines, _ in trace.ends[first_cut + 1 :])


def lines_of(trace, job):
    """The lines of a job that were issued, of whatever unit."""
    there = range(job["src"], job["src"] + job["length"])
    return sum(line["address"] in there for lines in trace.lines for line in lines)


@pytest.mark.parametrize("busy", [0.0, 0.6])
@pytest.mark.parametrize("line", [0, 1, 7, 38, 39])
def test_a_fault_ends_its_own_job_soon(line, busy):
    config = engine(3, 20)
    job = JOBS[3]
    trace = issue(config, JOBS, busy=busy, faults={job["src"] + line * LINE_BYTES}, hold=(3, 20))
    issued, cut = trace.ends[3]
    assert lines_of(trace, job) == issued >= line + 1
    # Two lines per cycle until it is known; those that wait for a unit do not count as read.
    if not busy:
        assert issued <= line + 1 + 2 * STOP_CYCLES
    assert cut == (issued < count(job))
    for other, end in zip(JOBS, trace.ends, strict=True):
        assert other is job or (end == (count(other), 0) and lines_of(trace, other) == count(other))


@pytest.mark.parametrize("which", range(len(JOBS)))
def test_a_fault_of_a_job_that_has_been_issued_concerns_no_other(which):
    """The last line's fault comes when the next job is being issued already."""
    config = engine(2, 20)
    job = JOBS[which]
    trace = issue(config, JOBS, faults={job["src"] + (count(job) - 1) * LINE_BYTES})
    assert trace.ends == [(count(job), 0) for job in JOBS]


def test_a_job_of_which_nothing_more_is_written_ends():
    config = engine(2, 20)
    trace = issue(config, [JOBS[3], JOBS[5]], stop_at=8)
    (issued, cut), other = trace.ends
    assert 0 < issued <= 2 * 8
    assert cut
    assert other == (count(JOBS[5]), 0)


@pytest.mark.parametrize("probability", [0.0, 0.5])
def test_unit_buffer_gives_back_as_much_as_was_reserved(probability):
    rng = random.Random(3)
    sizes = [rng.randint(1, SECTORS) for _ in range(30)]
    beats = [(k == size - 1) for size in sizes for k in range(size)]
    buffer = UnitBuffer(engine(1, 40))
    freed = []
    given = []

    async def body(ctx):
        left = list(enumerate(beats))
        taken = []
        while len(taken) < len(beats):
            offered = bool(left) and rng.random() >= probability
            ctx.set(buffer.i.valid, offered)
            if offered:
                index, eol = left[0]
                ctx.set(buffer.i.payload, {"mask": index, "eol": eol})
            ctx.set(buffer.o.ready, rng.random() >= probability)
            await ctx.delay(1e-10)
            freed.append(ctx.get(buffer.freed))
            if offered and ctx.get(buffer.i.ready):
                left.pop(0)
            if ctx.get(buffer.o.valid) and ctx.get(buffer.o.ready):
                taken.append(ctx.get(buffer.o.payload.mask))
            await ctx.tick()
        freed.append(ctx.get(buffer.freed))
        given.extend(taken)

    simulator = Simulator(buffer)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    assert given == list(range(len(beats)))
    assert sum(freed) == SECTORS * len(sizes)
