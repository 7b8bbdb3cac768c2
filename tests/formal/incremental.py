"""A solver that is asked many questions about one model: Yices, and CaDiCaL where that takes long.

`solvers.py` answers one question. Here what was asserted for a question is taken back after it, and
most are answered at once; a few, such as whether two rows of comparators agree, Yices alone has not
answered in minutes, and CaDiCaL does in a fraction of a second.
"""

import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.formal import solvers
from tests.formal.smtbmc import UndecidedError

SOON_S = 0.3
"""Within that, Yices is asked alone: there are thousands of questions."""

POLL_S = 0.05
"""So often both are looked at, while both are asked."""

_VALUE = re.compile(r"\((\w+)\s+(?:#b([01]+)|(true|false))\)")


class IncrementalSolver:
    """A solver with a stack of assertions.

    Parameters
    ----------
    program
        Path of `yices-smt2`.
    seconds
        What it has for all that it is asked.
    text
        What it is told first: declarations and definitions.
    """

    def __init__(self, program: str, seconds: float, text: Sequence[str]) -> None:
        self._program = program
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        # What each level of the stack has been told.
        self._told: list[list[str]] = [[]]
        # Without memories it is several times as fast.
        logic = "QF_AUFBV" if any("(Array" in line for line in text) else "QF_BV"
        self._begin()
        self.tell("(set-option :produce-models true)", f"(set-logic {logic})", *text)

    def __enter__(self) -> "IncrementalSolver":
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop()

    def tell(self, *commands: str) -> None:
        """Assert and define, and go up and down the stack by `(push 1)` and `(pop 1)`."""
        for command in commands:
            if command == "(push 1)":
                self._told.append([])
            elif command == "(pop 1)":
                self._told.pop()
            else:
                self._told[-1].append(command)
        self._write(*commands)

    def satisfiable(self) -> bool:
        """Ask whether all that the solver was told can hold.

        Raises
        ------
        UndecidedError
            If it does not say in its time.
        """
        self._write("(check-sat)")
        if not self._has_answered(SOON_S) and self._is_refuted():
            self._stop()
            self._begin()
            inner = [command for level in self._told[1:] for command in ("(push 1)", *level)]
            self._write(*self._told[0], *inner)
            return False
        answer = self._read()
        if answer not in ("sat", "unsat"):
            raise UndecidedError(f"the solver says: {answer}")
        return answer == "sat"

    def values(self, names: Iterable[str]) -> dict[str, int]:
        """The values of terms in the example that the solver has found."""
        self._write(f"(get-value ({' '.join(names)}))")
        return {
            name: int(bits, 2) if bits else int(flag == "true")
            for name, bits, flag in _VALUE.findall(self._read())
        }

    def _is_refuted(self) -> bool:
        """Return True if CaDiCaL says, before Yices does, that there is no solution."""
        told = [command for level in self._told for command in level]
        with tempfile.TemporaryDirectory() as folder:
            question = "\n".join([*told, "(check-sat)"])
            file = solvers.write_clauses(self._program, question, Path(folder))
            if file is None:
                return False
            command = [sys.executable, solvers.__file__, "--clauses", str(file)]
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as second:
                try:
                    while second.poll() is None:
                        if self._has_answered(POLL_S):
                            return False
                finally:
                    second.kill()
            return second.returncode == solvers.UNSATISFIABLE

    def _begin(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [self._program, "--incremental"],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What it was told last may not have gone out, and need not.
                with suppress(BrokenPipeError):
                    pipe.close()

    def _write(self, *commands: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n".join([*commands, ""]))
        except BrokenPipeError as error:
            raise self._undecided() from error

    def _has_answered(self, within_s: float) -> bool:
        """Return True if there is an answer; wait for it no longer than that.

        Raises
        ------
        UndecidedError
            If the time for all questions is over.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._undecided() from error
        left = self._end - time.monotonic()
        if select.select([self._process.stdout], [], [], max(min(within_s, left), 0))[0]:
            return True
        if within_s >= left:
            self._process.kill()
            raise self._undecided()
        return False

    def _read(self) -> str:
        """The answer to what was written last."""
        assert self._process.stdout is not None
        self._has_answered(self._seconds)
        answer = self._process.stdout.readline()
        while answer and answer.count("(") > answer.count(")"):
            answer += self._process.stdout.readline()
        if not answer:
            raise self._undecided()
        return answer.strip()

    def _undecided(self) -> UndecidedError:
        """Whatever it has said last, or that it has said nothing."""
        assert self._process.stdout is not None
        said = self._process.stdout.read().strip()
        return UndecidedError(said or f"not decided in {self._seconds} s")
