"""A component in the cells of an FPGA: mapped by Yosys and counted, for each family alike."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from cdma.synth.errors import SynthError
from cdma.synth.tools.yosys import run_yosys

NETLIST = "netlist.json"


@dataclass(frozen=True)
class FpgaCell:
    """FPGA resources of one kind of cell.

    Attributes
    ----------
    luts, flip_flops, carries, block_rams, dsps : int
    levels : int or None
        LUTs on the path from inputs to outputs; None where no path goes through, as in a flip-flop.
    chain : str
        The input that reaches the output without a LUT: the carry of the cell before.
    """

    luts: int = 0
    flip_flops: int = 0
    carries: int = 0
    block_rams: int = 0
    dsps: int = 0
    levels: int | None = None
    chain: str = ""


@dataclass(frozen=True)
class FpgaFamily:
    """A family of FPGAs.

    Attributes
    ----------
    synthesis : str
        Yosys' command without `-top`.
    cells : mapping of str to FpgaCell
        Resources by the cell's name, in which * stands for anything; the first match counts.
    """

    synthesis: str
    cells: Mapping[str, FpgaCell]


_LUT = FpgaCell(luts=1, levels=1)
_FLIP_FLOP = FpgaCell(flip_flops=1)
_BLOCK_RAM = FpgaCell(block_rams=1)
_DSP = FpgaCell(dsps=1)
_WIRE = FpgaCell(levels=0)
_NOTHING = FpgaCell()

FAMILIES = {
    "ecp5": FpgaFamily(
        "synth_ecp5",
        {
            "LUT4": _LUT,
            # Two bits of a sum: a carry chain is two LUTs to each cell.
            "CCU2C": FpgaCell(luts=2, carries=1, levels=1, chain="CIN"),
            "PFUMX": _WIRE,
            "L6MUX21": _WIRE,
            # 16 words of 4 bits: four LUTs, and two for the writing.
            "TRELLIS_DPR16X4": FpgaCell(luts=6),
            "TRELLIS_FF": _FLIP_FLOP,
            "DP16KD": _BLOCK_RAM,
            "MULT18X18D": _DSP,
        },
    ),
    "ice40": FpgaFamily(
        "synth_ice40",
        {
            "SB_LUT4": _LUT,
            # Lies beside its LUT.
            "SB_CARRY": FpgaCell(carries=1, levels=0),
            "SB_DFF*": _FLIP_FLOP,
            "SB_RAM40_4K*": _BLOCK_RAM,
        },
    ),
    "xilinx": FpgaFamily(
        "synth_xilinx -family xc7 -flatten -noiopad -noclkbuf",
        {
            "LUT?": _LUT,
            "INV": _LUT,
            "CARRY4": FpgaCell(carries=1, levels=0),
            "MUXF?": _WIRE,
            # LUT RAM: a LUT has 64 words of a bit, or 32 of two.
            **dict.fromkeys(("RAM32M", "RAM64M", "RAM128X1D", "RAM256X1S"), FpgaCell(luts=4)),
            **dict.fromkeys(("RAM32X1D", "RAM64X1D", "RAM128X1S"), FpgaCell(luts=2)),
            **dict.fromkeys(("RAM32X1S", "RAM64X1S", "SRL16E", "SRLC32E"), FpgaCell(luts=1)),
            "FD?E*": _FLIP_FLOP,
            # Of 18 Kb each.
            "RAMB18E1": _BLOCK_RAM,
            "RAMB36E1": FpgaCell(block_rams=2),
            "DSP48E1": _DSP,
        },
    ),
    "gowin": FpgaFamily(
        "synth_gowin -noiopads",
        {
            "LUT?": _LUT,
            # A bit of a sum in a LUT.
            "ALU": FpgaCell(luts=1, carries=1, levels=1, chain="CIN"),
            "MUX2_LUT?": _WIRE,
            # A LUT to each bit of 16 words.
            **{f"RAM16SDP{bits}": FpgaCell(luts=bits) for bits in (1, 2, 4)},
            "DFF*": _FLIP_FLOP,
            **dict.fromkeys(("SDP*", "SP*", "DP*", "pROM*"), _BLOCK_RAM),
            "MULT*": _DSP,
            "GND": _NOTHING,
            "VCC": _NOTHING,
        },
    ),
}
"""By the name of the target."""


@dataclass(frozen=True)
class Resources:
    """FPGA resources of a netlist.

    Attributes
    ----------
    cells : int
        All primitives, constants not.
    luts : int
        Lookup tables, those in which carry chains and LUT RAM lie among them.
    flip_flops, carries, block_rams, dsps : int
    depth : int
        LUTs on the path through most of them, between registers, memories and ports. A carry chain
        counts as one.
    """

    cells: int
    luts: int
    flip_flops: int
    carries: int
    block_rams: int
    dsps: int
    depth: int


def map_to(family: str, verilog: str, top: str, folder: Path) -> dict[str, Any]:
    """Map a module, flat, to a family's cells.

    Yosys 0.70 fails in `synth_ecp5` where wires alias bits of others under names such as `foo[0]`,
    as Amaranth writes them; `to_verilog` leaves those out.

    Parameters
    ----------
    family
        One of `FAMILIES`.
    verilog
        The module and all below it.
    top
        The module's name.
    folder
        Where the netlist and Yosys' log go; made if it is not there.

    Returns
    -------
    dict
        The module as Yosys writes it into JSON.

    Raises
    ------
    SynthError
        If Yosys is missing or fails, or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{top}.v").write_text(verilog, encoding="utf-8")
        run_yosys(
            [
                f"read_verilog {top}.v",
                f"{FAMILIES[family].synthesis} -top {top}",
                # Notes on where cells come from.
                "delete t:$scopeinfo",
                f"write_json {NETLIST}",
            ],
            folder,
        )
        netlist = json.loads((folder / NETLIST).read_text(encoding="utf-8"))
    except OSError as error:
        raise SynthError(
            f"cannot write {error.filename}: {error.strerror}; check the path"
        ) from error
    module: dict[str, Any] = netlist["modules"][top]
    return module


def resources(module: dict[str, Any], family: str) -> Resources:
    """Count a module's cells.

    Raises
    ------
    SynthError
        If it has a cell that the family's table lacks.
    """
    kinds = {name: _kind(family, cell["type"]) for name, cell in module["cells"].items()}
    return Resources(
        cells=sum(kind != _NOTHING for kind in kinds.values()),
        luts=sum(kind.luts for kind in kinds.values()),
        flip_flops=sum(kind.flip_flops for kind in kinds.values()),
        carries=sum(kind.carries for kind in kinds.values()),
        block_rams=sum(kind.block_rams for kind in kinds.values()),
        dsps=sum(kind.dsps for kind in kinds.values()),
        depth=_depth(module["cells"], kinds),
    )


@cache
def _kind(family: str, cell_type: str) -> FpgaCell:
    for pattern, kind in FAMILIES[family].cells.items():
        if fnmatchcase(cell_type, pattern):
            return kind
    raise SynthError(f"cannot count {cell_type} of {family}; add it to synth/fpga/resources.py")


def _depth(cells: Mapping[str, Any], kinds: Mapping[str, FpgaCell]) -> int:
    passed = {name: cells[name] for name, kind in kinds.items() if kind.levels is not None}
    driver = {
        bit: name
        for name, cell in passed.items()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "output"
        for bit in bits
        # Not text, a constant.
        if isinstance(bit, int)
    }
    # What drives each cell's inputs, and through which.
    before = {
        name: [
            (driver[bit], port)
            for port, bits in cell["connections"].items()
            if cell["port_directions"][port] == "input"
            for bit in bits
            if bit in driver
        ]
        for name, cell in passed.items()
    }
    graph = {name: {source for source, _port in found} for name, found in before.items()}
    depths: dict[str, int] = {}
    try:
        for name in TopologicalSorter(graph).static_order():
            kind = kinds[name]
            own = kind.levels or 0
            depths[name] = max(
                [own, *(depths[at] + own * (port != kind.chain) for at, port in before[name])]
            )
    except CycleError as error:
        raise SynthError(f"a loop without registers: {', '.join(error.args[1])}") from error
    return max(depths.values(), default=0)
