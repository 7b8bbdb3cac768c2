"""What `cdma synth` tells: a JSON object, or a table with the changes since the baseline."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from synth.conversion import (
    PAPER_UNITS_MM2,
    SCALING_45_TO_28,
    UM2_PER_GATE,
    UNITS,
    UTILIZATION,
    UnitsArea,
)
from synth.library import Library
from synth.report import (
    GENERIC,
    LARGEST_REGRESSION,
    LESS_IS_BETTER,
    Baseline,
    Change,
    Row,
    changes,
)
from synth.sram import (
    CELL_F2,
    EFFICIENCY,
    FEATURE_NM,
    PAPER_BUFFER_BYTES,
    PAPER_BUFFER_MM2,
    PORT_FACTORS,
    array_mm2,
)

UNIT = ("zvc-line-compressor", "zvc-line-decompressor")
"""What the paper calls a (de)compression unit."""

UNIT_CONFIG = "titanx_gen3"


def json_of(rows: Sequence[Row], library: Library, target: str) -> dict[str, Any]:
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
        "components": [row.json() for row in rows],
    }


def units_of(rows: Sequence[Row]) -> dict[str, Any] | None:
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
    console: Console, rows: Sequence[Row], library: Library, target: str, baseline: Baseline
) -> None:
    """The table, what its columns mean, the paper's figures, and what has changed."""
    console.print(_table(rows, library, target))
    console.print(_legend(library, target), highlight=False)
    console.print()
    for sentence in _beside_the_paper(rows):
        console.print(sentence, highlight=False)
    if target == GENERIC:
        console.print()
        for sentence in _since_the_baseline(rows, baseline):
            console.print(sentence, highlight=False)


def _table(rows: Sequence[Row], library: Library, target: str) -> Table:
    table = Table(
        title=f"Components in {library.name}, without wires",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
    )
    table.add_column("component", no_wrap=True)
    headings = ["cells", "FFs", "RAM bits", "kGE", "µm²", "depth", "MHz"]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
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
            " → ".join(row.slowest_path),
        )
    return table


def _legend(library: Library, target: str) -> str:
    area = (
        f"µm²: at 45 nm, {UM2_PER_GATE[45]} per gate; at 28 nm {UM2_PER_GATE[28]}"
        if target == GENERIC
        else f"kGE: areas of {library.nand2.name}, {library.nand2.area:g} µm²"
    )
    return (
        f"kGE: thousand NAND2. {area}. RAM bits: in memories that are macros, and in no other "
        "figure.\nDepth: gates between the flip-flops of the slowest path. MHz: of that path, with "
        "the flip-flops' own times."
    )


def _beside_the_paper(rows: Sequence[Row]) -> list[str]:
    sentences = []
    units = units_of(rows)
    if units is not None:
        sentences.append(
            f"Units at 28 nm: {units['pairs']} pairs × {units['pair_um2']:,.0f} µm² × "
            f"{units['scaling_45_to_28']} (45 → 28 nm) / {units['utilization']:g} (utilization) = "
            f"{units['mm2']:.3f} mm²; the paper's: {units['paper_mm2']} mm²."
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
    return sentences


def _since_the_baseline(rows: Sequence[Row], baseline: Baseline) -> list[str]:
    known = {row.name: changes(row, baseline) for row in rows}
    new = [name for name, found in known.items() if found is None]
    changed = [change for found in known.values() for change in found or []]
    sentences = [_sentence(change) for change in changed]
    same = sum(found == [] for found in known.values())
    sentences.append(
        f"{same} of {len(rows)} as in the baseline"
        + (f"; not in it: {', '.join(new)}" if new else "")
        + f". Compared: {', '.join(LESS_IS_BETTER)}."
    )
    if any(change.regression for change in changed):
        sentences.append(f"Regressions above {LARGEST_REGRESSION:.0%} fail `make verify`.")
    return sentences


def _sentence(change: Change) -> str:
    mark = " REGRESSION" if change.regression else ""
    return (
        f"{change.component}: {change.figure} {change.before:,g} → {change.after:,g} "
        f"({change.relative:+.1%}){mark}"
    )
