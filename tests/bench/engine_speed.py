"""Speed of the engine's RTL in its machine, in cycles: link, buffer, policies, latency, costs."""

from typing import Any

from rich.console import Console

from cdma.sim.machine import MACHINES
from cdma.synth.gates.clock import ENGINE, clock_note
from tests.bench.engine import (
    buffer,
    costs,
    dense_links,
    fast_links,
    latency,
    limits,
    link,
    policy,
)

PARTS = (link, limits, fast_links, dense_links, buffer, policy, latency, costs)


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures.

    The first run builds twelve engines, which takes half an hour or more.
    """
    console.print(clock_note(MACHINES["titanx_gen3"].clock_hz, ENGINE))
    return {part.__name__.rpartition(".")[2]: part.run(console) for part in PARTS}
