"""Build times: a design to Verilog and to a simulator, and a command to its help.

Processor time of a process and its children, each in a process of its own with an empty cache.
"""

import os
import subprocess
import sys
import tempfile
from typing import Any

from rich.console import Console
from rich.table import Table

ROUNDS = 3
ENGINE = "titanx_gen3"

# Amaranth's own functions and the collector's own thresholds are the reference for both styles.
REFERENCE = """
import cdma.hw.emit.netlist
from contextlib import nullcontext
cdma.hw.emit.netlist.fast_conversion = nullcontext
"""
CONVERT = f"""
from cdma.hw.config import preset
from cdma.hw.emit.verilog import generate
generate("engine", preset("{ENGINE}"), style="STYLE")
"""
READABLE, NETLIST = (CONVERT.replace("STYLE", style) for style in ("readable", "netlist"))
BUILD = f"""
from cdma.hw.config import preset
from cdma.sim.machine.build.build import ENGINE_SHIM, build_library
from cdma.sim.machine.build.rtl import generated_engine
build_library(generated_engine(preset("{ENGINE}")), shim=ENGINE_SHIM)
"""
HELP = "from cdma.cli import main; main(['--help'])"
EAGER = """
import importlib
from cdma.app import COMMANDS
for name in COMMANDS:
    importlib.import_module(f"cdma.commands.{name}")
"""

PARTS = {
    f"{ENGINE} to Verilog": (READABLE, REFERENCE + READABLE, "Amaranth's own conversion"),
    f"{ENGINE} to a netlist": (NETLIST, REFERENCE + NETLIST, "Amaranth's own conversion"),
    "cdma --help": (HELP, EAGER + HELP, "all commands imported"),
    f"{ENGINE} to a simulator": (BUILD, None, ""),
}


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures in seconds of processor time."""
    table = Table(title="seconds of processor time")
    for column in ("", "s", "reference", "s", "ratio"):
        table.add_column(column, justify="left" if column in ("", "reference") else "right")
    figures: dict[str, Any] = {}
    for name, (code, reference, of) in PARTS.items():
        rounds = ROUNDS if reference else 1
        seconds = min(_seconds(code) for _ in range(rounds))
        figures[name] = {"seconds": seconds}
        cells = [name, f"{seconds:.2f}"]
        if reference:
            beside = min(_seconds(reference) for _ in range(rounds))
            figures[name] |= {"reference_seconds": beside, "ratio": seconds / beside}
            cells += [of, f"{beside:.2f}", f"{seconds / beside:.2f}"]
        table.add_row(*cells)
    console.print(table)
    return figures


def _seconds(code: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        before = os.times()
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "CDMA_CACHE": cache},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        after = os.times()
    children = after.children_user - before.children_user
    return children + after.children_system - before.children_system
