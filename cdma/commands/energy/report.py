"""The report of `cdma energy`: a JSON object, or tables with the gain of clock gating."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.config import tables_of
from cdma.hw.config import EngineConfig
from cdma.synth import Library, Synthesis
from cdma.synth.power.codec_energy import STREAMING, Measurement
from cdma.synth.power.energy import Energy
from cdma.terminal.console import figures_table

PARTS = {
    "clock_pins": "clock pins",
    "flip_flops_clock": "FFs, clock",
    "flip_flops_data": "FFs, data",
    "nets": "nets",
    "gates": "gates",
    "clock_gates": "clock gates",
}
"""Columns of the table, by their names in `Energy`."""

REGISTERS = 8
"""How many the table shows."""


@dataclass(frozen=True)
class Netlist:
    """A component, mapped and measured.

    Attributes
    ----------
    name, config : str
    clock_gating : bool
    synthesis : Synthesis
    measurements : list of Measurement
    """

    name: str
    config: str
    clock_gating: bool
    synthesis: Synthesis
    measurements: list[Measurement]


def json_of(
    netlists: Sequence[Netlist], library: Library, clock_mhz: float, engine: EngineConfig
) -> dict[str, Any]:
    """The object that `--json` prints; its keys are stable."""
    return {
        "library": library.name,
        "volts": library.volts,
        "clock_mhz": clock_mhz,
        "configuration": tables_of(engine),
        "netlists": [_netlist_json(netlist, clock_mhz) for netlist in netlists],
        "gains": [
            {
                "name": plain.name,
                "load": before.load,
                "density": round(before.density, 4),
                "state": before.state,
                "power_mw": [
                    round(before.power_mw(clock_mhz), 4),
                    round(after.power_mw(clock_mhz), 4),
                ],
                "gain": round(gain_of(before, after, clock_mhz), 4),
            }
            for plain, gated in _pairs(netlists)
            for before, after in zip(plain.measurements, gated.measurements, strict=True)
        ],
    }


def gain_of(before: Measurement, after: Measurement, clock_mhz: float) -> float:
    """Compute the share of power that clock gating saves."""
    return 1 - after.power_mw(clock_mhz) / before.power_mw(clock_mhz)


def _netlist_json(netlist: Netlist, clock_mhz: float) -> dict[str, Any]:
    synthesis = netlist.synthesis
    return {
        "name": netlist.name,
        "config": netlist.config,
        "clock_gating": netlist.clock_gating,
        "cells": synthesis.cells,
        "flip_flops": synthesis.flip_flops,
        "gated_flip_flops": synthesis.gated_flip_flops,
        "clock_gates": synthesis.clock_gates,
        "kge": round(synthesis.kge, 3),
        "fmax_mhz": round(synthesis.timing.fmax_mhz, 1),
        "measurements": [
            {
                "load": measured.load,
                "density": round(measured.density, 4),
                "state": measured.state,
                "bytes_per_cycle": round(measured.bytes_per_cycle, 3),
                "pj_per_byte": _rounded(measured.pj_per_byte(clock_mhz)),
                "power_mw": round(measured.power_mw(clock_mhz), 4),
                "parts_mw": {
                    **{
                        name: round(pj * clock_mhz / 1000, 4)
                        for name, pj in measured.energy.parts.items()
                    },
                    "leakage": round(measured.leakage_mw, 4),
                },
                "registers": [
                    {
                        **asdict(register),
                        "clocked": round(register.clocked, 4),
                        "changed": round(register.changed, 4),
                        "clock_pj": round(register.clock_pj, 5),
                    }
                    for register in measured.registers
                ],
            }
            for measured in netlist.measurements
        ],
    }


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 4)


def _pairs(netlists: Sequence[Netlist]) -> list[tuple[Netlist, Netlist]]:
    """Pair each netlist without clock gating with the one that has it."""
    return [
        (plain, gated)
        for plain in netlists
        for gated in netlists
        if plain.name == gated.name and not plain.clock_gating and gated.clock_gating
    ]


def print_report(
    console: Console, netlists: Sequence[Netlist], library: Library, clock_mhz: float
) -> None:
    """Print a table for each component, the netlists' sizes, and where the clock's energy goes."""
    for name in dict.fromkeys(netlist.name for netlist in netlists):
        own = [netlist for netlist in netlists if netlist.name == name]
        console.print(_table(own, library, clock_mhz))
        for netlist in own:
            console.print(_size(netlist, clock_mhz), highlight=False)
        console.print(_registers(own[-1]), highlight=False)
        console.print()
    console.print(
        "pJ/B: of uncompressed data. Nets: charging input pins. FFs, gates: inside of cells.\n"
        "No wires, no clock tree, no hazards. All outputs are as golden's.",
        highlight=False,
    )


def _table(netlists: Sequence[Netlist], library: Library, clock_mhz: float) -> Table:
    volts = f"{library.volts:g} V" if library.volts is not None else "no voltage"
    first = netlists[0]
    table = figures_table(
        "load",
        ["density", "state", "gating", "B/cycle", "pJ/B", "mW", *PARTS.values(), "leakage", "gain"],
        f"{first.name}, {first.config}: mW at {clock_mhz:g} MHz in {library.name}, {volts}",
    )
    pairs = {id(gated): plain for plain, gated in _pairs(netlists)}
    for index in range(len(first.measurements)):
        for netlist in netlists:
            measured = netlist.measurements[index]
            per_byte = measured.pj_per_byte(clock_mhz)
            plain = pairs.get(id(netlist))
            before = plain.measurements[index] if plain is not None else None
            table.add_row(
                measured.load,
                f"{measured.density:.2f}",
                measured.state,
                "yes" if netlist.clock_gating else "no",
                f"{measured.bytes_per_cycle:.1f}",
                "" if per_byte is None else f"{per_byte:.3f}",
                f"{measured.power_mw(clock_mhz):.2f}",
                *(f"{mw:.2f}" for mw in _parts_mw(measured.energy, clock_mhz)),
                f"{measured.leakage_mw:.2f}",
                "" if before is None else f"{gain_of(before, measured, clock_mhz):.0%}",
            )
    return table


def _parts_mw(energy: Energy, clock_mhz: float) -> list[float]:
    return [energy.parts[name] * clock_mhz / 1000 for name in PARTS]


def _size(netlist: Netlist, clock_mhz: float) -> str:
    synthesis = netlist.synthesis
    fmax = synthesis.timing.fmax_mhz
    gates = (
        f"{synthesis.clock_gates} clock gates for {synthesis.gated_flip_flops:,} of "
        f"{synthesis.flip_flops:,} flip-flops"
        if netlist.clock_gating
        else f"no clock gating, {synthesis.flip_flops:,} flip-flops"
    )
    late = f", slower than {clock_mhz:g}" if fmax < clock_mhz else ""
    return f"{gates}; {synthesis.kge:.2f} kGE, {fmax:,.0f} MHz{late}"


def _registers(netlist: Netlist) -> str:
    """Describe which registers the clock's energy goes to in the last load that streams."""
    streaming = [m for m in netlist.measurements if m.state == STREAMING]
    largest = streaming[-1].registers[:REGISTERS]
    lines = [
        f"  {register.name} ({register.bits} bits): clocked in {register.clocked:.0%} of cycles, a "
        f"bit changes in {register.changed:.0%}; {register.clock_pj:.2f} pJ per cycle"
        for register in largest
    ]
    return "\n".join([f"Registers by the clock's energy, {streaming[-1].load}:", *lines])
