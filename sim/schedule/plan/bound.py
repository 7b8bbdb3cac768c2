"""A time that no plan of a scenario can beat, however it was found.

It is the least time of the program of `sim.schedule.plan.relaxation`; or, when HiGHS's time is up,
what it has proved about that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sim.schedule.placement import Choice
from sim.schedule.plan.relaxation import Relaxation
from sim.schedule.plan.swarm import Particles
from sim.schedule.scenario import Scenario
from sim.schedule.structure import options_of, structure_of

TOLERANCE = 1e-5
"""What a solution may violate its constraints by, relative to the step; taken off the bound."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """What no plan can beat.

    Attributes
    ----------
    seconds : float
        Infinite if no plan fits into the memory.
    tight : bool
        Whether the program was solved; otherwise the time was up, and this is what was proved.
    particle : numpy.ndarray or None
        int8 (managed,): the program's own plan, a start for searches. It may not be feasible.
    """

    seconds: float
    tight: bool
    particle: Particles | None


def lower_bound(
    scenario: Scenario,
    options: Sequence[Choice],
    throttle: str = "none",
    *,
    time_limit_s: float = 10.0,
) -> Bound:
    """The least time that any plan of these options could take.

    Parameters
    ----------
    scenario : Scenario
    options : sequence of Choice
        What may become of a tensor.
    throttle : str
        Of `sim.driver.THROTTLES`.
    time_limit_s : float
        Of the solver.
    """
    program = Relaxation(structure_of(scenario), options_of(scenario, options, throttle))
    found = program.solve(time_limit_s)
    # Sums in another order differ in their last bits.
    oracle = scenario.compute_seconds * (1 - 1e-12)
    if found.status == 2:
        return Bound(seconds=math.inf, tight=True, particle=None)
    proved = found.mip_dual_bound
    seconds = oracle if proved is None else max(oracle, (proved - TOLERANCE) * program.unit_s)
    return Bound(
        seconds=seconds,
        tight=found.status == 0,
        particle=None if found.x is None else program.particle(found.x),
    )
