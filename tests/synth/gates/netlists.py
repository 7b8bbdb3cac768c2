"""Small libraries and netlists for tests."""

from pathlib import Path
from typing import Any

from cdma.synth.gates.library import UNIT_GATES, Library

TAU_PS = 4.0
"""Of the unit gates: delay per parasitic, and per load of an inverter."""

CLOCK_TO_Q, SETUP = 10, 5
"""Of their flip-flop, in tau."""


def unit_gates() -> Library:
    """The library that comes with the package."""
    return Library(UNIT_GATES)


def written(folder: Path, text: str) -> Path:
    """A library of that text."""
    path = folder / "cells.lib"
    path.write_text(text)
    return path


def netlist(
    cells: dict[str, tuple[str, dict[str, int]]], inputs: list[int], outputs: list[int]
) -> dict[str, Any]:
    """A module as in Yosys' JSON: cells of (type, pins), ports `i` and `o`, nets `n<number>`."""
    bits = {bit for _kind, pins in cells.values() for bit in pins.values()}
    return {
        "ports": {
            "i": {"direction": "input", "bits": inputs},
            "o": {"direction": "output", "bits": outputs},
        },
        "cells": {
            name: {"type": kind, "connections": {pin: [bit] for pin, bit in pins.items()}}
            for name, (kind, pins) in cells.items()
        },
        "netnames": {f"n{bit}": {"hide_name": 0, "bits": [bit]} for bit in sorted(bits)},
    }
