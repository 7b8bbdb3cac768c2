"""Results of points, one file each, so that a sweep can be stopped and resumed, and shared.

A point's file is named by a hash of the point, of the files that it reads and of the sources. It is
written beside its place and renamed, so that it is whole if it is there, whoever else computes the
same point.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdma.builds.cache import digest
from cdma.builds.documents import refusal
from cdma.outputs import make_folder, open_atomically
from cdma.schemas import document
from cdma.sweep.point import PointResult, SweepPoint
from cdma.sweep.sources import ROOMS, sources

SWEEP_POINT = "sweep-point"
"""The schema of the files."""


class Store:
    """A folder of results; it is made when the first one is written.

    Parameters
    ----------
    folder : Path
    rooms : sequence of str
        Folders of the package that results depend on, as of `sources`.

    Attributes
    ----------
    sources : str
        Their hash; results of others are not seen.
    """

    def __init__(self, folder: Path, rooms: Sequence[str] = ROOMS) -> None:
        self.folder = folder
        self.rooms = tuple(rooms)
        self.sources = sources(self.rooms)

    def path(self, point: SweepPoint) -> Path:
        """The file of a point's result."""
        contents = [content for _, content in point.files]
        return self.folder / f"{digest(_canonical(point.content), *contents, self.sources)}.json"

    def read(self, point: SweepPoint) -> PointResult | None:
        """The result of a point; None if there is none, a damaged or a later one."""
        try:
            kept = json.loads(self.path(point).read_bytes())
            if refusal(kept, str(self.path(point)), SWEEP_POINT) is not None:
                return None
            content, result, check = kept["point"], kept["result"], kept["check"]
            whole = check == digest(_canonical(content), _canonical(result))
            same = _canonical(content) == _canonical(point.content)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result if whole and same else None

    def write(self, point: SweepPoint, result: PointResult) -> None:
        """Keep a result; `UserError` if it cannot be written."""
        check = digest(_canonical(point.content), _canonical(result))
        make_folder(self.folder)
        with open_atomically(self.path(point), "w", force=True) as file:
            content = {"point": point.content, "result": result, "check": check}
            json.dump(document(SWEEP_POINT, content), file, indent=1)
            file.write("\n")


def _canonical(content: Mapping[str, Any]) -> str:
    """One text for all spellings of a JSON object."""
    return json.dumps(content, sort_keys=True)
