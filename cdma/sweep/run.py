"""Running a sweep: all of its points, or a machine's share of them."""

from collections.abc import Sequence
from typing import TypeVar

from cdma.builds.progress import Tally
from cdma.errors import UserError
from cdma.sweep.backends import SweepBackend
from cdma.sweep.point import Evaluation, PointOutcome, SweepPoint
from cdma.sweep.store import Store

Each = TypeVar("Each")


def share(points: Sequence[Each], part: int, parts: int) -> tuple[Each, ...]:
    """Take part 1, 2, … of so many; `UserError` if there is no such part."""
    if not 1 <= part <= parts:
        raise UserError(f"shard must be 1/{parts} to {parts}/{parts}, not {part}/{parts}")
    return tuple(points[part - 1 :: parts])


def compute(
    points: Sequence[SweepPoint], store: Store, backend: SweepBackend
) -> list[PointOutcome]:
    """Compute the points that a store has not got, and keep each as it comes.

    Only this process writes, so that workers of a cluster need not see the store's folder.

    Returns
    -------
    list of PointOutcome
        Of the points that failed, in the points' order. The others are kept all the same, and
        those that failed are computed again by the next run.

    Raises
    ------
    UserError
        Results cannot be written, or the backend is not there.
    """
    missing = {store.path(point): point for point in points if store.read(point) is None}
    if not missing:
        return []
    progress = Tally("points", len(missing))
    evaluation = Evaluation(rooms=store.rooms, sources=store.sources)
    failed = {}
    for outcome in backend.outcomes(evaluation, list(missing.values())):
        if outcome.result is None:
            failed[store.path(outcome.point)] = outcome
        else:
            store.write(outcome.point, outcome.result)
        progress.step()
    return [failed[path] for path in missing if path in failed]
