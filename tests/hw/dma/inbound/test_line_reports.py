"""The gather: the reports of all units, in the order of the transfer, as one outcome."""

import random
from itertools import pairwise

import numpy as np
import pytest

from cdma import golden
from cdma.golden import StreamStatus
from cdma.hw.bus.burst import BusError
from cdma.hw.codec.stream.checker import LineError
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.inbound.line_reports import LineReportCollector
from cdma.hw.lib.codes.gf2 import FORWARD, ONES, power, times
from tests.lib.rtl.bench import STALLS, Bench, stalls

LINE = 128
SHIFTED_ONES = times(power(FORWARD, LINE), ONES)
STEPS = 7
"""log2 of a line's bytes."""


@pytest.fixture(scope="module", params=[1, 2, 6])
def bench(request):
    return Bench(LineReportCollector(EngineConfig(units=request.param)))


@pytest.fixture
def units(bench):
    return bench.component.config.units


class Job:
    """Lines of random content. `line_errors`, `errors`: those of lines, by their number."""

    def __init__(self, length, first_unit=0, *, line_errors=None, errors=None, seed=0):
        rng = random.Random(seed)
        self.first_unit = first_unit
        self.content = rng.randbytes(length)
        self.tail_pad = -length % LINE
        line_errors, errors = line_errors or {}, errors or {}
        self.reports = []
        for number in range(-(-length // LINE)):
            piece = self.content[LINE * number : LINE * (number + 1)]
            line = np.frombuffer(piece.ljust(LINE, b"\0"), np.uint8)
            wrong = number in line_errors or number in errors
            self.reports.append(
                {
                    "line_error": line_errors.get(number, LineError.NONE),
                    "offset": rng.randrange(4, LINE + 5),
                    "size": rng.randrange(len(piece)) if wrong else len(piece),
                    "crc32": golden.crc32(line) ^ ONES ^ SHIFTED_ONES,
                    "error": errors.get(number, BusError.NONE),
                    "address": rng.getrandbits(40),
                }
            )

    @property
    def outcome(self):
        expected = {"line_error": LineError.NONE, "offset": 0, "size": 0, "error": BusError.NONE}
        stopped = False
        for report in self.reports:
            if expected["line_error"] == LineError.NONE:
                expected["offset"] += report["offset"]
                expected["line_error"] = report["line_error"]
            if not stopped:
                expected["size"] += report["size"]
            if report["error"] != BusError.NONE and expected["error"] == BusError.NONE:
                expected |= {"error": report["error"], "address": report["address"]}
            stopped |= report["line_error"] != LineError.NONE or report["error"] != BusError.NONE
        if expected["line_error"] == LineError.NONE:
            expected["crc32"] = golden.crc32(np.frombuffer(self.content, np.uint8))
        return expected


def gather(bench, jobs, *, probability=(0.0, 0.0)):
    """Checks the outcomes; returns the ends of the bench."""
    component = bench.component
    units = component.config.units
    bench.source(
        component.job,
        [{"first_unit": job.first_unit, "tail_pad": job.tail_pad} for job in jobs],
        willing=stalls(probability[0], 1),
    )
    ends = bench.source(
        component.ends,
        [{"lines": len(job.reports)} for job in jobs],
        willing=stalls(probability[0], 2),
    )
    queues = [[] for _ in range(units)]
    for number, job in enumerate(jobs):
        for index, report in enumerate(job.reports):
            queues[(job.first_unit + index) % units].append((number, report))

    def source(k):
        given = []
        chance = stalls(probability[0], 3 + k)

        def willing(cycle):
            number = queues[k][len(given[0].cycles)][0]
            return len(ends.cycles) + ends.offering >= number and chance(cycle)

        port = component.reports[k]
        given.append(bench.source(port, [report for _, report in queues[k]], willing=willing))
        return given[0]

    given = [source(k) for k in range(units)]
    outcomes = bench.sink(component.outcome, len(jobs), willing=stalls(probability[1], 20))
    bench.run()
    for job, outcome in zip(jobs, outcomes.payloads, strict=True):
        expected = job.outcome
        assert {name: outcome[name] for name in expected} == expected
    return given, ends, outcomes


def test_status_of_the_first_error_that_a_codec_has_found_is_told():
    codec = CodecConfig(element_bytes=1, codecs=("xc", "raw"))
    assert codec.locates_errors
    draw = random.Random(9)
    jobs, statuses = [], []
    for k in range(40):
        lines = draw.randint(1, 6)
        wrong = sorted(draw.sample(range(lines), draw.randint(0, min(2, lines))))
        job = Job(lines * LINE, k % 2, line_errors=dict.fromkeys(wrong, LineError.CODEC), seed=k)
        for report in job.reports:
            report["status"] = draw.choice(list(StreamStatus))
        jobs.append(job)
        statuses.append(job.reports[wrong[0]]["status"] if wrong else None)
    _, _, outcomes = gather(Bench(LineReportCollector(EngineConfig(codec=codec, units=2))), jobs)
    for status, outcome in zip(statuses, outcomes.payloads, strict=True):
        assert status is None or outcome["status"] == status


LENGTHS = [1, 127, 128, 129, 256, 1000, 1, 1280, 300]


@pytest.mark.parametrize("probability", STALLS)
def test_reports_of_right_lines_add_up(bench, units, probability):
    jobs = [Job(n, k % units, seed=k) for k, n in enumerate(LENGTHS)]
    gather(bench, jobs, probability=probability)


@pytest.mark.parametrize("probability", [STALLS[0], STALLS[3]])
def test_first_finding_and_first_error_are_told(bench, units, probability):
    rng = random.Random(3)
    found = [line_error for line_error in LineError if line_error != LineError.NONE]
    failed = [error for error in BusError if error != BusError.NONE]
    jobs = []
    for k in range(40):
        lines = rng.randrange(1, 9)
        line_errors = {n: rng.choice(found) for n in range(lines) if rng.random() < 0.2}
        errors = {n: rng.choice(failed) for n in range(lines) if rng.random() < 0.2}
        length = LINE * lines - rng.randrange(LINE)
        jobs.append(Job(length, k % units, line_errors=line_errors, errors=errors, seed=k))
    assert any(job.outcome["line_error"] == LineError.NONE for job in jobs)
    gather(bench, jobs, probability=probability)


def test_job_without_lines(bench):
    jobs = [Job(200), Job(0), Job(200, seed=1)]
    gather(bench, jobs)


def test_two_reports_per_cycle(bench, units):
    given, _, _ = gather(bench, [Job(60 * LINE)])
    cycles = sorted(cycle for source in given for cycle in source.cycles)
    assert cycles[-1] - cycles[0] == (59 if units == 1 else 29)


def test_latency_and_time_between_jobs(bench):
    given, ends, outcomes = gather(bench, [Job(2 * LINE, seed=k) for k in range(6)])
    last = max(cycle for source in given for cycle in source.cycles if cycle < ends.cycles[0])
    assert outcomes.cycles[0] == last + 2 + STEPS
    assert all(after - before == 2 + STEPS for before, after in pairwise(outcomes.cycles))
