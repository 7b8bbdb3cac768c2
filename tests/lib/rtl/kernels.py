"""Combinational kernels in simulation."""

from collections.abc import Iterable, Sequence
from typing import Any

from amaranth.hdl import ClockDomain, Module, Signal

from tests.lib.simulator import Simulator


def outputs(m: Module, output: Any, inputs: Sequence[Signal], rows: Iterable[Any]) -> list[int]:
    """Values of a combinational output for each row of the inputs' values."""
    found: list[int] = []

    async def testbench(ctx: Any) -> None:
        for row in rows:
            for signal, value in zip(inputs, row, strict=True):
                ctx.set(signal, value)
            await ctx.tick()
            found.append(ctx.get(output))

    m.domains.sync = ClockDomain()
    # A register, so that there is a clock.
    m.d.sync += Signal().eq(1)
    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    simulator.add_testbench(testbench)
    simulator.run()
    return found
