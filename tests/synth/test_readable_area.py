"""The text that people read, mapped by Yosys' own script: its area beside the netlist's.

Modules are mapped one by one and not flattened, so that engines and controllers, too, take minutes.
"""

import re

import pytest

from cdma.hw.emit.netlist import shared_modules, written_modules
from cdma.synth.components import block, block_names
from cdma.synth.gates.asic import memory_macros, reading_steps
from cdma.synth.tools.yosys import run_yosys
from tests.lib.shares import names
from tests.synth.gates.netlists import unit_gates

MOST_MORE = 0.02
"""The part of its area that a component may take more as it is written for people."""

NOISE = 50
"""Gates by which mappings of the same small component differ: `token-bucket`'s by up to 9 %."""


def area(verilog, top, macros, folder):
    """The area of a module with all below it but macros, by `synth` and `abc` as Yosys has them."""
    library = unit_gates()
    folder.mkdir()
    (folder / f"{top}.v").write_text(verilog)
    (folder / "cells.lib").write_text(library.path.read_text())
    steps = [
        *reading_steps(top, macros, is_flat=False),
        "synth -run coarse:check",
        "dfflibmap -liberty cells.lib",
        "abc -liberty cells.lib",
        "opt_clean -purge",
        f"tee -o areas.txt stat -top {top} -liberty cells.lib",
    ]
    run_yosys(steps, folder)
    areas = re.findall(r"Chip area for .*module .*: ([\d.]+)", (folder / "areas.txt").read_text())
    return float(areas[-1])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", names(block_names(), quick=["crc32"]))
def test_readable_text_takes_no_more(name, tmp_path):
    chosen = block(name)
    netlist = chosen.verilog()
    modules = shared_modules(written_modules(chosen.make(), chosen.top))
    readable = "".join(f"{module.text}\n\n" for module in modules)
    macros = memory_macros(netlist)
    before = area(netlist, chosen.top, macros, tmp_path / "netlist")
    most = before + max(MOST_MORE * before, NOISE)
    assert area(readable, chosen.top, macros, tmp_path / "readable") <= most
