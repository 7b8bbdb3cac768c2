"""Sums of any number of values, and numbers that go around."""

import random

import pytest
from amaranth.hdl import Cat, Module, Signal

from cdma.hw.lib.count import count_ones, count_ones_of_word, following, run_length, total
from tests.lib.simulator import Simulator


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_sums_of_any_number_of_values(count):
    values = [Signal(4, name=f"value_{k}") for k in range(count)]
    m = Module()
    summed, ones = Signal(8), Signal(8)
    m.d.comb += [summed.eq(total(values)), ones.eq(count_ones(Cat(values)))]
    generator = random.Random(count)

    async def compare(ctx):
        for case in [[15] * count, *([generator.randrange(16) for _ in values] for _ in range(50))]:
            for value, number in zip(values, case, strict=True):
                ctx.set(value, number)
            assert ctx.get(summed) == sum(case)
            assert ctx.get(ones) == sum(number.bit_count() for number in case)

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 31, 32])
def test_ones_of_words_of_any_width(width):
    word, ones = Signal(width), Signal(8)
    m = Module()
    m.d.comb += ones.eq(count_ones_of_word(word))
    generator = random.Random(width)

    async def compare(ctx):
        for number in [0, (1 << width) - 1, *(generator.getrandbits(width) for _ in range(100))]:
            ctx.set(word, number)
            assert ctx.get(ones) == number.bit_count()

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_the_last_number_is_before_the_first(count):
    number, after = Signal(range(count)), Signal(range(count))
    m = Module()
    m.d.comb += after.eq(following(number, count))

    async def compare(ctx):
        for value in range(count):
            ctx.set(number, value)
            assert ctx.get(after) == (value + 1) % count

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()


@pytest.mark.parametrize("width", [1, 2, 7, 32])
def test_a_run_is_as_long_as_it_has_ones(width):
    run, length = Signal(width), Signal(8)
    m = Module()
    m.d.comb += length.eq(run_length(run))

    async def compare(ctx):
        for ones in range(width + 1):
            ctx.set(run, (1 << ones) - 1)
            assert ctx.get(length) == ones

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()
