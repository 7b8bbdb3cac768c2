"""A block's registers as a UVM register model."""

import re
import tempfile
from pathlib import Path

from peakrdl_uvm import UVMExporter

from cdma.hw.registers.map import RegisterSource, elaborated


def uvm_package_name(source: RegisterSource) -> str:
    """The package that `uvm_package` has, and the stem of the file in which it is expected."""
    return f"{source.name}_ral_pkg"


def uvm_package(source: RegisterSource) -> str:
    """Return the register model as a SystemVerilog package; its block class has the block's name.

    Classes are named after places in the map, for example `cdma_engine__RING_BASE__LO`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{uvm_package_name(source)}.sv"
        UVMExporter().export(elaborated(source), str(path), reuse_class_definitions=False)
        text = path.read_text("utf-8")
    # Values after reset have 64 bits, numbers without a size only 32.
    text = re.sub(r"(\.configure\(.*, )'h(?=\w+, \d, \d, \d\);)", r"\g<1>64'h", text)
    # The template leaves spaces in empty lines.
    return "\n".join(line.rstrip() for line in text.strip().split("\n")) + "\n"
