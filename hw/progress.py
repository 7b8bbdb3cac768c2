"""How far work has come that may take long. Whoever does it reports, and an observer may show it.

Nothing is shown unless somebody observes, which only the command line does (`cdma.progress`).
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


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Send every report of the block, from any thread, to `observer` and to nobody else."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.pop()
