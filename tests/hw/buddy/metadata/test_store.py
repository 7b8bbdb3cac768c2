"""The data of a slice of the cache: for which of its lines the fetch has failed."""

import random

from cdma.hw.buddy.metadata.line import LineShape
from cdma.hw.buddy.metadata.store import MetadataStore
from cdma.hw.buddy.payloads import MetadataError
from cdma.hw.config import METADATA_CACHES
from tests.lib.simulator import Simulator

CONFIG = METADATA_CACHES["tiny"]
LINES = [(number, way) for number in range(CONFIG.sets) for way in range(CONFIG.ways)]
FILL_CYCLES = 2 * LineShape(CONFIG).rows + 2


def test_line_has_failed_if_its_last_fetch_has():
    store = MetadataStore(CONFIG)
    draw = random.Random(1)
    errors = dict.fromkeys(LINES, MetadataError.NONE)

    async def fill(ctx, line, error):
        """Have this line filled, from a fetch that has ended so."""
        number, way = line
        ctx.set(store.i.payload, {"fill": 1, "respond": 1, "set": number, "way": way})
        ctx.set(store.i.valid, 1)
        ctx.set(store.fill_error, error)
        for _ in range(FILL_CYCLES):
            _, _, taken = await ctx.tick().sample(store.i.ready)
            if taken:
                break
        else:
            raise AssertionError("the fill does not end")
        ctx.set(store.i.valid, 0)
        errors[line] = error

    async def failed_lines(ctx):
        failed = []
        for number, way in LINES:
            ctx.set(store.failed_set, number)
            ctx.set(store.failed_way, way)
            await ctx.tick()
            if ctx.get(store.failed):
                failed.append((number, way))
        return failed

    async def body(ctx):
        ctx.set(store.fill_complete, 1)
        ctx.set(store.o.ready, 1)
        for line in LINES:
            await fill(ctx, line, MetadataError.NONE)
        assert await failed_lines(ctx) == []
        for _ in range(30):
            await fill(ctx, draw.choice(LINES), draw.choice([*MetadataError]))
            expected = [line for line in LINES if errors[line] != MetadataError.NONE]
            assert await failed_lines(ctx) == expected

    simulator = Simulator(store)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
