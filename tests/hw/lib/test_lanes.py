"""Selection by one bit for each choice; rows gathered from lanes, and scattered again."""

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal

from cdma.hw.lib.lanes import gather, ones_before, scatter, selected, swaps
from tests.lib.simulator import Simulator


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


@pytest.mark.parametrize(("lanes", "from_first"), [(8, False), (8, True), (4, False), (2, True)])
def test_present_lanes_are_gathered_in_a_row_and_scattered_back(lanes, from_first):
    present, start = Signal(lanes), Signal(range(lanes))
    m = Module()
    elements = [Mux(present[i], Const(i + 1, 4), 0) for i in range(lanes)]
    ones, count = ones_before(m, present, name="present")
    levels = swaps(m, ones, None if from_first else start, name="swap")
    row = gather(m, elements, levels, from_first=from_first, name="row")
    back = scatter(m, row, levels, from_first=from_first, name="back")
    all_of_row, all_of_back = Signal(4 * lanes), Signal(4 * lanes)
    m.d.comb += [all_of_row.eq(Cat(row)), all_of_back.eq(Cat(back))]

    async def compare(ctx):
        for mask in range(1 << lanes):
            there = [i for i in range(lanes) if mask >> i & 1]
            ctx.set(present, mask)
            assert ctx.get(count) == len(there)
            for first in [0] if from_first else range(lanes):
                ctx.set(start, first)
                expected = {(first + k) % lanes: i + 1 for k, i in enumerate(there)}
                found = ctx.get(all_of_row)
                assert {k: found >> 4 * k & 15 for k in range(lanes) if found >> 4 * k & 15} == (
                    expected
                ), (mask, first)
                found = ctx.get(all_of_back)
                assert [found >> 4 * i & 15 for i in there] == [i + 1 for i in there], (mask, first)

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()
