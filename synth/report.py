"""Rows of figures, one for each component, and what has changed since the committed ones."""

import dataclasses
import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from cdma.synth.baseline import GENERIC, Baseline
from cdma.synth.components import ComponentBlock
from cdma.synth.fpga.ecp5 import Routed
from cdma.synth.fpga.resources import FAMILIES, Resources
from cdma.synth.gates.asic import Synthesis
from cdma.synth.gates.conversion import um2_of
from cdma.synth.gates.library import Library

ASIC = "asic"
TARGETS = (GENERIC, ASIC, *FAMILIES)
"""The gates that come with the package; a library that is given; families of FPGAs."""

LARGEST_REGRESSION = 0.05

LARGEST_LOSS_OF_ROUTED_CLOCK = 0.15
"""Of clocks from place and route: half as much again as chance was seen to cost, which is a tenth.
Any change of the RTL is another throw of its dice."""


@dataclass(frozen=True)
class Compared:
    """A figure that is compared with the baseline.

    Attributes
    ----------
    figure : str
        The key in the row.
    less_is_better : bool
    tolerance : float
        The part of the baseline that may be lost without a regression.
    """

    figure: str
    less_is_better: bool = True
    tolerance: float = LARGEST_REGRESSION


@dataclass(frozen=True, kw_only=True)
class ComponentRow:
    """A component's figures, whatever it is mapped to.

    Attributes
    ----------
    name, config : str
    parameters : dict
    cells, flip_flops : int
    depth : int
        Gates on the slowest path, or LUTs on the path with most, between flip-flops.
    fmax_mhz : float or None
        The highest clock by the slowest path, with clock to output and setup.
    slowest_path : list of str, or None
        The registers or ports at its ends.
    """

    COMPARED: ClassVar[tuple[Compared, ...]]

    name: str
    config: str
    parameters: dict[str, Any]
    cells: int
    flip_flops: int
    depth: int
    fmax_mhz: float | None
    slowest_path: list[str] | None

    def json(self) -> dict[str, Any]:
        """The row as a JSON object, as a file gives it back, without tuples: the same keys for
        every target, null where one has no such figure.
        """
        row: dict[str, Any] = json.loads(
            json.dumps({**dict.fromkeys(_KEYS), **dataclasses.asdict(self)})
        )
        return row


@dataclass(frozen=True, kw_only=True)
class GateRow(ComponentRow):
    """Figures in gates.

    Attributes
    ----------
    fmax_mhz : float
        Without wires.
    fmax_wire_load_mhz : float or None
        The clock of the same netlist with the library's default wire load; None if it has none.
    slowest_path : list of str
    macro_bits : int
        Bits of memories that are macros; no other figure includes them.
    kge : float
        Thousand gate equivalents: areas of NAND2.
    area_um2 : float
        Area by the given library, or by conversion to 45 nm for generic gates.
    area_um2_28nm : float or None
        Area by conversion to 28 nm; None unless gates are generic.
    delay_ps : float
        Delay of the gates on the slowest path.
    overloaded_nets, steep_nets : int
        Nets beyond the library's `max_capacitance` and `max_transition`, without wires.
    parts : list of dict, or None
        Of a whole, from the largest down: each part's `name`, how many there are (`count`), and of
        all of them `kge`, `flip_flops` and `macro_bits`.
    corners : list of dict, or None
        Of the same netlist in other libraries: `library`, `fmax_mhz` and `fmax_wire_load_mhz`.
    gated : dict, or None
        Of a component that is mapped with gated clocks, too: that netlist's `kge`, the gates'
        own included, `fmax_mhz`, their enables' paths included, `depth` and `slowest_path`, the
        number of `clock_gates`, and `gated_flip_flops`.
    opensta : dict, or None
        If it was asked: `period_ps` by OpenSTA from register to register, and `own_period_ps`.
    """

    COMPARED = (
        Compared("kge"),
        Compared("flip_flops"),
        Compared("macro_bits"),
        Compared("fmax_mhz", less_is_better=False),
    )

    fmax_mhz: float
    slowest_path: list[str]
    macro_bits: int
    kge: float
    area_um2: float
    area_um2_28nm: float | None
    delay_ps: float
    fmax_wire_load_mhz: float | None = None
    overloaded_nets: int = 0
    steep_nets: int = 0
    parts: list[dict[str, Any]] | None = None
    corners: list[dict[str, Any]] | None = None
    gated: dict[str, Any] | None = None
    opensta: dict[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class FpgaRow(ComponentRow):
    """Figures on an FPGA.

    Attributes
    ----------
    fmax_mhz : float or None
        The clock after place and route, with wires.
    no_fmax : str or None
        The reason for there being no `fmax_mhz`.
    luts, carries, block_rams, dsps : int
        Counts as in `cdma.synth.fpga.resources.Resources`.
    """

    COMPARED = (
        Compared("luts"),
        Compared("flip_flops"),
        Compared("block_rams"),
        Compared("dsps"),
        Compared("fmax_mhz", less_is_better=False, tolerance=LARGEST_LOSS_OF_ROUTED_CLOCK),
    )

    no_fmax: str | None
    luts: int
    carries: int
    block_rams: int
    dsps: int


_KEYS = tuple(
    dict.fromkeys(field.name for kind in (GateRow, FpgaRow) for field in dataclasses.fields(kind))
)


@dataclass(frozen=True)
class Change:
    """Difference of a figure from the baseline's.

    Attributes
    ----------
    component : str
    compared : Compared
    before, after : float
    """

    component: str
    compared: Compared
    before: float
    after: float

    @property
    def figure(self) -> str:
        """The figure's key in the row."""
        return self.compared.figure

    @property
    def relative(self) -> float:
        """Difference divided by the baseline; infinite if the baseline is 0."""
        if self.before == 0:
            return float("inf") if self.after else 0.0
        return (self.after - self.before) / self.before

    @property
    def regression(self) -> bool:
        """True if the figure is worse by more than its tolerance."""
        worse = self.relative if self.compared.less_is_better else -self.relative
        return worse > self.compared.tolerance


def row_of(
    block: ComponentBlock,
    synthesis: Synthesis,
    library: Library,
    target: str,
    gated: Synthesis | None = None,
) -> GateRow:
    """Make the row of a component in gates, rounded to the figures' accuracy.

    Parameters
    ----------
    gated
        The same component with gated clocks.
    """
    timing, with_wires = synthesis.timing, synthesis.timing_with_wires
    generic = target == GENERIC
    return GateRow(
        name=block.name,
        config=block.config,
        parameters=block.parameters,
        cells=synthesis.cells,
        flip_flops=synthesis.flip_flops,
        macro_bits=synthesis.macro_bits,
        kge=round(synthesis.kge, 3),
        area_um2=round(um2_of(synthesis.kge, 45) if generic else synthesis.area, 1),
        area_um2_28nm=round(um2_of(synthesis.kge, 28), 1) if generic else None,
        depth=timing.depth,
        delay_ps=round(timing.delay_ps, 1),
        fmax_mhz=round(timing.fmax_mhz, 1),
        fmax_wire_load_mhz=None if with_wires is None else round(with_wires.fmax_mhz, 1),
        slowest_path=[timing.start, timing.end],
        overloaded_nets=timing.overloaded_nets,
        steep_nets=timing.steep_nets,
        parts=[{**dataclasses.asdict(part), "kge": round(part.kge, 3)} for part in synthesis.parts]
        or None,
        corners=[
            {
                "library": corner.library,
                "fmax_mhz": round(corner.timing.fmax_mhz, 1),
                "fmax_wire_load_mhz": (
                    None
                    if corner.timing_with_wires is None
                    else round(corner.timing_with_wires.fmax_mhz, 1)
                ),
            }
            for corner in synthesis.corners
        ]
        or None,
        gated=None if gated is None else _gated(gated),
    )


def _gated(synthesis: Synthesis) -> dict[str, Any]:
    timing = synthesis.timing
    return {
        "kge": round(synthesis.kge, 3),
        "fmax_mhz": round(timing.fmax_mhz, 1),
        "depth": timing.depth,
        "slowest_path": [timing.start, timing.end],
        "clock_gates": synthesis.clock_gates,
        "gated_flip_flops": synthesis.gated_flip_flops,
    }


def fpga_row_of(block: ComponentBlock, found: Resources, routed: Routed | str) -> FpgaRow:
    """Make the row of a component on an FPGA, with the reason if it is not routed."""
    return FpgaRow(
        name=block.name,
        config=block.config,
        parameters=block.parameters,
        **dataclasses.asdict(found),
        fmax_mhz=round(routed.fmax_mhz, 1) if isinstance(routed, Routed) else None,
        no_fmax=None if isinstance(routed, Routed) else routed,
        slowest_path=[routed.start, routed.end] if isinstance(routed, Routed) else None,
    )


def changes(row: ComponentRow, baseline: Baseline) -> list[Change] | None:
    """List the changes of a component since the baseline; None if the baseline has no such row."""
    before, after = baseline.get((row.name, row.config)), row.json()
    if before is None or before["parameters"] != after["parameters"]:
        return None
    figures = [(each, before[each.figure], after[each.figure]) for each in row.COMPARED]
    if before.get("gated") and after.get("gated"):
        figures += [
            (replace(each, figure=f"gated {key}"), before["gated"][key], after["gated"][key])
            for each in row.COMPARED
            if (key := each.figure) in after["gated"]
        ]
    return [
        Change(row.name, compared, was, now)
        for compared, was, now in figures
        # What is no longer routed has grown, which is told.
        if was != now and was is not None and now is not None
    ]
