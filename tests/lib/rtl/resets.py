"""A reset while a decompressor of entries is busy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amaranth.hdl import ClockDomain, Module

from tests.lib.simulator import Simulator


def assert_reset_leaves_nothing(
    component: Any,
    before: Any,
    after: Any,
    expected: Sequence[int],
    *,
    cycles: Iterable[int],
    held: Mapping[str, Any] | None = None,
) -> None:
    """Assert that an entry behind a reset comes out as if there had been none before.

    Parameters
    ----------
    component
        Takes an entry at `i`, and gives its sectors at `o`.
    before, after
        What is offered at `i` before the reset, which takes none of it back, and behind it.
    expected
        Data of all sectors of the latter.
    cycles
        Numbers of cycles from the former to the reset, each to be tried.
    held
        Other inputs, by their names, and what they are all the time.
    """
    m = Module()
    m.domains.sync = domain = ClockDomain()
    m.submodules.component = component
    simulator = Simulator(m)
    simulator.add_clock(1e-9)

    async def test(ctx: Any) -> None:
        for name, value in (held or {}).items():
            ctx.set(getattr(component, name), value)
        for count in cycles:
            ctx.set(component.i.payload, before)
            ctx.set(component.i.valid, 1)
            await ctx.tick().repeat(count)
            ctx.set(domain.rst, 1)
            await ctx.tick()
            ctx.set(domain.rst, 0)
            ctx.set(component.i.payload, after)
            ctx.set(component.o.ready, 1)
            await ctx.tick()
            ctx.set(component.i.valid, 0)
            seen = []
            for _ in range(component.entry_latency + len(expected) + 20):
                if ctx.get(component.o.valid):
                    seen.append(ctx.get(component.o.payload.data))
                await ctx.tick()
            ctx.set(component.o.ready, 0)
            assert seen == expected

    simulator.add_testbench(test)
    simulator.run()
