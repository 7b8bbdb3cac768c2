"""OpenSTA, where it is installed: a second opinion of a netlist's timing.

It times paths from flip-flop to flip-flop alone, with the library's wire load if it has one.
Memories and ports are left out; `slowest_path(…, between_registers=True)` is the same of ours.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cdma.synth.errors import SynthError
from cdma.synth.gates.library import Library

EXECUTABLE = "sta"
SCRIPT, NETLIST, LOG = "opensta.tcl", "opensta.v", "opensta.log"
CLOCK = "clk"
_SLACK = re.compile(r"^\s*(-?[\d.]+)\s+slack\b", re.MULTILINE)


def opensta_period_ps(module: dict[str, Any], library: Library, folder: Path) -> float:
    """The shortest period by OpenSTA, from flip-flop to flip-flop.

    Parameters
    ----------
    module
        As in Yosys' JSON, flat, with one clock of the name `CLOCK`.
    library
    folder
        Where the script, the netlist and the log go.

    Raises
    ------
    SynthError
        If OpenSTA is not installed, fails, or finds no path.
    """
    found = shutil.which(EXECUTABLE)
    if found is None:
        raise SynthError(
            f"OpenSTA ({EXECUTABLE}) is not on PATH; install it, for example with "
            "`apt-get install opensta`, or leave --opensta away"
        )
    script = [
        f"read_liberty {{{library.path.resolve()}}}",
        f"read_verilog {NETLIST}",
        "link_design top",
        f"create_clock -name {CLOCK} -period 1 [get_ports {CLOCK}]",
        "report_checks -path_delay max -digits 6",
        "exit",
    ]
    (folder / SCRIPT).write_text("\n".join([*script, ""]), encoding="utf-8")
    (folder / NETLIST).write_text("\n".join(_verilog(module, library)), encoding="utf-8")
    log = folder / LOG
    with log.open("w", encoding="utf-8") as file:
        arguments = [found, "-no_splash", "-exit", SCRIPT]
        done = subprocess.run(
            arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
    slack = _SLACK.search(log.read_text(encoding="utf-8", errors="replace"))
    if done.returncode != 0 or slack is None:
        raise SynthError(f"OpenSTA found no path from register to register; see {log}")
    return (1 - float(slack[1])) * library.ps_per_unit


def _verilog(module: dict[str, Any], library: Library) -> Iterator[str]:
    """The cells with plain names, which every version reads; nets of no driver stay open."""
    clock = module["ports"][CLOCK]["bits"][0]
    yield f"module top ({CLOCK});"
    yield f"input {CLOCK};"
    kept = [cell for cell in module["cells"].values() if cell["type"] in library.cells]
    nets = {bit for cell in kept for bits in cell["connections"].values() for bit in bits}
    names = {bit: f"n{bit}" if isinstance(bit, int) else f"1'b{bit}" for bit in nets}
    names[clock] = CLOCK
    for name in sorted(names[bit] for bit in nets - {clock} if isinstance(bit, int)):
        yield f"wire {name};"
    for number, cell in enumerate(kept):
        pins = ", ".join(
            f".{pin}({names[bits[0]]})" for pin, bits in cell["connections"].items() if bits
        )
        yield f"{cell['type']} c{number} ({pins});"
    yield "endmodule"
    yield ""
