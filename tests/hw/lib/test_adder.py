"""Sums are those of arithmetic, whatever the widths."""

import itertools
import random

import pytest
from amaranth.hdl import Module, Signal

from cdma.hw.lib.adder import add
from tests.lib.simulator import Simulator


@pytest.mark.parametrize(("width_a", "width_b"), [(1, 1), (4, 4), (5, 2), (64, 64), (64, 40)])
def test_sum_is_exact(width_a, width_b):
    m = Module()
    a, b = Signal(width_a), Signal(width_b)
    total = add(m, a, b, name="total")
    assert len(total) == max(width_a, width_b) + 1
    generator = random.Random(width_a)
    ends = [(1 << width_a) - 1, 1 << (width_a - 1), 0]
    if width_a + width_b <= 8:
        cases = list(itertools.product(range(1 << width_a), range(1 << width_b)))
    else:
        cases = [(x, y) for x in ends for y in (0, 1, (1 << width_b) - 1)]
        cases += [
            (generator.getrandbits(width_a), generator.getrandbits(width_b)) for _ in range(300)
        ]

    async def compare(ctx):
        for x, y in cases:
            ctx.set(a, x)
            ctx.set(b, y)
            assert ctx.get(total) == x + y, (x, y)

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()
