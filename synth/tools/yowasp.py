"""Tools that the YoWASP wheels bring: Yosys, nextpnr and the like, as WebAssembly.

WebAssembly sees the folder that a tool runs in and nothing else of the disk, so that paths are
relative to it.
"""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cdma.synth.errors import SynthError, TooSlowError

_LAST_LINES = 3
_LONGEST_LINE = 200


@dataclass(frozen=True)
class Tool:
    """A tool in a wheel.

    Attributes
    ----------
    name : str
        The name as its makers write it.
    package : str
        The Python package; the wheel has dashes instead of underscores.
    function : str
        The package's function that takes the arguments and returns the exit status.
    """

    name: str
    package: str
    function: str

    @property
    def log(self) -> str:
        """Name of the log file, in the folder that the tool ran in."""
        return f"{self.name}.log".lower()

    @property
    def wheel(self) -> str:
        """Name of the wheel that pip installs."""
        return self.package.replace("_", "-")

    def version(self) -> str:
        """Version of the wheel.

        Raises
        ------
        SynthError
            If it is not installed.
        """
        try:
            return version(self.wheel)
        except PackageNotFoundError:
            raise SynthError(
                f"{self.name} is missing; install it with: pip install {self.wheel}"
            ) from None


def run_tool(
    tool: Tool, arguments: list[str], folder: Path, *, timeout_s: float | None = None
) -> None:
    """Run a tool in a folder; all that it says goes to its log there.

    Raises
    ------
    SynthError
        If the tool is not installed, or fails; the message has its last lines and the log's path.
    TooSlowError
        If it has not ended in its time; none if not given.
    """
    if importlib.util.find_spec(tool.package) is None:
        raise SynthError(f"{tool.name} is missing; install it with: pip install {tool.wheel}")
    run = f"import sys, {tool.package}; sys.exit({tool.package}.{tool.function}(sys.argv[1:]))"
    log = folder / tool.log
    with log.open("w", encoding="utf-8") as file:
        try:
            done = subprocess.run(
                [sys.executable, "-c", run, *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            raise TooSlowError(f"{tool.name} did not end in {timeout_s} s; see {log}") from error
    if done.returncode != 0:
        text = log.read_text(encoding="utf-8", errors="replace")
        said = _last_lines(text) or f"it ended with status {done.returncode}"
        raise SynthError(f"{tool.name} failed: {said}; see {log}")


def _last_lines(text: str) -> str:
    """The last lines of a tool's output, which have its errors, or the reason if WebAssembly
    failed.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    chosen = [line for line in lines if line.startswith("ERROR")] or [
        line for line in lines if not line.startswith((" ", "note:", "Info:"))
    ]
    return "; ".join(line.strip()[:_LONGEST_LINE] for line in chosen[-_LAST_LINES:])
