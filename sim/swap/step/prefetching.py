"""Prefetches in the order in which backward asks, as early as free memory allows."""

from collections.abc import Mapping, Sequence

from cdma.plan.timeline.placement import Choice, Placement
from cdma.sim.swap.step.step_counts import Unpacking


def prefetches_of(
    unpackings: Sequence[Unpacking],
    after_bytes: int,
    choices: Mapping[str, Choice],
    capacity_bytes: int,
) -> dict[int, tuple[str, ...]]:
    """Say at which moment of backward to send for which swapped value.

    A prefetch takes its value's bytes from its moment to the one in which backward asks for the
    value. They are reserved in all of these moments, so that the step's peak stays within the
    capacity if it is so without prefetches. Values come in the order in which they are asked for.

    Parameters
    ----------
    unpackings : sequence of Unpacking
        Of a rehearsal without prefetches.
    after_bytes : int
        Most bytes behind the last of them.
    choices : mapping of str to Choice
    capacity_bytes : int
        Of the device.

    Returns
    -------
    dict of int to tuple of str
        Names by the number of the unpacking behind which they are sent for.
    """
    # Behind each moment the operators run, until the next one begins.
    running = [moment.before_bytes for moment in unpackings[1:]] + [after_bytes]
    bringing = [moment.while_bytes for moment in unpackings]
    asked: dict[str, int] = {}
    for number, moment in enumerate(unpackings):
        choice = choices.get(moment.name)
        if choice is not None and choice.placement is Placement.SWAP:
            asked.setdefault(moment.name, number)
    found: dict[int, list[str]] = {}
    earliest = 0
    for name, number in asked.items():
        nbytes = unpackings[number].nbytes
        start = number
        while start > earliest and running[start - 1] + nbytes <= capacity_bytes:
            if start < number and bringing[start] + nbytes > capacity_bytes:
                break
            start -= 1
        for k in range(start, number):
            running[k] += nbytes
            if k > start:
                bringing[k] += nbytes
        if start < number:
            found.setdefault(start, []).append(name)
        earliest = start
    return {number: tuple(names) for number, names in found.items()}
