"""The memory: a word is there a cycle after it was written, and what was read stays."""

import random

import pytest
from amaranth.sim import Simulator

from cdma.hw.lib.ram import Ram


@pytest.mark.parametrize(("width", "depth"), [(1, 2), (8, 5), (75, 16), (3, 1)])
def test_gives_what_was_written_last(width, depth):
    ram = Ram(width, depth)
    choose = random.Random(width)

    async def run(ctx):
        words = {}
        shown = None
        for _ in range(200):
            written, read = choose.randrange(depth), choose.randrange(depth)
            writes = choose.random() < 0.5
            # Not what is written in this cycle, and nothing that never was.
            reads = read in words and not (writes and read == written) and choose.random() < 0.7
            word = choose.getrandbits(width)
            ctx.set(ram.write_enable, writes)
            ctx.set(ram.write_address, written)
            ctx.set(ram.write_data, word)
            ctx.set(ram.read_enable, reads)
            ctx.set(ram.read_address, read)
            await ctx.tick()
            shown = words[read] if reads else shown
            if writes:
                words[written] = word
            if shown is not None:
                assert ctx.get(ram.read_data) == shown

    simulator = Simulator(ram)
    simulator.add_clock(1e-9)
    simulator.add_testbench(run)
    simulator.run()
