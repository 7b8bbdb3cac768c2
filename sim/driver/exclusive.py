"""One driver for each ring of a machine, and one thread at a time in a driver."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, ref

from cdma.sim.driver.errors import ConcurrentUseError, DriverError

P = ParamSpec("P")
R = TypeVar("R")


class Exclusive:
    """A lock that refuses instead of waiting: two threads in a driver are a mistake of its caller.

    The thread that holds it may take it again.

    Parameters
    ----------
    what : str
        What it protects, for messages.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.closed = False
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUseError(
                f"another thread is using {self.what}; let one thread call it at a time"
            )
        if self.closed:
            self._lock.release()
            raise DriverError(f"{self.what} is closed; make another one")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def close(self) -> None:
        """Refuse all further calls, and let another driver have the machine."""
        self.closed = True


class Guarded(Protocol):
    """An object whose methods `exclusive` may wrap."""

    @property
    def _guard(self) -> Exclusive: ...


G = TypeVar("G", bound=Guarded)


def exclusive(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """Wrap a method so that it runs under its object's guard."""

    @wraps(method)
    def guarded(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._guard:
            return method(self, *args, **kwargs)

    return guarded


_owners: WeakKeyDictionary[object, dict[int, ReferenceType[Exclusive]]] = WeakKeyDictionary()


@contextmanager
def claimed(machine: object, guard: Exclusive, ring: int = 0) -> Iterator[set[int]]:
    """Make a machine's ring that of the driver with this guard, until it is closed or forgotten.

    The body gets the rings of the machine that have other drivers. If the body, which sets the
    machine up, raises, the guard is closed: the exception's traceback may keep it alive for long.

    Raises
    ------
    DriverError
        Another driver has it: each would hand out memory that the other one uses.
    """
    owners = _owners.setdefault(machine, {})
    live = {
        number: other
        for number, owner in owners.items()
        if (other := owner()) is not None and not other.closed
    }
    if ring in live:
        what = f"ring {ring} of the machine" if ring else "the machine"
        raise DriverError(f"{what} has a driver already; use {live[ring].what}, or close it first")
    owners[ring] = ref(guard)
    try:
        yield set(live)
    except BaseException:
        guard.close()
        raise
