"""A point of a sweep: a piece of work that depends on no other one, and what came of it."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from cdma.cli import is_reported
from cdma.errors import UserError
from cdma.files import read_bytes
from cdma.sweep.sources import sources

PointResult = dict[str, Any]
"""A point's result, a JSON object."""


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """A piece of work that can be done in any process and on any machine.

    Attributes
    ----------
    name : str
        One line for people; errors name the point by it.
    content : mapping
        A JSON object of all that the result depends on, beside the files and the sources.
    files : tuple of (str, str)
        Paths of the user's files that it reads, with their `file_digest`.
    work : callable
        Computes the result. It must be picklable: a function of a module, or a `partial` of one.
    """

    name: str
    content: Mapping[str, Any]
    files: tuple[tuple[str, str], ...] = ()
    work: Callable[[], PointResult]


@dataclass(frozen=True, kw_only=True)
class PointOutcome:
    """The result of a point, or else the reason why there is none.

    Attributes
    ----------
    point : SweepPoint
    result : dict or None
    error : str
        Empty if there is a result. One line; a traceback if the reason is a bug.
    """

    point: SweepPoint
    result: PointResult | None = None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The function that backends call in other processes.

    A result is kept under the hash of what it comes from. This is compared with what there is,
    before the work and after it: a worker may have another version, and somebody may edit a file
    meanwhile.

    Attributes
    ----------
    rooms : tuple of str
        As of `sources`.
    sources : str
        Their hash where the sweep was started.
    """

    rooms: tuple[str, ...]
    sources: str

    def __call__(self, point: SweepPoint) -> PointOutcome:
        """Compute a point. Nothing is raised but what ends the process."""
        try:
            self._require_same(point, "before")
            result = point.work()
            self._require_same(point, "while")
        except Exception as error:
            if is_reported(error):
                return PointOutcome(point=point, error=" ".join(str(error).split()))
            told = "".join(traceback.format_exception(error)).strip()
            return PointOutcome(point=point, error=told)
        return PointOutcome(point=point, result=result)

    def _require_same(self, point: SweepPoint, when: str) -> None:
        if sources(self.rooms) != self.sources:
            raise UserError(
                f"the sources or packages of cdma are others than at the sweep's start, {when} the "
                "point was computed; install the same everywhere, and run the sweep again"
            )
        for path, wanted in point.files:
            if file_digest(path) != wanted:
                raise UserError(
                    f"{path} is another file than at the sweep's start, {when} the point was "
                    "computed; run the sweep again"
                )


def file_digest(path: str) -> str:
    """Compute a hash of a file's content; `UserError` if it cannot be read."""
    return sha256(read_bytes(path)).hexdigest()
