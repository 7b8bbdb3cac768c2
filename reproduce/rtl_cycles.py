"""Cycle counts of RTL components in a simulation."""

from collections.abc import Mapping
from typing import Any

from amaranth.sim import Simulator

PATIENCE_CYCLES = 100


def cycles_to_output(component: Any, beats: int, payload: Mapping[str, int] | None = None) -> int:
    """Cycles from the first of some beats that a component takes to its first output.

    Parameters
    ----------
    component : amaranth.lib.wiring.Component
        With streams `i` and `o`, not elaborated yet.
    beats : int
        So many are offered one after the other, while the output is taken whenever it is there.
    payload : mapping of str to int, optional
        Fields of every beat that are not zero.

    Raises
    ------
    RuntimeError
        Nothing comes out.
    """
    simulator = Simulator(component)
    simulator.add_clock(1e-9)
    found: list[int] = []

    async def bench(ctx: Any) -> None:
        first, left = None, beats
        ctx.set(component.o.ready, 1)
        for name, value in (payload or {}).items():
            ctx.set(getattr(component.i.payload, name), value)
        for cycle in range(PATIENCE_CYCLES):
            ctx.set(component.i.valid, left > 0)
            if first is not None and ctx.get(component.o.valid):
                found.append(cycle - first)
                return
            if left and ctx.get(component.i.ready):
                first = cycle if first is None else first
                left -= 1
            await ctx.tick()

    simulator.add_testbench(bench)
    simulator.run()
    if not found:
        raise RuntimeError(f"nothing comes out of {type(component).__name__} in time")
    return found[0]
