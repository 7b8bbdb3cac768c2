"""Yices, and CaDiCaL where that takes long: a program that smtbmc starts in the place of Yices.

It answers one question and those about its model, as `yices-smt2` does without `--incremental`. If
Yices does not answer soon, it turns the question into a formula of clauses, and CaDiCaL is asked
whether that has a solution, which is the answer. Yices is asked again for the model, if anybody
wants it, and so it is where there are arrays, which it makes no clauses of. The file is run as a
program and imports nothing of the project.
"""

import os
import re
import select
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

SOON_S = 3.0
"""Within that, Yices is asked alone."""

ALONE_S = 120.0
"""Within that, CaDiCaL is asked alone; then both are."""

CADICAL = "cadical195"
SATISFIABLE, UNSATISFIABLE = 10, 20
"""Exit statuses, as those of SAT solvers are."""


def clauses_of(question: str) -> str | None:
    """A question without what Yices makes no clauses of, or None if that is needed.

    Parameters
    ----------
    question : str
        Commands of SMT-LIB, `check-sat` the last one.
    """
    if "Array" in question or "(select " in question:
        return None
    *commands, asked = question.splitlines()
    assumed = re.fullmatch(r"\(check-sat-assuming \((.*)\)\)", asked.strip())
    if assumed:
        commands += [f"(assert {name})" for name in re.findall(r"\|[^|]*\||\S+", assumed[1])]
    kept = [line for line in commands if not line.startswith(("(set-logic", "(set-option"))]
    return "\n".join(["(set-logic QF_BV)", *kept, "(check-sat)", ""])


def write_clauses(yices: str, question: str, folder: Path) -> Path | None:
    """Let Yices write a question's clauses, and return their file; None if it writes none."""
    text = clauses_of(question)
    if text is None:
        return None
    (folder / "question.smt2").write_text(text)
    file = folder / "question.cnf"
    export = [yices, f"--dimacs={file}", str(folder / "question.smt2")]
    made = subprocess.run(export, capture_output=True)
    return file if made.returncode == 0 and file.exists() else None


def solve(file: str) -> int:
    """Ask CaDiCaL about a file of clauses, and return the exit status."""
    from pysat.formula import CNF
    from pysat.solvers import Solver

    with Solver(name=CADICAL, bootstrap_with=CNF(from_file=file).clauses) as solver:
        return SATISFIABLE if solver.solve() else UNSATISFIABLE


class Race:
    """Yices with a question, and CaDiCaL once there is need of it."""

    def __init__(self, yices: str, options: list[str], question: str) -> None:
        self.command = [yices, *options]
        self.yices = yices
        self.question = question
        self.first = self._ask_yices()

    def answer(self) -> str:
        """Answer the question: what Yices says, which then has a model, or what CaDiCaL does."""
        if self._has_answered(SOON_S):
            return self._read()
        with tempfile.TemporaryDirectory() as folder:
            second = self._cadical(Path(folder))
            if second is None:
                return self._read()
            self.close()
            try:
                status = second.wait(ALONE_S)
            except subprocess.TimeoutExpired:
                self.first = self._ask_yices()
                status = self._first_of_both(second)
        if status == UNSATISFIABLE:
            return "unsat\n"
        is_asked = self.first.returncode is None
        if is_asked and self._has_answered(0):
            return self._read()
        if status == SATISFIABLE:
            self.close()
            return "sat\n"
        if not is_asked:
            self.first = self._ask_yices()
        return self._read()

    def find_model(self) -> None:
        """Ask Yices again about a question that has a solution: it then has one."""
        self.first = self._ask_yices()
        self._read()

    def close(self) -> None:
        """End Yices."""
        self.first.kill()
        self.first.wait()
        for pipe in (self.first.stdin, self.first.stdout):
            if pipe is not None:
                pipe.close()

    def _ask_yices(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        asked = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, bufsize=0)
        assert asked.stdin is not None
        asked.stdin.write(self.question.encode())
        return asked

    def _cadical(self, folder: Path) -> subprocess.Popen[bytes] | None:
        file = write_clauses(self.yices, self.question, folder)
        if file is None:
            return None
        # What it says of itself is no answer to smtbmc.
        command = [sys.executable, __file__, "--clauses", str(file)]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def _first_of_both(self, second: subprocess.Popen[bytes]) -> int:
        """Status of CaDiCaL, or that of a solution if Yices has answered before."""
        while second.poll() is None:
            if self._has_answered(1.0):
                second.kill()
                second.wait()
                return SATISFIABLE
        return second.returncode

    def _has_answered(self, within_s: float) -> bool:
        return bool(select.select([self.first.stdout], [], [], within_s)[0])

    def _read(self) -> str:
        assert self.first.stdout is not None
        return self.first.stdout.readline().decode()


def question_of(lines) -> str:
    """All up to the first `check-sat`, from lines that come one by one."""
    commands = []
    for line in lines:
        commands.append(line)
        if line.startswith("(check-sat"):
            break
    return "".join(commands)


def main(yices: str, options: list[str]) -> int:
    """Answer what comes at the standard input, and return the exit status."""
    if "--incremental" in options:
        os.execv(yices, [yices, *options])
    race = Race(yices, options, question_of(iter(sys.stdin.readline, "")))
    answer = race.answer()
    sys.stdout.write(answer)
    sys.stdout.flush()

    asked = sys.stdin.readline()
    if race.first.returncode is not None:
        # Without a model there is nothing to ask about, and often nobody asks.
        if answer.startswith("unsat") or asked.strip() in ("", "(exit)"):
            sys.stdin.read()
            return 0
        race.find_model()
    assert race.first.stdin is not None

    def pass_on() -> None:
        assert race.first.stdout is not None
        while piece := os.read(race.first.stdout.fileno(), 1 << 16):
            os.write(sys.stdout.fileno(), piece)

    answers = threading.Thread(target=pass_on)
    answers.start()
    while asked:
        race.first.stdin.write(asked.encode())
        asked = sys.stdin.readline()
    race.first.stdin.close()
    answers.join()
    return race.first.wait()


if __name__ == "__main__":
    if sys.argv[1] == "--clauses":
        raise SystemExit(solve(sys.argv[2]))
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
