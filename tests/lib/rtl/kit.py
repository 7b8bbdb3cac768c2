"""Folders of `generate --ip`, and their simulation by their own Makefile."""

import os
import subprocess
import sys
from pathlib import Path

from cdma.hw.components import COMPONENTS
from cdma.hw.emit.ip.folder import ip_files
from cdma.hw.emit.reset import DEFAULT_RESET
from tests.lib.rtl.verilog import verilog_of


def write_kit(component: str, config, folder: Path, *, reset: str = DEFAULT_RESET) -> str:
    """Write the folder of a block that has a bench; return the block's name."""
    verilog = verilog_of(component, config, reset=reset)
    made = COMPONENTS[component]
    bench = made.bench(made.config(config), verilog.name, reset)
    assert bench is not None
    for path, text in ip_files(verilog, clock_mhz=1000, bench=bench).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return verilog.name


def make(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the folder's Makefile with the wheel's tools: its exit status and all it said."""
    done = subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        text=True,
        capture_output=True,
    )
    return done.returncode, done.stdout + done.stderr


def change(path: Path, old: str, new: str) -> None:
    """Replace a piece of text that is in the file exactly once."""
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {path.name}"
    path.write_text(text.replace(old, new))


def change_row(path: Path, row: int, bits: int) -> None:
    """Turn bits of a row of hexadecimal digits over."""
    rows = path.read_text().splitlines()
    rows[row] = f"{int(rows[row], 16) ^ bits:0{len(rows[row])}x}"
    path.write_text("".join(f"{one}\n" for one in rows))
