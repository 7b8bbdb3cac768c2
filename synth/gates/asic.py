"""A component in standard cells: mapped, counted and timed."""

import gzip
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cdma.builds.cache import cached, digest
from cdma.synth.errors import SynthError
from cdma.synth.gates.clock_gating import enables_map, gating_steps
from cdma.synth.gates.library import Library
from cdma.synth.gates.mapped import MappedNetlist
from cdma.synth.gates.stitch import placed_parts, stitch
from cdma.synth.gates.timing import GATED, Timing, slowest_path
from cdma.synth.parts import Part
from cdma.synth.tools.yosys import YOSYS, run_yosys

MACRO_BITS, MACRO_WORDS = 1024, 8
"""Memories of at least so many bits and words are macros: listed, but not built of flip-flops."""

PERIOD_PS = 500
"""What ABC aims at; it stops to make gates larger or to add some when it is there."""

TIGHT_PERIOD_PS = 200
"""The same for a part that the slowest path of a whole leads through. Parts are mapped as if their
ports were registers: such a path has gates on both sides, and the part only some of the time."""

ROUNDS = 3
"""Of rebalancing. Of one, additions stay deep; two gain most of it, at two thirds of the time."""


def mapping_steps(period_ps: int) -> list[str]:
    """What ABC does to reach a period."""
    return [
        "strash",
        *("&get -n", "&fraig -x", "&put", "scorr", "strash", "&get -n", "&st"),
        # Rebalances by delay before mapping. Yosys' own script leaves this out, and has `dc2`
        # instead, which restructures for area: a counter's sum of 40 bits is then 54 gates deep
        # instead of 31.
        *(["&if -g -K 6", "&st", "&dch -f"] * ROUNDS),
        *(f"&nf -D {period_ps}", "&put", "buffer -c", "topo"),
        *(f"upsize -D {period_ps}", f"dnsize -D {period_ps}"),
    ]


ADDERS = "+/choices/sklansky.v"
"""Of Yosys: sums as trees of Sklansky's, which ABC only has to balance."""

ENABLES = "enables.v"
NETLIST, NETLIST_JSON = "netlist.v", "netlist.json"
TIGHT = "tight"
"""The folder of parts that were mapped once more."""
RESULTS = (NETLIST, NETLIST_JSON, YOSYS.log)
"""What a mapping leaves in its folder and in the cache."""

MACRO = "memory_macro"
_ARRAY = re.compile(r"^\s*reg (?:\[(\d+):0\] )?\w+ \[(\d+):0\];", re.MULTILINE)


@dataclass(frozen=True)
class PartArea:
    """A part's share of a component.

    Attributes
    ----------
    name : str
        The instances on the way to it, without their numbers; empty of the top.
    count : int
        How many there are; the other figures are of all of them.
    kge : float
    flip_flops : int
    macro_bits : int
    """

    name: str
    count: int
    kge: float
    flip_flops: int
    macro_bits: int


@dataclass(frozen=True)
class Corner:
    """A netlist's timing in another library of the same cells.

    Attributes
    ----------
    library : str
    timing : Timing
        Without wires.
    timing_with_wires : Timing or None
        With that library's wire load, if it has one.
    """

    library: str
    timing: Timing
    timing_with_wires: Timing | None


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
    parts : list of PartArea
        From the largest down, if it was mapped in parts.
    corners : list of Corner
        The same netlist in other libraries.
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
    parts: list[PartArea] = field(default_factory=list)
    corners: list[Corner] = field(default_factory=list)

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
    corners: Sequence[Library] = (),
) -> Synthesis:
    """Map a module, flat, to a library's cells, unless the cache has its netlist.

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
    corners
        Libraries that the netlist is timed in, too.

    Raises
    ------
    SynthError
        If Yosys is missing or fails, a file cannot be written, the library has no clock gate, or a
        corner lacks a cell of the netlist.
    """
    module = _mapped(Part(top, verilog), library, folder, clock_gating)
    return _measured(module, library, corners, slowest_path(module, library))


def synthesize_parts(
    parts: Sequence[Part],
    library: Library,
    folder: Path,
    *,
    clock_gating: bool = False,
    corners: Sequence[Library] = (),
) -> Synthesis:
    """Map each part of a component once, put the netlists together, and time the whole.

    Nothing is optimized across the parts' ports, and paths lead through all of them. Parts on the
    slowest path are mapped once more, for speed, and again those on the one that is then slowest,
    for as long as that gains.

    Parameters
    ----------
    parts
        As `cdma.synth.parts.parts_of` makes them, the top first.
    library
    folder
        Has a folder of each part's, others in `tight` of those mapped once more, and `netlist.v`,
        all of them.
    clock_gating, corners
        As of `synthesize`.

    Raises
    ------
    SynthError
        As of `synthesize`.
    """

    def mapped(chosen: Sequence[Part], into: Path, period_ps: int) -> dict[str, dict[str, Any]]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(
                lambda part: _mapped(
                    part, library, into / part.name, clock_gating, period_ps=period_ps
                ),
                chosen,
            )
            return {part.name: module for part, module in zip(chosen, found, strict=True)}

    top = parts[0].name
    modules = mapped(parts, folder, PERIOD_PS)
    whole = stitch(modules, top)
    timing = slowest_path(whole, library)
    homes = {part.name: folder / part.name for part in parts}
    tried: set[str] = set()
    while slow := _modules_on(timing, modules, top) - tried:
        tried |= slow
        chosen = [part for part in parts if part.name in slow]
        tighter = modules | mapped(chosen, folder / TIGHT, TIGHT_PERIOD_PS)
        other = stitch(tighter, top)
        faster = slowest_path(other, library)
        if faster.period_ps < timing.period_ps:
            modules, whole, timing = tighter, other, faster
            homes |= {name: folder / TIGHT / name for name in slow}
    try:
        with (folder / NETLIST).open("w", encoding="utf-8") as file:
            for home in homes.values():
                file.write((home / NETLIST).read_text(encoding="utf-8"))
    except OSError as error:
        raise _unwritten(error) from error
    return replace(_measured(whole, library, corners, timing), parts=_areas(modules, top, library))


def _modules_on(timing: Timing, modules: dict[str, Any], top: str) -> set[str]:
    """The modules of the parts that a path's names are in.

    A net that ends it may have no name, but its register has.
    """
    placed = sorted(placed_parts(modules, top), key=lambda part: -len(part.path))
    names = [*timing.path, timing.end.removeprefix(GATED)]
    return {
        next(part.module for part in placed if not part.path or name.startswith(f"{part.path}."))
        for name in names
    }


def _mapped(
    part: Part,
    library: Library,
    folder: Path,
    clock_gating: bool = False,
    *,
    period_ps: int = PERIOD_PS,
) -> dict[str, Any]:
    """A part's netlist, as in Yosys' JSON."""
    gating = gating_steps(library, ENABLES) if clock_gating else []
    script = _script(part.verilog, part.name, gating)
    texts = {
        f"{part.name}.v": part.verilog,
        "cells.lib": library.path.read_text(encoding="utf-8", errors="replace"),
        "ports.txt": (
            f"set_driving_cell {library.driver.name}\nset_load {library.port_load_ff:.3f}\n"
        ),
        "abc.txt": "\n".join([*mapping_steps(period_ps), ""]),
        **({ENABLES: enables_map()} if clock_gating else {}),
    }

    def build(work: Path) -> None:
        run_yosys(script, folder)
        for name in RESULTS:
            with (folder / name).open("rb") as plain, gzip.open(work / name, "wb", 1) as packed:
                shutil.copyfileobj(plain, packed)

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        key = digest(YOSYS.version(), *script, *(text for pair in texts.items() for text in pair))
        kept = cached(f"netlist-{part.name}-{key}", build)
        for name in RESULTS:
            with gzip.open(kept / name, "rb") as packed, (folder / name).open("wb") as plain:
                shutil.copyfileobj(packed, plain)
        content = json.loads((folder / NETLIST_JSON).read_text(encoding="utf-8"))
    except OSError as error:
        raise _unwritten(error) from error
    module: dict[str, Any] = content["modules"][part.name]
    _refuse_unknown(module, library, part.below)
    return module


def _unwritten(error: OSError) -> SynthError:
    return SynthError(f"cannot write {error.filename}: {error.strerror}; check the path")


def memory_macros(verilog: str) -> list[tuple[int, int]]:
    """Words and bits of the memories in a netlist that are large enough to be macros."""
    arrays = {(int(last) + 1, int(high or 0) + 1) for high, last in _ARRAY.findall(verilog)}
    return [
        (words, bits)
        for words, bits in sorted(arrays)
        if words >= MACRO_WORDS and words * bits >= MACRO_BITS
    ]


def reading_steps(
    top: str, macros: Sequence[tuple[int, int]], *, is_flat: bool = True
) -> list[str]:
    """Yosys' commands that read a module from `TOP.v` and take memories of these sizes for macros.

    Parameters
    ----------
    top : str
    macros : sequence of (int, int)
        Words and bits.
    is_flat : bool
        Whether the modules below the top become one with it.
    """
    return [
        f"read_verilog {top}.v",
        f"hierarchy -check -top {top}",
        "proc",
        *(["flatten"] if is_flat else []),
        # Only with the enables of flip-flops found can a memory take in its output register; else
        # the bits of each macro's output would be billed as flip-flops.
        *("opt_expr", "opt_dff", "opt_clean"),
        "memory -nomap",
        # A cell of an unknown type is left alone, and so is what drives it.
        *(
            f"chtype -set {MACRO} t:$mem_v2 r:SIZE={words} %i r:WIDTH={bits} %i"
            for words, bits in macros
        ),
    ]


def _script(verilog: str, top: str, gating: list[str]) -> list[str]:
    return [
        *reading_steps(top, memory_macros(verilog)),
        # Without ABC's first, fast run: the areas are the same.
        f"synth -run coarse:check -noabc -extra-map {ADDERS}",
        *gating,
        "dfflibmap -liberty cells.lib",
        "abc -liberty cells.lib -constr ports.txt -script abc.txt",
        # Constants are not cells here, and initial values are for FPGAs.
        "opt_clean -purge",
        f"setparam -unset INIT t:{MACRO}",
        "attrmap -remove src",
        f"write_json {NETLIST_JSON}",
        f"write_verilog -noattr {NETLIST}",
    ]


def _refuse_unknown(module: dict[str, Any], library: Library, below: Sequence[str]) -> None:
    for cell in module["cells"].values():
        if cell["type"] not in library.cells and cell["type"] not in (MACRO, *below):
            raise SynthError(
                f"{library.path} has no cell for {cell['type']}; give a library with it"
            )


def _counts(module: dict[str, Any], library: Library) -> dict[str, int]:
    """Cells by name."""
    names = [cell["type"] for cell in module["cells"].values()]
    return dict(sorted(Counter(name for name in names if name in library.cells).items()))


def _macros(module: dict[str, Any]) -> list[tuple[int, int]]:
    parameters = [c["parameters"] for c in module["cells"].values() if c["type"] == MACRO]
    return sorted((int(each["SIZE"], 2), int(each["WIDTH"], 2)) for each in parameters)


def _kge(counts: dict[str, int], library: Library) -> float:
    area = sum(library.cells[name].area * count for name, count in counts.items())
    return area / library.nand2.area / 1000


def _flip_flops(counts: dict[str, int], library: Library) -> int:
    return sum(count for name, count in counts.items() if library.cells[name].clock)


def _areas(modules: dict[str, Any], top: str, library: Library) -> list[PartArea]:
    placed = Counter((part.kind, part.module) for part in placed_parts(modules, top))
    areas = []
    for (kind, name), count in placed.items():
        counts = _counts(modules[name], library)
        areas.append(
            PartArea(
                name=kind,
                count=count,
                kge=count * _kge(counts, library),
                flip_flops=count * _flip_flops(counts, library),
                macro_bits=count * sum(words * bits for words, bits in _macros(modules[name])),
            )
        )
    return sorted(areas, key=lambda area: -area.kge)


def _measured(
    module: dict[str, Any], library: Library, corners: Sequence[Library], timing: Timing
) -> Synthesis:
    for corner in corners:
        _refuse_unknown(module, corner, ())
    counts = _counts(module, library)
    netlist = MappedNetlist(module, library)
    gated = netlist.gate_of()
    return Synthesis(
        cells=sum(counts.values()),
        flip_flops=_flip_flops(counts, library),
        area=sum(library.cells[name].area * count for name, count in counts.items()),
        kge=_kge(counts, library),
        macros=_macros(module),
        timing=timing,
        timing_with_wires=_timing_with_wires(module, library),
        cell_counts=counts,
        clock_gates=len(netlist.clock_gates),
        gated_flip_flops=sum(
            flip_flop.pins.get(flip_flop.kind.clock) in gated for flip_flop in netlist.flip_flops
        ),
        module=module,
        corners=[
            Corner(corner.name, slowest_path(module, corner), _timing_with_wires(module, corner))
            for corner in corners
        ],
    )


def _timing_with_wires(module: dict[str, Any], library: Library) -> Timing | None:
    """With the library's wire load; None if it has none."""
    load = library.wire_load
    return None if load is None else slowest_path(module, library, load)
