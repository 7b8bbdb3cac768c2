"""What records say of transfers: as golden, however lines come, and no later than it says."""

import random

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from cdma.golden.formats.xc.patterns import code_bits
from cdma.golden.formats.xc.recorded import (
    LEVELS,
    MOST,
    line_samples,
    parameters_of,
    recorded_parameters,
    sampled_lines,
)
from cdma.hw.codec.xc.record.parameter_choice import CANDIDATES
from cdma.hw.codec.xc.record.parameter_collector import ParameterCollector
from tests.hw.codec.xc.lines import BF16, FORMATS, bf16_lines, lines_of


class Collector:
    """Transfers through a `ParameterCollector`, back to back."""

    ran = pending = False

    def __init__(self, elements=BF16):
        self.elements = elements
        self.component = ParameterCollector(elements)
        m = Module()
        m.submodules.component = self.component
        self.simulator = Simulator(m)
        self.simulator.add_clock(1e-9)
        self.simulator.add_testbench(self._drive)

    def results(self, transfers, seed=0):
        """The result of each transfer of samples, its lines one or two in a cycle, or none."""
        self.transfers, self.random, self.found = transfers, random.Random(seed), []
        if self.ran:
            self.simulator.reset()
        self.ran = True
        self.simulator.run()
        return self.found

    async def _drive(self, ctx):
        component = self.component
        ctx.set(component.begins, 1)
        await ctx.tick()
        ctx.set(component.begins, 0)
        for samples in self.transfers:
            await self._lines(ctx, samples)
            # The next one begins as this one ends, when the result before was taken.
            while not ctx.get(component.settled):
                await ctx.tick()
            ctx.set(component.lines, 0)
            ctx.set(component.ends, 1)
            ctx.set(component.begins, 1)
            await ctx.tick()
            ctx.set(component.ends, 0)
            ctx.set(component.begins, 0)
            self.pending = self.random.random() < 0.5
            if not self.pending:
                await self._take(ctx)
        if self.pending:
            await self._take(ctx)

    async def _take(self, ctx):
        cycles = 0
        while not ctx.get(self.component.settled):
            await ctx.tick()
            cycles += 1
        assert cycles < ParameterCollector.result_latency
        self.latency = cycles + 1
        self.found.append(ctx.get(self.component.result))
        self.pending = False

    async def _lines(self, ctx, samples):
        component = self.component
        words = [self._summary(word) for word in samples]
        at = 0
        while at < len(words) or self.pending:
            count = min(self.random.choice([0, 1, 1, 2, 2, 2]), len(words) - at)
            pair = [*words[at : at + count], self.random.getrandbits(9), self.random.getrandbits(9)]
            ctx.set(component.lines, count)
            ctx.set(component.first, pair[0])
            ctx.set(component.second, pair[1])
            at += count
            if self.pending and ctx.get(component.settled):
                self.found.append(ctx.get(component.result))
                self.pending = False
            await ctx.tick()
        ctx.set(component.lines, 0)

    def _summary(self, word):
        most = (1 << self.elements.exponent_bits) - 1
        return (int(word) >> self.elements.mantissa_bits & most) | int(word != 0) << 8


@pytest.fixture(scope="module")
def collector():
    return Collector()


def packed(parameters):
    if parameters is None:
        return 0
    centre, pattern = parameters
    return centre | pattern << 8 | 1 << 10


def assert_as_golden(collector, transfers, seed=0):
    elements = collector.elements
    transfers = [np.asarray(samples, f"<u{elements.element_bytes}") for samples in transfers]
    wanted = [packed(parameters_of(samples, elements)) for samples in transfers]
    assert collector.results(transfers, seed) == wanted
    return wanted


def normal(count, scale, seed):
    values = np.random.default_rng(seed).normal(size=count) * scale
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2")


def test_short_transfers_back_to_back(collector):
    """Nothing, one line, zeros, and a few of everything; nothing stays of the one before."""
    transfers = [[], [0x3F80], [0], [0] * 40, [0x0001], [0xFF80] * 3, []]
    for seed in range(30):
        samples = line_samples(bf16_lines(np.random.default_rng(seed), 40), BF16)
        transfers.append(samples[: seed + 1])
    wanted = assert_as_golden(collector, transfers)
    assert wanted[:4] == [0, packed((127, 0)), 0, 0]


@pytest.mark.parametrize("elements", FORMATS[1:], ids=[form.name for form in FORMATS[1:]])
def test_other_element_formats(elements):
    """Whose escapes take fewer bits, and whose windows have exponents that there are not."""
    transfers = [[], [1], [0] * 40]
    for seed in range(30):
        lines = lines_of(elements, np.random.default_rng(seed), 200)
        transfers.append(line_samples(lines, elements)[: 5 * seed + 1])
    wanted = assert_as_golden(Collector(elements), transfers)
    assert len(set(wanted)) > 5


@pytest.mark.parametrize("scale", [1.0, 2.0**-10, 2.0**-100, 2.0**110])
def test_scales_of_data(collector, scale):
    transfers = [normal(400, scale, seed) for seed in range(3)]
    # Wide ones, and such in which most are zeros.
    wide = np.random.default_rng(5).normal(size=500) * 6
    transfers.append((np.exp2(wide).astype("<f4").view("<u4") >> 16).astype("<u2"))
    transfers.append(np.where(np.random.default_rng(6).random(400) < 0.1, transfers[0], 0))
    assert_as_golden(collector, transfers, seed=1)


def test_window_moves_when_the_first_sample_was_far_away(collector):
    far = np.concatenate([[0x0080], normal(100, 1.0, 1)])
    wanted = assert_as_golden(collector, [far, np.concatenate([far[:1]] * 9 + [far])])
    assert wanted[0] & 255 in (125, 126, 127)


@pytest.mark.verify
def test_long_transfers_are_halved_until_distances_stay(collector):
    """Data that change, so that it matters what is halved and when."""
    lines = 3 * MOST * 2**LEVELS
    assert sum(halves for _, halves in sampled_lines(lines)) > LEVELS
    samples = np.concatenate([normal(lines // 3, 2.0 ** -(8 * part), part) for part in (0, 1, 2)])
    assert_as_golden(collector, [samples, normal(200, 1.0, 9)])


def test_halving(collector):
    lines = 8 * MOST
    assert sum(halves for _, halves in sampled_lines(lines)) == 2
    samples = [normal(lines, 2.0**-k, k) for k in range(2)]
    samples.append(np.full(lines, 0x3F80, "<u2"))
    samples.append(np.where(np.arange(lines) < 300, normal(lines, 1.0, 3), 0))
    assert_as_golden(collector, samples)


def test_result_settles_when_it_says(collector):
    collector.results([normal(50, 1.0, 1)], seed=1)
    assert collector.latency == ParameterCollector.result_latency


def test_least_sum_is_that_of_the_candidate():
    """The golden choice is the cheapest of its candidates for what it counts."""
    data = np.repeat(normal(40, 1.0, 3), 64)
    centre, pattern = recorded_parameters(data, BF16)
    exponents = line_samples(data, BF16)[[line for line, _ in sampled_lines(40)]] >> 7 & 255
    values, counts = np.unique(exponents, return_counts=True)
    peak = int(values[counts.argmax()])

    def cost(centre, pattern):
        return int(code_bits(pattern, BF16)[(centre - exponents.astype(int)) % 256].sum())

    assert cost(centre, pattern) == min(cost(peak + o, p) for o, p in CANDIDATES)
