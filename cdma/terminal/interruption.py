"""SIGINT and SIGTERM: everything is cleaned up, and no compiler goes on alone.

Either one raises `KeyboardInterrupt` in the main thread, so that whatever removes temporary files
does so. Programs that we have started (compilers, Yosys, and what they have started) are ended
until there are none: a worker thread may begin another one before it hears of the end.

The kernel may give a signal to any thread, and does so while the main one starts a program. Python
then only takes note of it, and the main thread, which alone may act, can be in a call by then that
lasts as long as the program. So a thread of its own hears of each signal and wakes the main one.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SWEEP_S = 0.05
PATIENCE_S = 3.0
"""After so long, whoever has not ended by himself is killed."""
LONGEST_S = 10.0
"""So long an interrupted command waits for its children."""

_WAKE = signal.SIGURG
"""Interrupts a call and means nothing else; nobody is sent it who does not ask for it."""
_WAKER_STACK_BYTES = 256 << 10

_PR_SET_CHILD_SUBREAPER = 36


class Interruption:
    """A context in which both signals end the command in the same way.

    Signals that are ignored, as SIGINT is behind `nohup ... &`, stay so. In a thread that is not
    the main one, where Python has no signals, it does nothing.

    Attributes
    ----------
    signal : int or None
        Which one has come first.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._hook = sys.unraisablehook
        self._swallowed = threading.Event()
        self._sweeper: threading.Thread | None = None
        self._ended = threading.Event()
        self._waker: threading.Thread | None = None
        self._pipe = (-1, -1)
        self._wakeup_before = -1

    @property
    def status(self) -> int | None:
        """The exit status of a command that a signal has ended, as shells have it."""
        return None if self.signal is None else 128 + self.signal

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for each in SIGNALS:
                if signal.getsignal(each) is not signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._interrupt)
            self._before[_WAKE] = signal.signal(_WAKE, lambda number, frame: None)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            self._wakeup_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            self._waker = threading.Thread(target=self._wake, daemon=True)
            # It calls hardly anything, and a command may have to do with little memory.
            usual = threading.stack_size(_WAKER_STACK_BYTES)
            self._waker.start()
            threading.stack_size(usual)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._sweeper is not None:
            self._sweeper.join(LONGEST_S)
        for each, handler in self._before.items():
            signal.signal(each, handler)
        if self._waker is not None:
            sys.unraisablehook = self._hook
            signal.set_wakeup_fd(self._wakeup_before)
            # A full pipe wakes it as well.
            with suppress(BlockingIOError):
                os.write(self._pipe[1], b"\0")
            self._waker.join()
            for end in self._pipe:
                os.close(end)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
            # Before anything ends: our caller's handlers kill what they wait for.
            _adopt_orphans()
            self._sweeper = threading.Thread(target=self._sweep, daemon=True)
            self._sweeper.start()
        raise KeyboardInterrupt

    def _wake(self) -> None:
        """Wake the main thread after a signal, until it has acted."""
        while not self._ended.is_set():
            numbers = os.read(self._pipe[0], 64)
            if not set(numbers) & set(SIGNALS):
                continue
            # A process that was forked off us may write there too, and then nobody acts.
            for _ in range(int(LONGEST_S / SWEEP_S)):
                if self.signal is not None or self._ended.wait(SWEEP_S):
                    break
                _signal_main(_WAKE)

    def _unraisable(self, unraisable: Any) -> None:
        # The interpreter may be where no exception can be raised, as in a weak reference's callback
        # during an import. It would print a traceback and go on; so interrupt it again.
        if self.signal is not None and issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._swallowed.set()
        else:
            self._hook(unraisable)

    def _sweep(self) -> None:
        """End our descendants, until the command has ended and there are none."""
        asked: set[int] = set()
        waited = 0.0
        while True:
            found = _descendants()
            for pid in found:
                if pid not in asked:
                    asked.add(pid)
                    number = signal.SIGTERM
                elif waited >= PATIENCE_S:
                    number = signal.SIGKILL
                else:
                    continue
                with suppress(OSError):
                    os.kill(pid, number)
            if self._ended.is_set() and not found:
                return
            if self._swallowed.is_set() and not self._ended.is_set():
                self._swallowed.clear()
                assert self.signal is not None
                _signal_main(self.signal)
            time.sleep(SWEEP_S)
            waited += SWEEP_S


def _signal_main(number: int) -> None:
    """Send a signal to the main thread itself, so that a call ends which it has begun."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, number)


def _adopt_orphans() -> None:
    """Let processes be ours whose parent, which was one of ours, has ended before them.

    A compiler ends before the programs that it has started, if it is killed.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _descendants() -> list[int]:
    """Processes that we have started, and those that they have, but for those that have ended."""
    children: dict[int, list[int]] = {}
    ended = set()
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            # As bytes: an encoding may have to be imported, and an import may be interrupted.
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The program's name, in brackets, may have spaces and brackets.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                children.setdefault(int(parent), []).append(int(name))
                if state in (b"Z", b"X"):
                    ended.add(int(name))
    found = list(children.get(os.getpid(), []))
    for pid in found:
        found += children.get(pid, [])
    return [pid for pid in found if pid not in ended]
