"""Faults of items, among those of former jobs: each is told to its own job, or to none."""

import random

import pytest

from cdma.hw.dma.job_faults import JobFaultFilter
from tests.lib.simulator import Simulator

ITEMS = 20


@pytest.mark.parametrize("most", [1, 2, 16])
@pytest.mark.parametrize("begins", [0.05, 0.5])
def test_a_fault_is_told_to_the_job_that_asked_for_its_item(most, begins):
    faults = JobFaultFilter(ITEMS, most)
    rng = random.Random(most)
    told = []
    right = []

    async def body(ctx):
        job = 0
        items = []
        for _ in range(4000):
            starts = rng.random() < begins
            asked = min(rng.randint(0, most), ITEMS - len(items)) if rng.random() < 0.6 else 0
            failed = bool(items) and rng.random() < 0.2
            ended = bool(items) and rng.random() < 0.5
            ctx.set(faults.begins, starts)
            ctx.set(faults.asked, asked)
            ctx.set(faults.failed, failed)
            ctx.set(faults.ended, ended)
            # A job that is over in the same cycle has no use for it.
            right.append(failed and items[0] == job and not starts)
            await ctx.tick()
            told.append(bool(ctx.get(faults.own)))
            items = items[ended:] + [job] * asked
            job += starts

    simulator = Simulator(faults)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    assert told == right
    assert any(told) or begins > 0.1
