"""A point that is a command line of `cdma`, in a process of its own."""

import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory

from cdma.errors import UserError
from cdma.sweep.point import PointResult

_ERROR = "cdma: error: "
_LONGEST = 2000
"""Characters of a traceback that are passed on; its end tells most."""


def run_command(arguments: tuple[str, ...], folder: str | None, out: str | None) -> PointResult:
    """Run a command and return the JSON object that it prints.

    A process of its own takes the simulators and solvers of the command with it when it ends, or
    when it is killed.

    Parameters
    ----------
    arguments : tuple of str
        As behind `cdma`; they ask for JSON.
    folder : str or None
        Where it runs, for paths in the arguments; None for any folder.
    out : str or None
        An option that names a folder for the command's own files, which nobody needs afterwards.

    Raises
    ------
    UserError
        The command's exit status is not 0; or there is no such folder here.
    """
    if folder is not None and not os.path.isdir(folder):
        raise UserError(f"there is no folder {folder} on this worker; share it between machines")
    with TemporaryDirectory(prefix="cdma-point-") as scratch:
        own = [] if out is None else [out, os.path.join(scratch, "out")]
        done = subprocess.run(
            # -P: a package of the user's that is called like one of ours is not imported.
            [sys.executable, "-P", "-m", "cdma", *arguments, *own],
            cwd=folder or scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        raise UserError(_reason(done.returncode, done.stderr))
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def _reason(status: int, stderr: str) -> str:
    """The command's own error; of one that has none, how it ended and what it said last."""
    lines = stderr.strip().splitlines()
    for line in reversed(lines):
        if line.startswith(_ERROR):
            return line.removeprefix(_ERROR)
    ended = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
    said = "\n".join(lines)[-_LONGEST:]
    return f"{ended}: {said}" if said else ended
