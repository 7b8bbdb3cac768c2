"""The largest minibatch that can be trained (HOME §4.4, Table 2)."""

from collections.abc import Callable

from cdma.plan.timeline.errors import ScheduleError

HIGHEST = 1 << 20


def largest_batch(feasible: Callable[[int], bool], *, highest: int = HIGHEST) -> int:
    """The largest batch that is feasible: by doubling, then by bisection.

    Feasibility must not come back once it is lost; that holds for the memory that a policy's plan
    needs if a plan stays feasible with less to hold, as any fixed one does.

    Parameters
    ----------
    feasible : callable
        Whether a batch is: builds the graph and the scenario, asks a policy for a plan, and has it
        simulated; with everything retained, what the framework alone does.
    highest : int
        Nothing above it is tried.

    Returns
    -------
    int
        0 if a batch of 1 is not feasible.
    """
    if highest < 1:
        raise ScheduleError(f"the highest batch must be at least 1, not {highest}")
    low, high = 0, 1
    while high <= highest and feasible(high):
        low, high = high, 2 * high
    high = min(high, highest + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if feasible(middle):
            low = middle
        else:
            high = middle
    return low
