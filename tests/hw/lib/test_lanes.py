"""Selection by one bit for each choice."""

import pytest
from amaranth.hdl import Const, Module, Signal
from amaranth.sim import Simulator

from cdma.hw.lib.lanes import selected


@pytest.mark.parametrize("values", [[5], [3, 0, 9], [1, 2, 4, 8, 15]])
def test_value_whose_bit_is_set_is_selected_and_zero_without_any(values):
    chosen, result = Signal(len(values)), Signal(4)
    m = Module()
    m.d.comb += result.eq(selected(chosen, [Const(value, 4) for value in values]))

    async def body(ctx):
        for place, value in enumerate(values):
            ctx.set(chosen, 1 << place)
            assert ctx.get(result) == value
        ctx.set(chosen, 0)
        assert ctx.get(result) == 0

    simulator = Simulator(m)
    simulator.add_testbench(body)
    simulator.run()
