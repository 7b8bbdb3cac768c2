"""Builds that all benches, all of pytest's workers and all later runs share.

They lie in the simulators' cache, under a hash of what they are built from.
"""

import os
import shutil
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from cdma.builds.cache import cached, digest
from cdma.builds.compiler import compiler_version
from cdma.hw.emit.verilog import Verilog
from tests.hw.cocotb import simulate
from tests.hw.cocotb.simulate import (
    RUNTIME,
    Build,
    build_icarus,
    build_verilator,
    icarus_version,
)
from tests.lib.requirements import ICARUS, LIBPYTHON, require


def built(simulator: str, verilog: Verilog) -> Build:
    """The build of that text, made unless it is in the cache."""
    require(LIBPYTHON)
    if simulator == "icarus":
        require(ICARUS)
    key = digest(verilog.name, verilog.text, *_tools(simulator))

    def build(into: Path) -> None:
        if simulator == "verilator":
            build_verilator(verilog, into, runtime=_runtime())
        else:
            build_icarus(verilog, into)

    return Build(simulator, verilog.name, cached(f"cocotb-{simulator}-{verilog.name}-{key}", build))


def _runtime() -> Path:
    """Verilator's runtime, compiled once: it takes longer than a top."""
    least = Verilog("least", "module least (input clk); endmodule\n", {})

    def build(into: Path) -> None:
        top = build_verilator(least, into / "least")
        for compiled in top.folder.glob(RUNTIME):
            shutil.copy(compiled, into / compiled.name)
        shutil.rmtree(top.folder)

    return cached(f"cocotb-runtime-{digest(*_tools('verilator'))}", build)


@cache
def _tools(simulator: str) -> tuple[str, ...]:
    """Tools that a build depends on besides its text. It is linked to this environment's cocotb."""
    tool = icarus_version() if simulator == "icarus" else version("verilator") + compiler_version()
    # The runner builds for waves if the environment asks for them.
    waves = os.environ.get("WAVES", "")
    return (tool, version("cocotb"), sys.prefix, waves, Path(simulate.__file__).read_text())
