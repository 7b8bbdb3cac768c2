"""The report of `cdma synth`: a JSON object, or a table with the changes since the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from cdma.synth.baseline import GENERIC, Baseline
from cdma.synth.fpga.ecp5 import DEVICE, PACKAGE, SEED, SPEED
from cdma.synth.gates.conversion import (
    PAPER_UNITS_MM2,
    SCALING_45_TO_28,
    UM2_PER_GATE,
    UNITS,
    UTILIZATION,
    EngineArea,
    UnitsArea,
)
from cdma.synth.gates.library import Library
from cdma.synth.gates.sram import (
    CELL_F2,
    EFFICIENCY,
    FEATURE_NM,
    PAPER_BUFFER_BYTES,
    PAPER_BUFFER_MM2,
    PORT_FACTORS,
    array_mm2,
)
from cdma.synth.report import Change, ComponentRow, FpgaRow, GateRow, changes

UNIT = ("zvc-line-compressor", "zvc-line-decompressor")
"""What the paper calls a (de)compression unit."""

ENGINE = "engine"
ENGINE_UNITS = ("out_path.unit", "in_path.unit")
"""The parts of the engine that compress and decompress."""

UNIT_CONFIG = "titanx_gen3"


@dataclass(frozen=True)
class FpgaTarget:
    """An FPGA that components are mapped to.

    Attributes
    ----------
    target : str
        The family.
    speed, seed : int or None
        The grade, and the seed of the placer's random numbers; None without place and route.
    """

    target: str
    speed: int | None = None
    seed: int | None = None

    @property
    def as_in_baseline(self) -> bool:
        """True if the committed baseline was made with these options."""
        return (self.speed, self.seed) == (SPEED, SEED)


def fpga_json_of(
    rows: Sequence[FpgaRow], device: FpgaTarget, configuration: Mapping[str, Any]
) -> dict[str, Any]:
    """The object that `--json` prints of an FPGA; its keys are stable."""
    routed = device.speed is not None
    return {
        "target": device.target,
        "device": DEVICE if routed else None,
        "package": PACKAGE if routed else None,
        "speed": device.speed,
        "seed": device.seed,
        "configuration": configuration,
        "components": [row.json() for row in rows],
    }


def json_of(
    rows: Sequence[GateRow], library: Library, target: str, configuration: Mapping[str, Any]
) -> dict[str, Any]:
    """The object that `--json` prints; its keys are stable."""
    return {
        "target": target,
        "library": library.name,
        "um2_per_gate": (
            {f"{process}nm": um2 for process, um2 in UM2_PER_GATE.items()}
            if target == GENERIC
            else {library.name: library.nand2.area}
        ),
        "units": units_of(rows),
        "buffer": buffer_of(),
        "engine": engine_of(rows) if target == GENERIC else None,
        "configuration": configuration,
        "components": [row.json() for row in rows],
    }


def units_of(rows: Sequence[GateRow]) -> dict[str, Any] | None:
    """Six units by the paper's conversion, with each factor; None without compressor or
    decompressor of the paper's configuration."""
    found = {row.name: row for row in rows if row.config == UNIT_CONFIG and row.name in UNIT}
    if len(found) < len(UNIT):
        return None
    area = UnitsArea(sum(row.area_um2 for row in found.values()))
    return {
        "pair_um2": round(area.pair_um2, 1),
        "pairs": UNITS,
        "scaling_45_to_28": SCALING_45_TO_28,
        "utilization": UTILIZATION,
        "mm2": round(area.mm2, 4),
        "paper_mm2": PAPER_UNITS_MM2,
    }


def engine_of(rows: Sequence[GateRow]) -> dict[str, Any] | None:
    """The whole engine by the paper's conversion, with each factor; None without the engine of the
    paper's configuration."""
    found = [row for row in rows if (row.name, row.config) == (ENGINE, UNIT_CONFIG)]
    if not found:
        return None
    (row,) = found
    area = EngineArea(row.kge, row.macro_bits)
    parts = row.parts or []
    units_kge = sum(part["kge"] for part in parts if part["name"] in ENGINE_UNITS)
    memories = {ports: array_mm2(area.macro_bits, ports=ports) for ports in PORT_FACTORS}
    return {
        "kge": round(area.kge, 1),
        "units_kge": round(units_kge, 1),
        "gated_kge": None if row.gated is None else round(row.gated["kge"], 1),
        "um2_per_gate_28nm": UM2_PER_GATE[28],
        "utilization": UTILIZATION,
        "logic_mm2": round(area.logic_mm2, 3),
        "macro_bits": area.macro_bits,
        "memory_mm2": {ports: round(mm2, 3) for ports, mm2 in memories.items()},
        "mm2": {ports: round(area.logic_mm2 + mm2, 2) for ports, mm2 in memories.items()},
        "paper_mm2": round(PAPER_UNITS_MM2 + PAPER_BUFFER_MM2, 2),
    }


def buffer_of() -> dict[str, Any]:
    """The paper's buffer by our model, with each factor."""
    bits = PAPER_BUFFER_BYTES * 8
    return {
        "bits": bits,
        "feature_nm": FEATURE_NM,
        "cell_f2": CELL_F2,
        "efficiency": EFFICIENCY,
        "port_factors": PORT_FACTORS,
        "mm2": {ports: round(array_mm2(bits, ports=ports), 4) for ports in PORT_FACTORS},
        "paper_mm2": PAPER_BUFFER_MM2,
    }


def print_report(
    console: Console, rows: Sequence[GateRow], library: Library, target: str, baseline: Baseline
) -> None:
    """The table, what its columns mean, the paper's figures, and what has changed."""
    console.print(_table(rows, library, target))
    console.print(_legend(library, target), highlight=False)
    for row in rows:
        if row.parts is not None:
            console.print()
            console.print(_parts_table(row))
    console.print()
    for sentence in [
        *_with_gated_clocks(rows),
        *_beyond_limits(rows),
        *_second_opinions(rows),
        *_beside_the_paper(rows, target),
    ]:
        console.print(sentence, highlight=False)
    if target == GENERIC:
        console.print()
        for sentence in _since_the_baseline(rows, baseline):
            console.print(sentence, highlight=False)


def _table(rows: Sequence[GateRow], library: Library, target: str) -> Table:
    table = Table(
        title=f"Components in {library.name}"
        + ("" if library.wire_load is not None else ", without wires"),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
    )
    table.add_column("component", no_wrap=True)
    wires = library.wire_load is not None
    headings = ["cells", "FFs", "RAM bits", "kGE", "µm²", "depth", "MHz", *(["wires"] * wires)]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    corners = [corner["library"] for corner in rows[0].corners or []]
    for corner in corners:
        table.add_column(corner, justify="right", no_wrap=True)
    table.add_column("slowest path", overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.cells:,}",
            f"{row.flip_flops:,}",
            f"{row.macro_bits:,}",
            f"{row.kge:,.2f}",
            f"{row.area_um2:,.0f}",
            str(row.depth),
            f"{row.fmax_mhz:,.0f}",
            *([f"{row.fmax_wire_load_mhz:,.0f}"] if wires else []),
            *(f"{corner['fmax_mhz']:,.0f}" for corner in row.corners or []),
            " → ".join(row.slowest_path),
        )
    return table


def _parts_table(row: GateRow) -> Table:
    table = Table(
        title=f"Parts of {row.name}, each kind mapped once",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
    )
    table.add_column("part", no_wrap=True)
    for heading in ("number", "kGE", "%", "FFs", "RAM bits"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part in row.parts or []:
        table.add_row(
            part["name"] or "between them",
            str(part["count"]),
            f"{part['kge']:,.1f}",
            f"{100 * part['kge'] / row.kge:.1f}",
            f"{part['flip_flops']:,}",
            f"{part['macro_bits']:,}",
        )
    return table


def print_fpga_report(
    console: Console, rows: Sequence[FpgaRow], device: FpgaTarget, baseline: Baseline | None
) -> None:
    """The table, what its columns mean, what is not routed and why, and what has changed."""
    console.print(_fpga_table(rows, device))
    console.print(_fpga_legend(device), highlight=False)
    unrouted = [row for row in rows if row.no_fmax and device.speed is not None]
    if unrouted:
        console.print()
    for row in unrouted:
        console.print(f"{row.name}: no clock; it {row.no_fmax}.", highlight=False)
    if device.speed is not None:
        console.print()
        for sentence in (
            [f"The baseline is of speed {SPEED} and seed {SEED}."]
            if baseline is None
            else _since_the_baseline(rows, baseline)
        ):
            console.print(sentence, highlight=False)


def _fpga_table(rows: Sequence[FpgaRow], device: FpgaTarget) -> Table:
    routed = device.speed is not None
    table = Table(
        title=(
            f"Components on {DEVICE} ({device.target}), speed {device.speed}, seed {device.seed}"
            if routed
            else f"Components on {device.target}"
        ),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
    )
    table.add_column("component", no_wrap=True)
    for heading in ["LUTs", "FFs", "carries", "BRAMs", "DSPs", "depth", *(["MHz"] * routed)]:
        table.add_column(heading, justify="right", no_wrap=True)
    if routed:
        table.add_column("slowest path", overflow="ellipsis", no_wrap=True)
    for row in rows:
        figures = (*(row.luts, row.flip_flops, row.carries, row.block_rams, row.dsps, row.depth),)
        clock = "-" if row.fmax_mhz is None else f"{row.fmax_mhz:,.1f}"
        table.add_row(
            row.name,
            *(f"{figure:,}" for figure in figures),
            *([clock, " → ".join(row.slowest_path or [])] if routed else []),
        )
    return table


def _fpga_legend(device: FpgaTarget) -> str:
    return (
        "LUTs: with those that carry chains and LUT RAM take. Depth: LUTs on the path with most, "
        "a carry chain\nbeing one. "
        + (
            "MHz: from place and route, between registers at the ports."
            if device.speed is not None
            else f"No clock: there is no place and route for {device.target}."
        )
    )


def _legend(library: Library, target: str) -> str:
    area = (
        f"µm²: at 45 nm, {UM2_PER_GATE[45]} per gate; at 28 nm {UM2_PER_GATE[28]}"
        if target == GENERIC
        else f"kGE: areas of {library.nand2.name}, {library.nand2.area:g} µm²"
    )
    return (
        f"kGE: thousand NAND2. {area}. RAM bits: in memories that are macros, and in no other "
        "figure.\nDepth: gates between the flip-flops of the slowest path. MHz: of that path, with "
        "the flip-flops' own times"
        + (
            "."
            if library.wire_load is None
            else f"; wires: with the library's wire load {library.wire_load.name}."
        )
    )


def _with_gated_clocks(rows: Sequence[GateRow]) -> list[str]:
    return [
        f"{row.name} with gated clocks: {row.gated['kge']:,.1f} kGE with "
        f"{row.gated['clock_gates']:,} clock gates, for {row.gated['gated_flip_flops']:,} of "
        f"{row.flip_flops:,} flip-flops; {row.gated['fmax_mhz']:,.0f} MHz, "
        f"{' → '.join(row.gated['slowest_path'])}."
        for row in rows
        if row.gated is not None
    ]


def _beyond_limits(rows: Sequence[GateRow]) -> list[str]:
    return [
        f"{row.name}: {row.overloaded_nets:,} nets have more load than the library's "
        f"max_capacitance, and {row.steep_nets:,} slower edges than its max_transition."
        for row in rows
        if row.overloaded_nets or row.steep_nets
    ]


def _second_opinions(rows: Sequence[GateRow]) -> list[str]:
    return [
        f"{row.name}: from register to register {row.opensta['own_period_ps']:,.1f} ps here, "
        f"{row.opensta['period_ps']:,.1f} by OpenSTA."
        for row in rows
        if row.opensta is not None
    ]


def _beside_the_paper(rows: Sequence[GateRow], target: str) -> list[str]:
    sentences = []
    units = units_of(rows)
    if units is not None:
        sentences.append(
            f"Bare pipelines at 28 nm: {units['pairs']} pairs × {units['pair_um2']:,.0f} µm² × "
            f"{units['scaling_45_to_28']} (45 → 28 nm) / {units['utilization']:g} (utilization) = "
            f"{units['mm2']:.3f} mm²; the paper's units: {units['paper_mm2']} mm²."
        )
    buffer = buffer_of()
    areas = " and ".join(
        f"{buffer['mm2'][ports]:.3f} mm² ({ports}, p = {factor:g})"
        for ports, factor in PORT_FACTORS.items()
    )
    sentences.append(
        f"Buffer at {FEATURE_NM} nm: {buffer['bits']:,} bits × {CELL_F2} F² × p / {EFFICIENCY} = "
        f"{areas}; the paper's: {buffer['paper_mm2']} mm²."
    )
    engine = engine_of(rows) if target == GENERIC else None
    if engine is not None:
        least, most = (engine["mm2"][ports] for ports in PORT_FACTORS)
        sentences.append(
            f"Engine at 28 nm: {engine['kge']:,.0f} kGE × {engine['um2_per_gate_28nm']} µm² / "
            f"{engine['utilization']:g} = {engine['logic_mm2']:.2f} mm² of logic, and "
            f"{engine['macro_bits']:,} bits of memory: {least:.2f} (1RW) to {most:.2f} mm² (1R1W); "
            f"the paper's units and buffer: {engine['paper_mm2']} mm²."
        )
    return sentences


def _since_the_baseline(rows: Sequence[ComponentRow], baseline: Baseline) -> list[str]:
    known = {row.name: changes(row, baseline) for row in rows}
    new = [name for name, found in known.items() if found is None]
    changed = [change for found in known.values() for change in found or []]
    sentences = [_sentence(change) for change in changed]
    same = sum(found == [] for found in known.values())
    sentences.append(
        f"{same} of {len(rows)} as in the baseline"
        + (f"; not in it: {', '.join(new)}" if new else "")
        + f". Compared: {', '.join(each.figure for each in rows[0].COMPARED)}."
    )
    if any(change.regression for change in changed):
        sentences.append(f"Regressions ({_tolerances(rows[0])}) fail `make verify`.")
    return sentences


def _tolerances(row: ComponentRow) -> str:
    """As in "above 5 %, of fmax_mhz above 15 %"."""
    least = min(each.tolerance for each in row.COMPARED)
    others = [each for each in row.COMPARED if each.tolerance > least]
    return ", ".join(
        [f"above {least:.0%}", *(f"of {each.figure} above {each.tolerance:.0%}" for each in others)]
    )


def _sentence(change: Change) -> str:
    mark = " REGRESSION" if change.regression else ""
    return (
        f"{change.component}: {change.figure} {change.before:,g} → {change.after:,g} "
        f"({change.relative:+.1%}){mark}"
    )
