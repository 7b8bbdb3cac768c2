"""The cache of built simulators. A compiler that keeps a log counts what is built."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cdma.builds.progress import observed
from cdma.sim.machine import BuildError, build_library, cache_directory

BUILD = """
import json, sys
from types import SimpleNamespace
from cdma.sim.machine import build_library
print(build_library(SimpleNamespace(**json.load(sys.stdin))))
"""


class Compiler:
    """A g++ on PATH that notes its arguments; `before` is shell that runs first."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.log = folder / "calls"
        folder.mkdir()
        self.install()
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def install(self, before: str = "") -> None:
        real = shutil.which("g++", path=os.environ["PATH"].replace(str(self.folder), ""))
        wrapper = self.folder / "g++"
        wrapper.write_text(f'#!/bin/sh\necho "$@" >> "{self.log}"\n{before}\nexec "{real}" "$@"\n')
        wrapper.chmod(0o755)

    def calls(self, argument: str) -> int:
        """The number of calls with this argument."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return sum(argument in line.split() for line in lines)


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    return Compiler(tmp_path / "bin", monkeypatch)


@pytest.fixture
def cache(echo, tmp_path, monkeypatch):
    """An empty cache, but for the simulator's runtime, which takes long to build."""
    build_library(echo())
    runtimes = list(cache_directory().glob("runtime-*[!k]"))
    folder = tmp_path / "cache"
    folder.mkdir()
    for runtime in runtimes:
        (folder / runtime.name).symlink_to(runtime)
    monkeypatch.setenv("CDMA_CACHE", str(folder))
    return folder


def start_build(rtl) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    process.stdin.write(json.dumps({"name": rtl.name, "text": rtl.text}))
    process.stdin.close()
    return process


def finish_build(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    assert process.stderr
    with process.stdout, process.stderr:
        errors = process.stderr.read()
        output = process.stdout.read().strip()
    assert process.wait() == 0, errors
    return output


def built(cache: Path) -> list[str]:
    """The folders in the cache, less the runtime."""
    return [
        path.name
        for path in cache.iterdir()
        if not path.name.startswith("runtime-") and path.suffix != ".lock"
    ]


def test_a_second_build_compiles_nothing(echo, cache, compiler):
    first = build_library(echo())
    compiled = compiler.calls("-c")
    assert compiled > 0
    assert compiler.calls("-shared") == 1
    assert build_library(echo()) == first
    # A process that has never built before, either.
    assert finish_build(start_build(echo())) == str(first)
    assert compiler.calls("-c") == compiled
    assert compiler.calls("-shared") == 1
    assert built(cache) == [first.parent.name]


def test_a_build_reports_its_tools(echo, cache):
    reports = []
    with observed(lambda *what: reports.append(what)):
        build_library(echo())
        build_library(echo())
    # The second time there is nothing to do.
    assert reports == [("Verilator", 0, 1), ("Verilator", 1, 1), ("C++", 0, 1), ("C++", 1, 1)]


@pytest.mark.verify
def test_other_rtl_is_another_library(echo, cache, compiler):
    first = build_library(echo())
    changed = echo()
    second = build_library(type(changed)(changed.name, changed.text + "// changed\n"))
    assert first != second
    assert first.exists()
    assert second.exists()
    assert compiler.calls("-shared") == 2


@pytest.mark.verify
@pytest.mark.always
def test_two_processes_at_once_build_once(echo, cache, compiler):
    # The link waits a moment, so that both are under way.
    compiler.install(before='case "$*" in *-shared*) sleep 0.5;; esac')
    processes = [start_build(echo()), start_build(echo())]
    paths = {finish_build(process) for process in processes}
    assert len(paths) == 1
    assert Path(paths.pop()).exists()
    assert compiler.calls("-shared") == 1


@pytest.mark.verify
@pytest.mark.always
def test_a_killed_build_leaves_nothing_that_counts(echo, cache, compiler):
    compiler.install(before='case "$*" in *-shared*) kill -9 $PPID;; esac')
    process = start_build(echo())
    with pytest.raises(AssertionError):
        finish_build(process)
    assert process.returncode == -signal.SIGKILL
    assert all(name.endswith(".partial") for name in built(cache))

    compiler.install()
    path = build_library(echo())
    assert path.exists()
    assert built(cache) == [path.parent.name]


def test_rtl_that_is_not_accepted_leaves_nothing(echo, cache):
    rtl = echo()
    broken = type(rtl)(rtl.name, rtl.text.replace("endmodule", "endmodul"))
    with pytest.raises(BuildError, match=r"verilator_bin failed .*(\n.*)*echo.sv:\d+"):
        build_library(broken)
    assert built(cache) == []


def test_a_missing_compiler(echo, cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"g\+\+ is not on PATH; .*`apt-get install g\+\+`"):
        build_library(echo())
    assert built(cache) == []


def test_missing_headers_for_fst(echo, cache, compiler):
    compiler.install(before='case "$*" in *-fsyntax-only*) exit 1;; esac')
    with pytest.raises(
        BuildError, match=r"FST waves need .*`apt-get install liblz4-dev zlib1g-dev"
    ):
        build_library(echo(), trace="fst")
    assert built(cache) == []


def test_a_cache_that_cannot_be_written(echo, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    cache = tmp_path / "file" / "cache"
    monkeypatch.setenv("CDMA_CACHE", str(cache))
    with pytest.raises(BuildError, match=rf"{cache}: Not a directory; set CDMA_CACHE to"):
        build_library(echo())


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"CDMA_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"CDMA_CACHE": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/cdma"),
        ({"CDMA_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/cdma"),
    ],
)
def test_where_the_cache_is(monkeypatch, variables, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(expected)
