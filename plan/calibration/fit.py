"""Rates of a device, fitted to times; no PyTorch, so that what is fitted can be tested by itself.

A rate is that by which all timings of a kind together take as long as they took: a plan adds times
up, and long layers matter more than short ones. The error that remains is the part of that time
which single timings are off by.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Times of one piece of work, done several times.

    Attributes
    ----------
    kind : str
        That its rate is fitted for: a kind of layer, a codec, or `out` and `in` of copies.
    name : str
        What was done, for people.
    seconds : tuple of float
        Each time that it was done; not empty.
    flops, nbytes : float
        Its arithmetic, and what it moves in memory.
    narrow : bool
        Whether the arithmetic is of values of two bytes.
    """

    kind: str
    name: str
    seconds: tuple[float, ...]
    flops: float = 0.0
    nbytes: float = 0.0
    narrow: bool = False

    @property
    def fastest(self) -> float:
        """The shortest of its times, which is fitted to: what else a machine does only adds."""
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """By how much the median of its times is longer than the shortest, as a part of it."""
        return median(self.seconds) / self.fastest - 1


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A rate for all timings of a kind.

    Attributes
    ----------
    kind : str
    value : float
        Of an efficiency, at most 1; of a codec or a copy, bytes per second.
    error : float
        The part of their time that timings are longer or shorter than fitted, all together.
    spread : float
        The largest of the timings.
    timings : int
    """

    kind: str
    value: float
    error: float
    spread: float
    timings: int


def peak(timings: Iterable[Timing], *, narrow: bool = False) -> float:
    """FLOP/s of the fastest arithmetic of a width; 0 if there is none."""
    rates = [t.flops / t.fastest for t in timings if t.flops and t.narrow == narrow]
    return max(rates, default=0.0)


def fit_efficiency(timings: Sequence[Timing], ideal: Sequence[float]) -> Fit:
    """The part of both peaks that a kind of layer gets.

    Parameters
    ----------
    timings : sequence of Timing
        Of one kind; not empty.
    ideal : sequence of float
        Seconds that each takes at both peaks, of which it waits for the longer one.
    """
    return _fit(timings, ideal, most=1.0)


def fit_rate(timings: Sequence[Timing], overhead_seconds: float = 0.0) -> Fit:
    """Bytes per second of a kind of work that takes so long before it begins.

    Parameters
    ----------
    timings : sequence of Timing
        Of one kind, each longer than the overhead; not empty.
    overhead_seconds : float
    """
    work = [timing.nbytes for timing in timings]
    return _fit(timings, work, overhead_seconds=overhead_seconds)


def _fit(
    timings: Sequence[Timing],
    work: Sequence[float],
    *,
    most: float = math.inf,
    overhead_seconds: float = 0.0,
) -> Fit:
    took = [timing.fastest for timing in timings]
    value = min(most, sum(work) / sum(each - overhead_seconds for each in took))
    off = [
        abs(seconds - overhead_seconds - each / value)
        for seconds, each in zip(took, work, strict=True)
    ]
    return Fit(
        kind=timings[0].kind,
        value=value,
        error=sum(off) / sum(took),
        spread=max(timing.spread for timing in timings),
        timings=len(timings),
    )
