"""Runs of pytest that need not start Python and load Amaranth again: each forks one process.

`python tests/mutation/server.py` reads the arguments of a run from a line, as JSON, and answers
with the status of the process that ran them.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from select import select

import pytest

PROGRAM = Path(__file__)

LOADED = ("numpy", "amaranth.hdl", "amaranth.lib.wiring", "amaranth.back.rtlil", "rich")
"""Nothing of the checkout, which changes, and no plugin, whose assertions pytest rewrites."""


class Server:
    """Runs pytest in a folder, one run after the other.

    Parameters
    ----------
    folder : Path
    environment : Mapping
        Variables.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str], seconds: float) -> int | None:
        """Pytest's status, or None if it takes longer than that; it is stopped then.

        Less than zero if a signal has ended it.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(PROGRAM)],
                cwd=self.folder,
                env=dict(self.environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                # So that all that a run has started can be stopped.
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(arguments)) + "\n")
        self._process.stdin.flush()
        if not select([self._process.stdout], [], [], seconds)[0]:
            self.close()
            return None
        answer = self._process.stdout.readline()
        if not answer:
            self.close()
        return int(answer or -signal.SIGKILL)

    def close(self) -> None:
        """Stop the process, and what it runs."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


def serve() -> None:
    """Run each line's arguments in a fork, and print its status."""
    for module in LOADED:
        import_module(module)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            _run(json.loads(line))
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(arguments: list[str]) -> None:
    with open(os.devnull, "r+b") as nothing:
        for stream in range(3):
            os.dup2(nothing.fileno(), stream)
    try:
        status = int(pytest.main(arguments))
    except BaseException:
        status = int(pytest.ExitCode.INTERNAL_ERROR)
    os._exit(status)


if __name__ == "__main__":
    serve()
