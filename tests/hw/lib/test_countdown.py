"""The countdowns, against a number that goes down."""

import random

import pytest
from amaranth.sim import Simulator

from cdma.hw.lib.countdown import Countdown, LateCountdown


@pytest.mark.parametrize("kind", [Countdown, LateCountdown])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8])
def test_flags_tell_what_is_left_of_any_count(kind, width):
    countdown = kind(width)
    rng = random.Random(width)

    async def body(ctx):
        for value in [*range(min(1 << width, 16)), (1 << width) - 1] * 3:
            ctx.set(countdown.load, 1)
            ctx.set(countdown.value, value)
            # A load comes before whatever else is asked for.
            ctx.set(countdown.two, rng.getrandbits(1))
            await ctx.tick()
            ctx.set(countdown.load, 0)
            left = value
            while True:
                assert ctx.get(countdown.is_over) == (left < 0)
                if left < 0:
                    break
                assert ctx.get(countdown.is_zero) == (left == 0)
                assert ctx.get(countdown.is_one) == (left == 1)
                if kind is LateCountdown:
                    assert ctx.get(countdown.is_two) == (left == 2)
                assert ctx.get(countdown.count) == left
                down = rng.randrange(3)
                ctx.set(countdown.one, down == 1)
                ctx.set(countdown.two, down == 2)
                await ctx.tick()
                left -= down
            ctx.set(countdown.one, 1)
            ctx.set(countdown.two, 0)
            await ctx.tick().repeat(3)
            assert ctx.get(countdown.is_over)

    simulator = Simulator(countdown)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
