"""The largest minibatch that each policy can train, and how fast (HOME, §4.4, Table 2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cdma.plan.policies.registry import plan_all
from cdma.plan.search.batch import HIGHEST, largest_batch
from cdma.plan.timeline.placement import Mode
from cdma.plan.timeline.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Largest:
    """A policy's largest minibatch.

    Attributes
    ----------
    policy : str
    batch : int
        0 if not even one image fits.
    seconds : float or None
        Of the step at that batch; None if there is none.
    """

    policy: str
    batch: int
    seconds: float | None

    @property
    def per_second(self) -> float | None:
        """Images, or sequences, that are trained in a second."""
        return None if self.seconds is None else self.batch / self.seconds


def largest_batches(
    scenario_of: Callable[[int], Scenario],
    names: Sequence[str],
    *,
    mode: Mode | None = None,
    seed: int = 0,
    highest: int = HIGHEST,
) -> tuple[Largest, ...]:
    """Find the largest batches by doubling and bisection, each planned anew and run on the
    timeline.

    Parameters
    ----------
    scenario_of : callable
        The scenario at a batch.
    names : sequence of str
        Of `cdma.plan.policies.registry.POLICIES`. The oracle keeps everything: it stands for the
        framework alone, within the device's memory.
    mode, seed
        As of `plan_all`.
    highest : int
        Nothing above it is tried.
    """
    return tuple(_largest(scenario_of, name, mode, seed, highest) for name in names)


def _largest(
    scenario_of: Callable[[int], Scenario], name: str, mode: Mode | None, seed: int, highest: int
) -> Largest:
    times: dict[int, float] = {}

    def feasible(batch: int) -> bool:
        trace = plan_all(scenario_of(batch), [name], mode=mode, seed=seed)[name].trace
        times[batch] = trace.seconds
        return trace.feasible

    batch = largest_batch(feasible, highest=highest)
    return Largest(policy=name, batch=batch, seconds=times[batch] if batch else None)
