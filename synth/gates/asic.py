"""A component in standard cells: mapped, counted and timed."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdma.synth.errors import SynthError
from cdma.synth.gates.clock_gating import enables_map, gating_steps
from cdma.synth.gates.library import Library
from cdma.synth.gates.mapped import MappedNetlist
from cdma.synth.gates.timing import Timing, slowest_path
from cdma.synth.tools.yosys import run_yosys

MACRO_BITS, MACRO_WORDS = 1024, 8
"""Memories of at least so many bits and words are macros: listed, but not built of flip-flops."""

PERIOD_PS = 500
"""What ABC aims at; it stops to make gates larger or to add some when it is there."""

MAP = [
    "strash",
    *("&get -n", "&fraig -x", "&put", "scorr", "dc2", "strash"),
    # Rebalances by delay before mapping. Yosys' own script leaves this out, and carries ripple: a
    # counter's sum of 40 bits is then 54 gates deep instead of 31, for 2 % less area.
    *("&get -n", "&st", "&if -g -K 6", "&st", "&dch -f"),
    *(f"&nf -D {PERIOD_PS}", "&put", "buffer", f"upsize -D {PERIOD_PS}", f"dnsize -D {PERIOD_PS}"),
]
"""What ABC does."""

ENABLES = "enables.v"
MACRO = "memory_macro"
_ARRAY = re.compile(r"^\s*reg (?:\[(\d+):0\] )?\w+ \[(\d+):0\];", re.MULTILINE)


@dataclass(frozen=True)
class Synthesis:
    """A component in a library's cells.

    Attributes
    ----------
    cells : int
        Flip-flops too; macros not.
    flip_flops : int
    area : float
        In the library's unit.
    kge : float
        Thousands of NAND2 of the same area.
    macros : list of (int, int)
        Words and bits of each memory that is a macro; not in the area.
    timing : Timing
        Without wires.
    timing_with_wires : Timing or None
        The same netlist with the library's wire load, if it has one.
    cell_counts : dict of str to int
        By the name of the cell.
    clock_gates, gated_flip_flops : int
        Of the cells, and of the flip-flops; none without clock gating.
    module : dict
        The netlist, as in Yosys' JSON.
    """

    cells: int
    flip_flops: int
    area: float
    kge: float
    macros: list[tuple[int, int]]
    timing: Timing
    timing_with_wires: Timing | None
    cell_counts: dict[str, int]
    clock_gates: int
    gated_flip_flops: int
    module: dict[str, Any] = field(repr=False)

    @property
    def macro_bits(self) -> int:
        """Bits of all macros."""
        return sum(words * bits for words, bits in self.macros)


def synthesize(
    verilog: str,
    top: str,
    library: Library,
    folder: Path,
    *,
    clock_gating: bool = False,
    black_boxes: Sequence[str] = (),
) -> Synthesis:
    """Map a module, flat, to a library's cells.

    Parameters
    ----------
    verilog
        Of the module and all below it.
    top
        The module's name.
    library
    folder
        Where the netlist and Yosys' log go; made if it is not there.
    clock_gating
        Registers with an enable get a gated clock instead of multiplexers; see
        `cdma.synth.gates.clock_gating`.
    black_boxes
        Modules without anything in them, which are in no figure; their ports are taken for
        registered on their other side.

    Raises
    ------
    SynthError
        If Yosys is missing or fails, a file cannot be written, or the library has no clock gate.
    """
    gating = gating_steps(library, ENABLES) if clock_gating else []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{top}.v").write_text(verilog, encoding="utf-8")
        shutil.copyfile(library.path, folder / "cells.lib")
        (folder / "ports.txt").write_text(
            f"set_driving_cell {library.driver.name}\nset_load {library.port_load_ff:.3f}\n"
        )
        (folder / "abc.txt").write_text("\n".join([*MAP, ""]))
        if clock_gating:
            (folder / ENABLES).write_text(enables_map(), encoding="utf-8")
        run_yosys(_script(verilog, top, gating), folder)
        netlist = json.loads((folder / "netlist.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise SynthError(
            f"cannot write {error.filename}: {error.strerror}; check the path"
        ) from error
    return _measured(netlist["modules"][top], library, black_boxes)


def _script(verilog: str, top: str, gating: list[str]) -> list[str]:
    arrays = {(int(last) + 1, int(high or 0) + 1) for high, last in _ARRAY.findall(verilog)}
    macros = [
        (words, bits)
        for words, bits in sorted(arrays)
        if words >= MACRO_WORDS and words * bits >= MACRO_BITS
    ]
    return [
        f"read_verilog {top}.v",
        f"hierarchy -check -top {top}",
        "proc",
        "flatten",
        # Only with the enables of flip-flops found can a memory take in its output register; else
        # the bits of each macro's output would be billed as flip-flops.
        *("opt_expr", "opt_dff", "opt_clean"),
        "memory -nomap",
        # A cell of an unknown type is left alone, and so is what drives it.
        *(
            f"chtype -set {MACRO} t:$mem_v2 r:SIZE={words} %i r:WIDTH={bits} %i"
            for words, bits in macros
        ),
        # Without ABC's first, fast run: the areas are the same.
        "synth -run coarse:check -noabc",
        *gating,
        "dfflibmap -liberty cells.lib",
        "abc -liberty cells.lib -constr ports.txt -script abc.txt",
        # Constants are not cells here, and initial values are for FPGAs.
        "opt_clean -purge",
        f"setparam -unset INIT t:{MACRO}",
        "write_json netlist.json",
        "write_verilog -noattr netlist.v",
    ]


def _measured(module: dict[str, Any], library: Library, black_boxes: Sequence[str]) -> Synthesis:
    counts: dict[str, int] = {}
    macros = []
    for cell in module["cells"].values():
        if cell["type"] == MACRO:
            parameters = cell["parameters"]
            macros.append((int(parameters["SIZE"], 2), int(parameters["WIDTH"], 2)))
        elif cell["type"] in library.cells:
            counts[cell["type"]] = counts.get(cell["type"], 0) + 1
        elif cell["type"] not in black_boxes:
            raise SynthError(
                f"{library.path} has no cell for {cell['type']}; give a library with it"
            )
    area = sum(library.cells[name].area * count for name, count in counts.items())
    netlist = MappedNetlist(module, library)
    gated = netlist.gate_of()
    return Synthesis(
        cells=sum(counts.values()),
        flip_flops=sum(n for name, n in counts.items() if library.cells[name].clock),
        area=area,
        kge=area / library.nand2.area / 1000,
        macros=sorted(macros),
        timing=slowest_path(module, library),
        timing_with_wires=(
            None if library.wire_load is None else slowest_path(module, library, library.wire_load)
        ),
        cell_counts=dict(sorted(counts.items())),
        clock_gates=len(netlist.clock_gates),
        gated_flip_flops=sum(
            flip_flop.pins.get(flip_flop.kind.clock) in gated for flip_flop in netlist.flip_flops
        ),
        module=module,
    )
