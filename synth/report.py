"""Rows of figures, one for each component, and what has changed since the committed ones."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from synth.asic import Synthesis
from synth.components import Block
from synth.conversion import um2_of
from synth.errors import SynthError
from synth.library import Library

BASELINE = Path(__file__).with_name("baseline.json")
"""What `cdma synth --all --json` printed when the RTL was last changed on purpose."""

GENERIC, ASIC = "generic", "asic"
TARGETS = (GENERIC, ASIC)
"""The gates that come with the package; a library that is given."""

Baseline = Mapping[tuple[str, str], Mapping[str, Any]]
"""Rows by component and configuration."""

LARGEST_REGRESSION = 0.05

LESS_IS_BETTER = {"kge": True, "flip_flops": True, "macro_bits": True, "fmax_mhz": False}
"""What is compared, and whether less of it is better."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A component's figures.

    Attributes
    ----------
    name, config : str
    parameters : dict
    cells, flip_flops : int
    macro_bits : int
        Of memories that are macros, and in no other figure.
    kge : float
        Thousand gate equivalents: areas of NAND2.
    area_um2 : float
        By the given library; of generic gates, by conversion to 45 nm.
    area_um2_28nm : float or None
        Of generic gates, by conversion.
    depth : int
        Gates on the slowest path, between flip-flops.
    delay_ps : float
        Those gates' delay.
    fmax_mhz : float
        Of that path, with clock to output and setup, without wires.
    slowest_path : list of str
        The registers or ports at its ends.
    """

    name: str
    config: str
    parameters: dict[str, Any]
    cells: int
    flip_flops: int
    macro_bits: int
    kge: float
    area_um2: float
    area_um2_28nm: float | None
    depth: int
    delay_ps: float
    fmax_mhz: float
    slowest_path: list[str]

    def json(self) -> dict[str, Any]:
        """As it stands in a file."""
        return asdict(self)


@dataclass(frozen=True)
class Change:
    """How a figure differs from the baseline's.

    Attributes
    ----------
    component, figure : str
    before, after : float
    """

    component: str
    figure: str
    before: float
    after: float

    @property
    def relative(self) -> float:
        """Difference over the baseline; infinite if there was none of it."""
        if self.before == 0:
            return float("inf") if self.after else 0.0
        return (self.after - self.before) / self.before

    @property
    def regression(self) -> bool:
        """Whether it is worse by more than `LARGEST_REGRESSION`."""
        worse = self.relative if LESS_IS_BETTER[self.figure] else -self.relative
        return worse > LARGEST_REGRESSION


def row_of(block: Block, synthesis: Synthesis, library: Library, target: str) -> Row:
    """The figures of a component, rounded to what they are worth."""
    timing = synthesis.timing
    generic = target == GENERIC
    return Row(
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
        slowest_path=[timing.start, timing.end],
    )


def read_baseline(path: Path = BASELINE) -> Baseline:
    """The committed rows, by component and configuration.

    Raises
    ------
    SynthError
        If the file is not there or not what `cdma synth --all --json` prints.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {(row["name"], row["config"]): row for row in content["components"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SynthError(
            f"{path} is no baseline ({error}); make one with: cdma synth --all --json"
        ) from error


def changes(row: Row, baseline: Baseline) -> list[Change] | None:
    """What has changed of a component; None if the baseline has no such row."""
    before = baseline.get((row.name, row.config))
    if before is None or before["parameters"] != row.parameters:
        return None
    after = row.json()
    return [
        Change(row.name, figure, before[figure], after[figure])
        for figure in LESS_IS_BETTER
        if before[figure] != after[figure]
    ]
