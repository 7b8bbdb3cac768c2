"""Plans: a placement of each tensor between its forward and its backward use."""

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum

from cdma.builds.displays import table
from cdma.plan.timeline.errors import ScheduleError


class Placement(IntEnum):
    """HOME's three actions by its numbers (HOME, §3.1), and a fourth."""

    RETAIN = 0
    SWAP = 1
    RECOMPUTE = 2
    COMPRESS = 3
    """Kept on the device, compressed (COMET)."""


@dataclass(frozen=True)
class Choice:
    """A placement, and the codec it is done with.

    Parameters
    ----------
    placement : Placement
    codec : str or None
        Of `cdma.plan.platform.codec_rates.CODEC_MODELS`; None to swap as it is. A compressed
        placement needs one, RETAIN and RECOMPUTE have none.
    """

    placement: Placement
    codec: str | None = None

    def __post_init__(self) -> None:
        if self.placement in (Placement.RETAIN, Placement.RECOMPUTE) and self.codec is not None:
            raise ScheduleError(f"{self.placement.name} has no codec, but {self.codec!r} is given")
        if self.placement is Placement.COMPRESS and self.codec is None:
            raise ScheduleError("COMPRESS needs a codec; name one")

    def __str__(self) -> str:
        name = self.placement.name.lower()
        return name if self.codec is None else f"{name} {self.codec}"


RETAIN = Choice(Placement.RETAIN)
SWAP = Choice(Placement.SWAP)
RECOMPUTE = Choice(Placement.RECOMPUTE)


@dataclass(frozen=True, kw_only=True)
class Mode:
    """Rules by which copies and computation wait for each other.

    Parameters
    ----------
    staging_bytes : float
        So much may wait for its offload behind its last forward use before the computation waits,
        too. 0 is synchronous, as vDNN; infinity leaves it to the device's memory.
    lookahead : int or None
        A prefetch begins at most so many stages before the one that needs it: 1 is vDNN's. None: as
        early as memory allows.
    """

    staging_bytes: float = math.inf
    lookahead: int | None = None

    def __post_init__(self) -> None:
        if not self.staging_bytes >= 0:
            raise ScheduleError(f"staging_bytes must be 0 or more, not {self.staging_bytes}")
        if self.lookahead is not None and self.lookahead < 0:
            raise ScheduleError(f"lookahead must be 0 or more, not {self.lookahead}")


SYNCHRONOUS = Mode(staging_bytes=0, lookahead=1)
ASYNCHRONOUS = Mode()

MODES = {"sync": SYNCHRONOUS, "async": ASYNCHRONOUS}


@dataclass(frozen=True, kw_only=True)
class SolverReport:
    """How far a solver got with the program that a plan is from; of the program, not of the step.

    Parameters
    ----------
    integral : bool
        Whether branch and bound ran. If not, the plan is a rounded linear relaxation.
    gap : float or None
        From the best solution found to what the solver proved, as a part of the former; 0 if the
        solution is optimal. None if nothing was proved about whole choices.
    """

    integral: bool
    gap: float | None

    def __str__(self) -> str:
        if not self.integral:
            return "a rounded linear relaxation, no gap proved"
        if self.gap is None:
            return "branch and bound ended without a gap"
        return f"solved to a gap of {100 * self.gap:.4f} %"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A choice for every tensor that backward needs.

    Parameters
    ----------
    policy : str
        Who made it.
    choices : tuple of Choice
        One for each of `Graph.managed`.
    mode : Mode
    throttle : str
        Of `cdma.sim.driver.THROTTLES`: what limits the engine's reads of device memory.
    solver : SolverReport or None
        Of policies that solve an integer program; plans are equal whatever it says.
    """

    policy: str
    choices: tuple[Choice, ...]
    mode: Mode = ASYNCHRONOUS
    throttle: str = "none"

    def _repr_html_(self) -> str:
        """A table of the choices, each with the number of its tensors, for notebooks."""
        counts = Counter(map(str, self.choices))
        rows = [(choice, f"{count:,}") for choice, count in counts.most_common()]
        return table(f"Plan of {self.policy}", ("choice", "tensors"), rows)

    solver: SolverReport | None = field(default=None, compare=False)
