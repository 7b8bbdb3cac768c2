"""Work of points in tests, where the processes of a backend import it."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cdma.errors import UserError
from cdma.sweep.point import PointResult, SweepPoint

LONGEST_S = 600


def square(number: int) -> PointResult:
    return {"square": number * number}


def refuse(number: int) -> PointResult:
    raise UserError(f"{number} is refused;\nname another")


def break_down(number: int) -> PointResult:
    return {"part": 1 / (number - number)}


def die(number: int) -> PointResult:
    os.kill(os.getpid(), 9)
    return square(number)


def square_later(number: int, folder: Path) -> PointResult:
    """Note in a folder who works at the number, and go on when there is a file called go."""
    (folder / f"{number}-{os.getpid()}").touch()
    end = time.monotonic() + LONGEST_S
    while not (folder / "go").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    return square(number)


def point(number: int, work: Callable[..., PointResult] = square, **more: object) -> SweepPoint:
    """A point of a number."""
    return SweepPoint(
        name=f"of {number}", content={"number": number}, work=partial(work, number, **more)
    )
