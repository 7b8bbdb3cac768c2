"""A drain whose job has stopped: the chunk that it offers stays, and later lines are dropped."""

import pytest

from cdma.hw.bus.burst import BusError
from cdma.hw.config import EngineConfig
from cdma.hw.dma.outbound.drain import LineDrain
from tests.lib.rtl.bench import offer
from tests.lib.simulator import Simulator

LINES = 4
STOP_AT = 6
"""Long after the first line is offered."""
READY_FROM = 12
CYCLES = 30


def chunks(head_pad, *, ready_from, lines_from=0):
    """Counts and last bits of the chunks that are offered, by cycle, and of those that are taken.

    Lines come from a cycle on, and must all have left when the job is over.
    """
    drain = LineDrain(EngineConfig(units=1))
    job = {"first_unit": 0, "head_pad": head_pad, "codec": 0, "tail_pad": 0, "capacity": 1 << 20}
    line = {"mask": 1, "elements": [7] + 7 * [0], "count": 1, "sol": 1, "eol": 1}
    reports = [{"error": BusError.NONE.value, "last": k == LINES - 1} for k in range(LINES)]
    lines = [line] * LINES
    offered, taken, outcomes = {}, [], []

    async def body(ctx):
        job_given = [(drain.job, [job]), (drain.ends, [{"lines": LINES, "cut": 0}])]
        lines_given = [(drain.lines[0], lines), (drain.reports[0], reports), (drain.crcs[0], [0])]
        for cycle in range(CYCLES):
            ready = cycle >= ready_from
            ctx.set(drain.stop, cycle >= STOP_AT)
            ctx.set(drain.o.ready, ready)
            ctx.set(drain.outcome.ready, 1)
            await offer(ctx, job_given + (lines_given if cycle >= lines_from else []))
            if ctx.get(drain.o.valid):
                offered[cycle] = ctx.get(drain.o.payload.count), ctx.get(drain.o.payload.last)
                if ready:
                    taken.append(offered[cycle])
            outcomes.append(ctx.get(drain.outcome.valid))
            await ctx.tick()

    simulator = Simulator(drain)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    assert not lines
    assert sum(outcomes) == 1
    return offered, taken


@pytest.mark.parametrize("head_pad", [0, 3])
def test_chunk_that_was_offered_before_the_stop_stays_until_it_is_taken(head_pad):
    offered, taken = chunks(head_pad, ready_from=READY_FROM)
    first = offered[STOP_AT - 1]
    assert first[0]
    assert all(offered.get(cycle) == first for cycle in range(STOP_AT, READY_FROM + 1))
    assert taken == [first, (0, 1)]


def test_lines_that_come_after_the_stop_are_dropped_though_nothing_is_taken():
    offered, taken = chunks(0, ready_from=READY_FROM, lines_from=STOP_AT + 2)
    assert set(offered.values()) == {(0, 1)}
    assert taken == [(0, 1)]
