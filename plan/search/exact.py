"""The best of all plans, by trying every one: for small graphs, to hold searches to."""

import math

import numpy as np

from cdma.plan.search.swarm import Evaluator, Found
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.kernel import Assignments

LIMIT = 5_000_000
"""Plans that are tried at most: about a minute on one core."""
BATCH = 1 << 14


def exhaustive(
    evaluator: Evaluator, tensors: int, options: int = 3, *, limit: int = LIMIT
) -> Found:
    """The least time that any policy has; the first of equal ones in the order of counting.

    Parameters
    ----------
    evaluator : Evaluator
    tensors, options : int
        The shape of a policy.
    limit : int
        Policies at most.

    Raises
    ------
    ScheduleError
        There are more.
    """
    count = options**tensors
    if count > limit:
        raise ScheduleError(
            f"{tensors} tensors of {options} options have {count:.3g} plans, more than {limit:,}; "
            f"search instead, or take at most {int(math.log(limit, options))} tensors"
        )
    best, lowest = _assignments(0, 1, tensors, options)[0], math.inf
    for begin in range(0, count, BATCH):
        assignments = _assignments(begin, min(begin + BATCH, count), tensors, options)
        seconds = evaluator.seconds(assignments)
        i = int(np.argmin(seconds))
        if seconds[i] < lowest:
            best, lowest = assignments[i], float(seconds[i])
    return Found(assignment=best.copy(), seconds=lowest, evaluations=count)


def _assignments(begin: int, end: int, tensors: int, options: int) -> Assignments:
    """Numbers in this range as digits of base `options`, int8 (end - begin, tensors)."""
    place = options ** np.arange(tensors - 1, -1, -1, dtype=np.int64)
    return (np.arange(begin, end)[:, None] // place % options).astype(np.int8)
