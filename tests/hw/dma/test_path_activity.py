"""A path's clock goes on while a job is offered or in the path, and for a while behind."""

import random

import pytest

from cdma.hw.config import preset
from cdma.hw.dma.path_activity import LINGER_CYCLES, PathActivity
from tests.lib.simulator import Simulator

CONFIG = preset("tiny")
MOST = 2 * CONFIG.transfers


def enables(cycles: list[tuple[int, int, int]]) -> list[bool]:
    """`enable` in each cycle, of its `job_valid`, `job_fire` and `outcome_fire`."""
    activity = PathActivity(CONFIG)
    found = []

    async def body(ctx):
        for offered, accepted, answered in cycles:
            ctx.set(activity.job_valid, offered)
            ctx.set(activity.job_fire, accepted)
            ctx.set(activity.outcome_fire, answered)
            found.append(bool(ctx.get(activity.enable)))
            await ctx.tick()

    simulator = Simulator(activity)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    return found


IDLE = (0, 0, 0)


def test_clock_goes_on_for_a_while_behind_power_up_and_then_stops():
    assert enables([IDLE] * 100) == [cycle < LINGER_CYCLES for cycle in range(100)]


def test_job_that_is_offered_has_the_clock_at_once():
    found = enables([IDLE] * 50 + [(1, 0, 0)] * 3 + [IDLE] * 50)
    assert [cycle for cycle, enable in enumerate(found) if enable][LINGER_CYCLES:] == list(
        range(50, 53 + LINGER_CYCLES)
    )


@pytest.mark.parametrize("jobs", [1, 2, MOST])
def test_clock_goes_on_until_the_last_outcome(jobs):
    begin = [(1, 1, 0)] * jobs + [IDLE] * 100
    end = [(0, 0, 1)] * jobs
    found = enables(begin + end + [IDLE] * 100)
    last = len(begin) + jobs - 1
    assert all(found[: last + 1 + LINGER_CYCLES])
    assert not any(found[last + 1 + LINGER_CYCLES :])


def test_clock_runs_exactly_while_there_is_a_reason():
    rng = random.Random(5)
    cycles, reasons, jobs, linger = [], [], 0, LINGER_CYCLES
    for _ in range(5000):
        offered = rng.random() < 0.03
        accepted = offered and jobs < MOST and rng.random() < 0.7
        answered = jobs > 0 and rng.random() < 0.05
        cycles.append((int(offered), int(accepted), int(answered)))
        busy = offered or jobs > 0
        reasons.append(busy or linger > 0)
        linger = LINGER_CYCLES if busy else max(0, linger - 1)
        jobs += accepted - answered
    assert enables(cycles) == reasons
    assert not all(reasons)
