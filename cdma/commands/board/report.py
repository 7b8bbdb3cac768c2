"""The report of `cdma board`: what was built, how to load it, and how to read what it says."""

import shlex
from dataclasses import asdict
from typing import Any

from rich.console import Console

from cdma.config import Found, tables_of
from cdma.hw.config import EngineConfig
from cdma.hw.selftest.config import SelfTestConfig
from cdma.synth.board.boards import Board
from cdma.synth.fpga.bitstream import Bitstream

FORMAT = "8N1"


def loading(board: Board, built: Bitstream) -> str:
    """The command that loads the bitstream until the board is switched off."""
    return board.program.format(bitstream=shlex.quote(str(built.path)))


def reading(config: SelfTestConfig) -> str:
    """The command that shows what comes from the serial port."""
    return f"python -m serial.tools.miniterm PORT {config.baud}"


def json_of(
    board: Board, engine: Found[EngineConfig], config: SelfTestConfig, built: Bitstream
) -> dict[str, Any]:
    """The JSON object; docs/guide/silicon/board.md lists its keys."""
    return {
        "board": board.name,
        "config": engine.label,
        "configuration": tables_of(engine.value),
        "parameters": asdict(config.codec),
        "lines": config.lines,
        "bitstream": str(built.path),
        "bitstream_bytes": built.size_bytes,
        "luts": built.luts,
        "flip_flops": built.flip_flops,
        "block_rams": built.block_rams,
        "capacity": built.capacity,
        "clock_mhz": built.clock_mhz,
        "fmax_mhz": round(built.fmax_mhz, 2),
        "program": loading(board, built),
        "uart": {
            "baud": config.baud,
            "format": FORMAT,
            "where": board.uart,
            "read": reading(config),
        },
        "lamps": board.lamps,
        "faults": board.faults,
    }


def print_report(
    console: Console, board: Board, config_name: str, config: SelfTestConfig, built: Bitstream
) -> None:
    """Print the report for people."""
    codec = config.codec
    facts = {
        "board": board.name,
        "codec": f"{config_name}: {codec.sector_bytes} B per cycle, elements of "
        f"{codec.element_bytes} B, {config.lines:,} lines a round",
        "bitstream": f"{built.path}, {built.size_bytes:,} B",
        "LUTs": _share(built, "luts"),
        "flip-flops": _share(built, "flip_flops"),
        "block RAMs": _share(built, "block_rams"),
        "clock": f"{built.clock_mhz:g} MHz of the {built.fmax_mhz:.1f} MHz that timing allows",
        "program": loading(board, built),
        "read": f"{reading(config)} ({config.baud} baud, {FORMAT}; pip install pyserial)",
        "port": board.uart,
        "lamps": board.lamps,
        "faults": board.faults,
    }
    width = max(map(len, facts))
    for name, text in facts.items():
        # Commands are copied: they must not be broken.
        console.print(
            f"{name:{width}}  {text}", soft_wrap=True, highlight=False, markup=False, emoji=False
        )


def _share(built: Bitstream, what: str) -> str:
    used, there = getattr(built, what), built.capacity[what]
    return f"{used:,} of {there:,} ({used / there:.0%})"
