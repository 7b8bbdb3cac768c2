"""Products of matrices and a vector by sums that parities share: right, and each made once."""

import random
import re

from amaranth.back import rtlil
from amaranth.hdl import Module, Signal

from cdma.hw.lib.codes.gf2 import shared_parities, times
from tests.lib.simulator import Simulator


def product_of(matrices, bits):
    """A module that multiplies them with a vector of so many bits, the vector and the products."""
    m = Module()
    vector = Signal(bits)
    products = []
    for k, value in enumerate(shared_parities(m, matrices, vector, name="parity")):
        product = Signal(32, name=f"product_{k}")
        m.d.comb += product.eq(value)
        products.append(product)
    return m, vector, products


def columns_of(parities, bits):
    """The matrix whose row k is the sum of the bits that `parities[k]` lists."""
    return tuple(
        sum(1 << k for k, parity in enumerate(parities) if bit in parity) for bit in range(bits)
    )


def test_products_are_those_of_the_matrices():
    generator = random.Random(1)
    # Bit 0 is in every parity, so that none is without a term.
    matrices = [
        tuple(generator.getrandbits(32) | (bit == 0) * 0xFFFF_FFFF for bit in range(20))
        for _ in range(2)
    ]
    m, vector, products = product_of(matrices, 20)

    async def compare(ctx):
        values = [*(1 << bit for bit in range(20)), *(generator.getrandbits(20) for _ in range(20))]
        for value in [0, *values]:
            ctx.set(vector, value)
            assert [ctx.get(product) for product in products] == [
                times(matrix, value) for matrix in matrices
            ]

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()


def test_sum_that_two_parities_share_is_made_once_even_if_a_third_has_it_in_another_sum():
    left, right, low, middle, high = range(5)
    # (middle, high) is in four, and leaves (low, middle) to two of the three that have it.
    parities = [
        {low, middle, high},
        *[{middle, high}] * 3,
        {low, middle, left},
        {low, middle, right},
        *[{left}] * 26,
    ]
    m, vector, products = product_of([columns_of(parities, 5)], 5)
    text = rtlil.convert(m, ports=[vector, *products])
    sums = re.findall(r"cell \$xor .*?parameter \\Y_WIDTH (\d+)", text, re.S)
    # (middle, high), low with that, (low, middle), and left and right with that.
    assert sum(map(int, sums)) == 5
