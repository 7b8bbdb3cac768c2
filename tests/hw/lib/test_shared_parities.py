"""Shared parities are those of the matrix, whatever they have in common."""

import random

import pytest
from amaranth.hdl import Module, Signal

from cdma.hw.lib.gf2 import BACKWARD, FORWARD, contribution, parities, power, times
from cdma.hw.lib.shared_parities import shared_sums
from cdma.hw.lib.sleep import SIMULATOR
from tests.lib.simulator import Simulator

MATRICES = {
    "contribution of 4 bytes": contribution(4),
    "contribution of 32 bytes": contribution(32),
    "32 bytes forward": power(FORWARD, 32),
    "1 byte back": power(BACKWARD, 1),
}


@pytest.mark.parametrize("name", MATRICES)
def test_sums_of_pairs_are_the_matrix(name):
    """The sums are linear, so that they are right of every vector if they are of each bit."""
    columns = MATRICES[name]
    sums = shared_sums(columns, 32)
    for bit, column in enumerate(columns):
        values = [int(k == bit) for k in range(len(columns))]
        for one, two in sums.pairs:
            values.append(values[one] ^ values[two])
        rows = [sum(values[k] for k in parity) & 1 for parity in sums.parities]
        assert sum(row << k for k, row in enumerate(rows)) == column


def test_crc_of_a_beat_takes_two_fifths_of_the_gates():
    columns = contribution(32)
    alone = sum(column.bit_count() for column in columns) - 32
    assert alone == 3944
    assert shared_sums(columns, 32).gates == 1509


def test_depth_counts_the_gates_one_behind_the_other():
    sums = shared_sums((0b11, 0b11, 0b11, 0b10), 2)
    assert sums.pairs == [(0, 1), (2, 4)]
    assert sums.depths == [1, 2]
    assert sums.parities == [[5], [3, 5]]


@pytest.mark.parametrize("columns", [(1,), (1, 2, 4), (3, 0, 1)])
def test_parities_with_nothing_in_common_share_nothing(columns):
    assert shared_sums(columns, 3).pairs == []


@pytest.mark.parametrize("platform", [None, SIMULATOR])
@pytest.mark.parametrize("name", MATRICES)
def test_hardware_multiplies_by_the_matrix(name, platform):
    columns = MATRICES[name]
    m = Module()
    vector = Signal(len(columns))
    product = Signal(32)
    m.d.comb += product.eq(parities(m, columns, vector, platform, name="product"))
    generator = random.Random(name)

    async def compare(ctx):
        for value in [0, *(generator.getrandbits(len(vector)) for _ in range(50))]:
            ctx.set(vector, value)
            assert ctx.get(product) == times(columns, value)

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()
