"""Progress of long work on stderr: a bar per phase on a terminal, plain lines elsewhere.

Only this module shows what the rooms below report to `cdma.builds.progress`.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from cdma.builds.progress import observed

SHOWN_AFTER_S = 2.0
"""Work that is done sooner shows nothing."""

LINE_EVERY_S = 2.0
"""Where there is no terminal, no line follows another sooner than this."""


class Timer(Protocol):
    """The part of `threading.Timer` that is used."""

    def start(self) -> None: ...
    def cancel(self) -> None: ...


@contextmanager
def shown() -> Iterator[None]:
    """Show the progress that is reported in the block on stderr."""
    display = ProgressDisplay(sys.stderr, after_s=SHOWN_AFTER_S, every_s=LINE_EVERY_S)
    try:
        with observed(display):
            yield
    finally:
        display.close()


class ProgressDisplay:
    """Shows the phases that are open. When all of them have ended, nothing is left of the bars.

    Parameters
    ----------
    stream : text file
        A terminal gets bars, and anything else lines such as "cdma: RTL 40/129, C++ 3/8".
    after_s : float
        The first report starts this delay, and nothing is shown before it is over.
    every_s : float
        The least time between two lines.
    clock : callable
        Returns the time in seconds.
    timer : callable
        Makes a timer from a delay in seconds and a function.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        after_s: float,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[float, Callable[[], None]], Timer] | None = None,
    ) -> None:
        dumb = os.environ.get("TERM") in ("dumb", "unknown")
        self._output: _Bars | _Lines
        if stream.isatty() and not dumb:
            self._output = _Bars(stream)
        else:
            self._output = _Lines(stream, every_s, clock)
        self._after_s = after_s
        self._make_timer = timer or _daemon_timer
        self._timer: Timer | None = None
        self._visible = after_s <= 0
        self._phases: dict[str, tuple[int, int]] = {}
        # Reports come from the threads that work, and the delay ends on one of its own.
        self._lock = threading.Lock()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Take a report; an `cdma.builds.progress.Observer`."""
        with self._lock:
            self._phases[phase] = (done, total)
            if self._visible:
                self._draw()
            elif self._timer is None:
                self._wait(self._after_s)
            if all(done >= total for done, total in self._phases.values()):
                self._output.clear()
                self._phases = {}

    def close(self) -> None:
        """Remove what is shown. Work that failed leaves phases open."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._output.clear()
            # The delay may be ending at this moment, in another thread.
            self._phases = {}

    def _wait(self, delay_s: float) -> None:
        self._timer = self._make_timer(delay_s, self._show)
        self._timer.start()

    def _show(self) -> None:
        """A delay is over."""
        with self._lock:
            self._timer = None
            self._visible = True
            if self._phases:
                self._draw()

    def _draw(self) -> None:
        delay_s = self._output.draw(self._phases)
        # A phase that begins too soon for a line, and then takes long, must have one later.
        if delay_s > 0 and self._timer is None:
            self._wait(delay_s)


def _daemon_timer(delay_s: float, function: Callable[[], None]) -> Timer:
    timer = threading.Timer(delay_s, function)
    # It must not keep the program from ending.
    timer.daemon = True
    return timer


class _Lines:
    """A line when enough time has passed since the one before, and one when all is done."""

    def __init__(self, stream: TextIO, every_s: float, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._every_s = every_s
        self._clock = clock
        self._last_s: float | None = None
        self._last_text = ""
        self._pending = ""

    def draw(self, phases: dict[str, tuple[int, int]]) -> float:
        """Print a line, or return in how many seconds there may be one."""
        states = (f"{phase} {done}/{total}" for phase, (done, total) in phases.items())
        self._pending = f"cdma: {', '.join(states)}"
        if self._pending == self._last_text:
            return 0.0
        now = self._clock()
        if self._last_s is not None and now - self._last_s < self._every_s:
            return self._last_s + self._every_s - now
        self._last_s = now
        self._print()
        return 0.0

    def clear(self) -> None:
        # The end of work that has a line, so that the last line is not of half of it.
        if self._last_text and self._pending != self._last_text:
            self._print()
        self._last_text = self._pending = ""

    def _print(self) -> None:
        self._last_text = self._pending
        print(self._pending, file=self._stream, flush=True)


class _Bars:
    """Bars that vanish."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._progress: Any = None
        self._tasks: dict[str, Any] = {}

    def draw(self, phases: dict[str, tuple[int, int]]) -> float:
        """Draw the bars; they may change at any time, so nothing is left for later."""
        if self._progress is None:
            self._progress = self._started()
        for phase, (done, total) in phases.items():
            if phase not in self._tasks:
                self._tasks[phase] = self._progress.add_task(phase, total=total)
            self._progress.update(self._tasks[phase], completed=done, total=total)
        return 0.0

    def clear(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress = None
        self._tasks = {}

    def _started(self) -> Any:
        # Most commands show no bar, and rich takes long to import.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=Console(file=self._stream),
            transient=True,
            # What commands print goes where it would go without a bar.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        progress.start()
        return progress
