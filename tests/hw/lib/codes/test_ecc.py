"""Codewords: every flipped bit is corrected, every two are found."""

import random
from itertools import combinations

import pytest
from amaranth.hdl import Module

from cdma.hw.lib.codes.ecc import (
    EccDecoder,
    EccEncoder,
    check_bits,
    codeword_bits,
    columns,
    encode,
    parity_masks,
)
from tests.lib.simulator import Simulator

WIDTHS = [64, 36, 11, 4]


class Bench:
    """An encoder before a decoder, with flips in between."""

    def __init__(self, data_bits):
        self.data_bits = data_bits
        self.encoder, self.decoder = EccEncoder(data_bits), EccDecoder(data_bits)
        self.module = Module()
        self.module.submodules.encoder = self.encoder
        self.module.submodules.decoder = self.decoder

    def run(self, flips):
        """For each set of flips: the data, and what the decoder says."""
        seen = []
        generator = random.Random(self.data_bits)

        async def bench(ctx):
            for flip in flips:
                data = generator.getrandbits(self.data_bits)
                ctx.set(self.encoder.i, data)
                codeword = ctx.get(self.encoder.o)
                assert codeword == encode(data, self.data_bits)
                ctx.set(self.decoder.i, codeword ^ flip)
                decoder = self.decoder
                seen.append(
                    (data, *map(ctx.get, (decoder.o, decoder.corrected, decoder.uncorrectable)))
                )

        simulator = Simulator(self.module)
        simulator.add_testbench(bench)
        simulator.run()
        return seen


@pytest.mark.parametrize("data_bits", WIDTHS)
def test_a_codeword_as_it_was_written_is_taken_as_it_is(data_bits):
    for data, out, corrected, uncorrectable in Bench(data_bits).run([0] * 20):
        assert (out, corrected, uncorrectable) == (data, 0, 0)


@pytest.mark.parametrize("data_bits", WIDTHS)
def test_every_flipped_bit_is_corrected(data_bits):
    flips = [1 << bit for bit in range(codeword_bits(data_bits))]
    for data, out, corrected, uncorrectable in Bench(data_bits).run(flips):
        assert (out, corrected, uncorrectable) == (data, 1, 0)


@pytest.mark.parametrize("data_bits", WIDTHS)
def test_every_two_flipped_bits_are_found(data_bits):
    pairs = combinations(range(codeword_bits(data_bits)), 2)
    for _, _, corrected, uncorrectable in Bench(data_bits).run([1 << a | 1 << b for a, b in pairs]):
        assert (corrected, uncorrectable) == (0, 1)


def test_columns_are_different_and_odd():
    for data_bits in range(1, 130):
        found = columns(data_bits)
        assert len(set(found)) == data_bits
        assert all(column.bit_count() % 2 and column.bit_count() >= 3 for column in found)
        assert max(found) < 1 << check_bits(data_bits)


@pytest.mark.parametrize(("data_bits", "checks"), [(11, 5), (12, 6), (26, 6), (57, 7), (64, 8)])
def test_codes_are_as_short_as_hsiao_s(data_bits, checks):
    assert check_bits(data_bits) == checks
    assert codeword_bits(data_bits) == data_bits + checks


def test_check_bits_are_of_about_equally_many_data_bits():
    loads = [mask.bit_count() for mask in parity_masks(64)]
    # 56 columns of 3 and 8 of 5.
    assert sum(loads) == 208
    assert set(loads) == {26}
