"""Progress of work that may take long: code that does it reports, and an observer may show it.

Nothing is shown unless somebody observes; only the command line does (`cdma.terminal.progress`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Observer(Protocol):
    """Receives every report, on the thread that makes it."""

    def __call__(self, phase: str, done: int, total: int) -> None: ...


_observers: list[Observer] = []


def report(phase: str, done: int, total: int) -> None:
    """Tell the observer how much of a phase is done.

    Call it with `done` 0 when a phase begins, and with `total` when it ends. Several phases may be
    open at once, and a phase that has ended may begin again.

    Parameters
    ----------
    phase
        What is being done, in a word or two, as "C++".
    done, total
        In any unit that a reader can count, as files.
    """
    if _observers:
        _observers[-1](phase, done, total)


class Tally:
    """Counts and reports the steps of a phase, on one thread; the phase begins with the object.

    Parameters
    ----------
    phase
        As of `report`.
    total
        Steps that there are, as far as is known.
    """

    def __init__(self, phase: str, total: int) -> None:
        self.phase = phase
        self.total = total
        self.done = 0
        report(phase, 0, total)

    def found(self, steps: int) -> None:
        """Add steps to those that are known."""
        if steps:
            self.total += steps
            report(self.phase, self.done, self.total)

    def step(self) -> None:
        """Count one more step as done."""
        self.done += 1
        report(self.phase, self.done, self.total)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Send every report of the block, from any thread, to `observer` and to nobody else."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.pop()
