"""Points of the value map on all cores, each a file of its own, so that a sweep can be resumed.

A point's file is named by a hash of the point and of the sources that its value depends on. It is
written beside its place and renamed, so that it is whole if it is there, whoever else computes the
same point. Sweeps on several machines that share a folder take a part of the points each, and any
of them can print the map once all are there.
"""

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path
from typing import Unpack

from cdma.builds.cache import digest
from cdma.builds.extras import extra
from cdma.builds.imports import imported, path_of
from cdma.builds.progress import Tally
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.value.point import Common, Point, Value, evaluate


def grid(
    networks: Sequence[str],
    devices: Sequence[str],
    links: Sequence[str],
    rooms: Sequence[float],
    codecs: Sequence[str],
    dataset: str | None = None,
    batch: int | None = None,
    **fields: Unpack[Common],
) -> tuple[Point, ...]:
    """All combinations as points, the links of a step beside each other.

    Parameters
    ----------
    networks, devices, links, rooms, codecs
        As of `Point`.
    dataset, batch, fields
        Of `Point.usual`, the same for all points.
    """
    return tuple(
        Point.usual(
            network,
            dataset=dataset,
            batch=batch,
            device=device,
            link=link,
            room=room,
            codec=codec,
            **fields,
        )
        for network, device, room, codec, link in product(networks, devices, rooms, codecs, links)
    )


def share(points: Sequence[Point], part: int, parts: int) -> tuple[Point, ...]:
    """Part 1, 2, … of so many.

    Raises
    ------
    ScheduleError
        There is no such part.
    """
    if not 1 <= part <= parts:
        raise ScheduleError(f"shard must be 1/{parts} to {parts}/{parts}, not {part}/{parts}")
    return tuple(points[part - 1 :: parts])


def sweep(points: Sequence[Point], folder: Path, *, jobs: int = -1) -> None:
    """Compute the points that the folder has not got.

    Parameters
    ----------
    points : sequence of Point
    folder : Path
        Is made if it is not there.
    jobs : int
        Processes; -1 for as many as there are cores.
    """
    # Here, as little else needs it.
    with extra("plan"):
        from joblib import Parallel, delayed

    missing = [point for point in points if stored(point, folder) is None]
    # Unknown names are refused before anything is computed.
    for point in missing:
        point.scenario()
    folder.mkdir(parents=True, exist_ok=True)
    progress = Tally("points", len(missing))
    made = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(_store)(point, folder) for point in missing
    )
    for _ in made:
        progress.step()


def stored(point: Point, folder: Path) -> Value | None:
    """The value that a folder has of a point; None if it has none that can be read."""
    try:
        content = json.loads(_file(point, folder).read_bytes())
        value = Value.from_dict(content)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return value if value.point == point else None


def values(points: Sequence[Point], folder: Path) -> Iterator[Value]:
    """The values of points that the folder has, in the points' order."""
    for point in points:
        value = stored(point, folder)
        if value is not None:
            yield value


def _store(point: Point, folder: Path) -> None:
    path = _file(point, folder)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        partial.write_text(json.dumps(evaluate(point).as_dict(), indent=1) + "\n")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _file(point: Point, folder: Path) -> Path:
    return folder / f"{digest(json.dumps(asdict(point), sort_keys=True), _sources())}.json"


@cache
def _sources() -> str:
    """A hash of the sources that a value depends on."""
    packages = ("cdma.plan", "cdma.hw", "cdma.golden", "cdma.builds")
    paths = {path_of(name) for name in imported([evaluate.__module__], of=packages)}
    # The timeline's kernel, and what papers print, are no modules.
    plan = path_of("cdma.plan").parent
    paths |= {*plan.rglob("*.cpp"), *plan.rglob("*.toml")}
    return digest(*(f"{path.name}\n{path.read_text()}" for path in sorted(paths)))
