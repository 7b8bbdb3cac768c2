"""Token buckets: the rate and the burst to the byte, and none of them at a rate of 0."""

import random

import pytest

from cdma.hw.config import EngineConfig
from cdma.hw.dma.outbound.throttle import TokenBucket
from tests.lib.simulator import Simulator

LINE = 128 * 256
"""Tokens of a line."""


def run(settings, cycles, seed):
    """Let lines through at random, as far as the bucket permits.

    `settings` are of rate and burst, by the cycle from which on they hold. Returns what was
    permitted and what passed, by the cycle.
    """
    bucket = TokenBucket(EngineConfig())
    rng = random.Random(seed)
    permitted: list[int] = []
    passed: list[int] = []

    async def body(ctx):
        for cycle in range(cycles):
            if cycle in settings:
                rate, burst = settings[cycle]
                ctx.set(bucket.rate, rate)
                ctx.set(bucket.burst, burst)
            await ctx.delay(1e-10)
            permitted.append(ctx.get(bucket.permits))
            passed.append(rng.randint(0, permitted[-1]))
            ctx.set(bucket.passed, passed[-1])
            await ctx.tick()

    simulator = Simulator(bucket)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    return permitted, passed


def most_of(burst):
    return max(2 * LINE, 256 * burst)


RATES = [1, 255, 4096, 30_000, LINE, 2 * LINE - 1, (1 << 20) - 1]
BURSTS = [0, 255, 256, 300, 5000, (1 << 20) - 1]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("burst", BURSTS)
def test_tokens_are_those_of_the_rate_up_to_the_burst(rate, burst):
    permitted, passed = run({0: (rate, burst)}, 400, seed=rate ^ burst)
    tokens = 0
    # The first cycle has no bound yet, and too few tokens to need one.
    for lines, taken in zip(permitted[1:], passed[1:], strict=True):
        tokens = min(tokens + rate, most_of(burst))
        assert lines == min(2, tokens // LINE)
        tokens -= taken * LINE


@pytest.mark.parametrize("seed", range(4))
def test_another_rate_or_burst_bounds_what_passes_from_the_next_cycle_on(seed):
    rng = random.Random(seed)
    changes = {
        at: (rng.choice(RATES), rng.choice([*BURSTS, 1000, 20_000])) for at in range(0, 600, 60)
    }
    _, passed = run(changes, 600, seed)
    for begin in changes:
        rate, burst = changes[begin]
        for first in range(begin + 3, begin + 60, 7):
            for last in range(first + 1, begin + 60, 5):
                bytes_passed = sum(passed[first:last]) * 128
                assert bytes_passed <= (last - first) * rate / 256 + most_of(burst) / 256


def test_bucket_without_a_rate_lets_everything_through():
    permitted, _ = run({0: (0, 0)}, 20, seed=1)
    assert permitted[1:] == [2] * 19
