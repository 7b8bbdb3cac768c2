"""Reports of lines wait in their unit for those of other units, and hold nothing up until then."""

from cdma.hw.codec.payloads import Truncation
from cdma.hw.config import CodecConfig
from cdma.hw.dma.inbound.expansion import REPORTS, ExpansionUnit
from tests.lib.rtl.bench import offer
from tests.lib.simulator import Simulator

LINE_BYTES = 128
LINES = 12
CYCLES = 120


def test_as_many_lines_are_answered_as_reports_may_wait():
    unit = ExpansionUnit(CodecConfig(), 8)
    command = {"address": 0, "size": LINE_BYTES, "writable": 0, "codec": 0}
    zeros = {"mask": 0, "count": 0, "sol": 1, "eol": 1, "last": 1, "truncation": Truncation.NONE}
    answered = []

    async def body(ctx):
        given = [(unit.commands, [command] * LINES), (unit.i, [zeros] * LINES)]
        for cycle in range(2 * CYCLES):
            ctx.set(unit.report.ready, cycle >= CYCLES)
            await offer(ctx, given)
            answered.append(ctx.get(unit.answered))
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    assert sum(answered[:CYCLES]) == REPORTS
    assert sum(answered) == LINES
