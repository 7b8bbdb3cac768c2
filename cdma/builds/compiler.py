"""The C++ compiler, and libraries of one source file."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cdma.builds.cache import cached, digest
from cdma.builds.errors import BuildError
from cdma.builds.progress import Tally


def compile_source(source: Path, headers: Mapping[str, str] | None = None) -> Path:
    """The shared library of one C++ file, built unless it is in the cache. Takes a second or two.

    Parameters
    ----------
    source : path
    headers : mapping of str to str
        Generated headers that it includes: their texts, by file name.

    Raises
    ------
    BuildError
        g++ is missing (the message says what to install), or the cache cannot be written.
    """
    command = compiler()
    flags = ("-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-shared")
    generated = [text for pair in sorted((headers or {}).items()) for text in pair]
    key = digest(compiler_version(), *flags, source.read_text(), *generated)

    def build(work: Path) -> None:
        progress = Tally("C++", 1)
        for name, text in (headers or {}).items():
            (work / name).write_text(text)
        run_tool([command, *flags, f"-I{work}", str(source), "-o", str(work / "library.so")])
        progress.step()

    return cached(f"{source.stem}-{key}", build) / "library.so"


def compiler() -> str:
    """Find the path of g++; `BuildError` if there is none, with what to install."""
    found = shutil.which("g++")
    if found is None:
        raise BuildError(
            "g++ is not on PATH; the simulator needs a C++20 compiler: "
            "install it, for example with `apt-get install g++`"
        )
    return found


def compiler_version() -> str:
    """Read the version line that g++ prints; `BuildError` if there is none."""
    return _version_of(compiler())


@cache
def _version_of(command: str) -> str:
    return run_tool([command, "--version"])


def run_tool(
    command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> str:
    """Run a compiler and return what it prints; `BuildError` with the end of that if it fails."""
    if "-o" in command:
        # A compiler that is killed leaves its temporary files: in the folder that is given up, too.
        made = Path(command[command.index("-o") + 1])
        env = {**os.environ, "TMPDIR": str(made.parent)}
    done = subprocess.run(
        command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        raise BuildError(
            f"{Path(command[0]).name} failed with exit status {done.returncode}:\n"
            + done.stdout[-4000:]
        )
    return done.stdout
