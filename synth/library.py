"""A library of standard cells: areas, capacitances, delays."""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from synth.function import evaluate, pins_of
from synth.liberty import Group, LibertyError, read_liberty

UNIT_GATES = Path(__file__).with_name("unit_gates.lib")
"""The library that comes with the package: its areas are gate equivalents."""

_PICOSECONDS = {"ps": 1.0, "ns": 1e3, "us": 1e6}
_FEMTOFARADS = {"ff": 1.0, "pf": 1e3}


@dataclass(frozen=True)
class Table:
    """Values over input slope (ps) and load (fF), in ps: bilinear, and beyond its ends too."""

    slopes: tuple[float, ...]
    loads: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]

    def at(self, slope: float, load: float) -> float:
        """The value at a point."""
        column, right = _place(self.loads, load)
        row, down = _place(self.slopes, slope)
        values = [
            cells[column] + (right * (cells[column + 1] - cells[column]) if right else 0.0)
            for cells in self.rows[row : row + 2]
        ]
        return values[0] + (down * (values[1] - values[0]) if down else 0.0)


@dataclass(frozen=True)
class Arc:
    """From an input pin to an output pin.

    Attributes
    ----------
    source : str
        The input.
    delay, slope : dict of str to Table
        Of the output's "rise" and "fall".
    causes : dict of str to tuple of str
        Edges of the input that the output's "rise" and "fall" may follow.
    """

    source: str
    delay: dict[str, Table]
    slope: dict[str, Table]
    causes: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Cell:
    """A cell.

    Attributes
    ----------
    name : str
    area : float
        In the library's unit.
    inputs : dict of str to float
        Capacitances in fF.
    outputs : dict of str to str
        Functions.
    arcs : dict of str to list of Arc
        Of each output.
    clock : str
        A flip-flop's clock; empty of other cells.
    setups_ps : dict of str to float
        A flip-flop's setup times, the longer of rise and fall, at slopes of zero.
    """

    name: str
    area: float
    inputs: dict[str, float]
    outputs: dict[str, str]
    arcs: dict[str, list[Arc]]
    clock: str
    setups_ps: dict[str, float]


class Library:
    """What synthesis and timing need of a library.

    Parameters
    ----------
    path : Path
        Of the Liberty file.

    Attributes
    ----------
    name : str
    cells : dict of str to Cell
    driver, inverter, nand2, flip_flop : Cell
        The smallest buffer, inverter, NAND2 and plain flip-flop.
    port_load_ff : float
        Load of an output: four of those inverters.

    Raises
    ------
    LibertyError
        If the file cannot be read, is no Liberty, or has none of one of those cells.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        root = read_liberty(path)
        self.name = root.name
        self._ps = self._time_unit(root)
        self._ff = self._load_unit(root)
        self._templates = {group.name: group for group in root.all("lu_table_template")}
        self.cells = {
            group.name: self._cell(group)
            for group in root.all("cell")
            if group.attributes.get("dont_use") != "true"
        }
        self.driver = self._smallest("buffer", 1, lambda a: a)
        self.inverter = self._smallest("inverter", 1, lambda a: not a)
        self.nand2 = self._smallest("NAND2, the unit of gate equivalents", 2, _nand)
        if self.nand2.area <= 0:
            raise self._error("has a NAND2 without area")
        flip_flops = [cell for cell in self.cells.values() if cell.clock and len(cell.inputs) == 2]
        if not flip_flops:
            raise self._error("has no plain flip-flop")
        self.flip_flop = min(flip_flops, key=lambda cell: cell.area)
        self.port_load_ff = 4 * next(iter(self.inverter.inputs.values()))

    def _error(self, cause: str) -> LibertyError:
        return LibertyError(f"{self.path} {cause}; give a library of standard cells")

    def _smallest(self, what: str, pins: int, function: Callable[..., bool]) -> Cell:
        found = [
            cell
            for cell in self.cells.values()
            if len(cell.inputs) == pins
            and len(cell.outputs) == 1
            and not cell.clock
            and _computes(cell, function)
        ]
        if not found:
            raise self._error(f"has no {what}")
        return min(found, key=lambda cell: cell.area)

    def _time_unit(self, root: Group) -> float:
        text = root.attributes.get("time_unit", "1ns")
        match = re.fullmatch(r"([\d.]+)\s*(ps|ns|us)", text)
        if match is None:
            raise self._error(f"has a time_unit of {text!r}, not of ps, ns or us")
        return float(match[1]) * _PICOSECONDS[match[2]]

    def _load_unit(self, root: Group) -> float:
        text = root.attributes.get("capacitive_load_unit", "1,pf")
        match = re.fullmatch(r"([\d.]+),(ff|pf)", text.lower())
        if match is None:
            raise self._error(f"has a capacitive_load_unit of {text!r}, not of fF or pF")
        return float(match[1]) * _FEMTOFARADS[match[2]]

    def _cell(self, group: Group) -> Cell:
        flip_flops = group.all("ff")
        clock = flip_flops[0].attributes.get("clocked_on", "").strip("!() '") if flip_flops else ""
        inputs, outputs, arcs, setups = {}, {}, {}, {}
        for pin in group.all("pin"):
            if pin.attributes.get("direction") == "input":
                inputs[pin.name] = float(pin.attributes.get("capacitance", "0")) * self._ff
                setup = self._setup(pin)
                if setup is not None:
                    setups[pin.name] = setup
            elif pin.attributes.get("direction") == "output":
                outputs[pin.name] = pin.attributes.get("function", "")
                arcs[pin.name] = self._arcs(pin)
        area = float(group.attributes.get("area", "0"))
        return Cell(group.name, area, inputs, outputs, arcs, clock, setups)

    def _arcs(self, pin: Group) -> list[Arc]:
        arcs = []
        for timing in pin.all("timing"):
            tables = {group.kind: group for group in timing.groups}
            # A reset only falls, and has no arc that counts here.
            if not {"cell_rise", "cell_fall", "rise_transition", "fall_transition"} <= set(tables):
                continue
            delay = {edge: self._table(tables[f"cell_{edge}"]) for edge in ("rise", "fall")}
            slope = {edge: self._table(tables[f"{edge}_transition"]) for edge in ("rise", "fall")}
            sense = timing.attributes.get("timing_sense", "non_unate")
            senses: dict[str, dict[str, tuple[str, ...]]] = {
                "positive_unate": {"rise": ("rise",), "fall": ("fall",)},
                "negative_unate": {"rise": ("fall",), "fall": ("rise",)},
            }
            causes = senses.get(sense, {"rise": ("rise", "fall"), "fall": ("rise", "fall")})
            for source in timing.attributes.get("related_pin", "").split():
                arcs.append(Arc(source, delay, slope, causes))
        return arcs

    def _setup(self, pin: Group) -> float | None:
        times = [
            self._table(group).at(0.0, 0.0)
            for timing in pin.all("timing")
            if timing.attributes.get("timing_type", "").startswith("setup")
            for group in timing.groups
            if group.kind.endswith("_constraint")
        ]
        return max(times) if times else None

    def _table(self, group: Group) -> Table:
        values = group.numbers("values")
        template = self._templates.get(group.name, Group("", ""))
        axes: dict[str, tuple[float, ...]] = {}
        order = []
        for k in (1, 2):
            variable = template.attributes.get(f"variable_{k}")
            points = group.numbers(f"index_{k}") or template.numbers(f"index_{k}")
            if variable is not None and points:
                axis = "load" if variable == "total_output_net_capacitance" else "slope"
                # A constraint's second axis is the clock's slope, which is taken as zero.
                axis = axis if axis not in axes else "load"
                axes[axis] = points
                order.append(axis)
        slopes, loads = axes.get("slope", (0.0,)), axes.get("load", (0.0,))
        if len(values) != len(slopes) * len(loads):
            raise self._error(
                f"has a table of {len(values)} values for {len(slopes)} × {len(loads)} points"
            )
        if order == ["load", "slope"]:
            rows = tuple(values[i :: len(slopes)] for i in range(len(slopes)))
        else:
            rows = tuple(values[i * len(loads) : (i + 1) * len(loads)] for i in range(len(slopes)))
        return Table(
            tuple(slope * self._ps for slope in slopes),
            tuple(load * self._ff for load in loads),
            tuple(tuple(value * self._ps for value in row) for row in rows),
        )


def _place(points: tuple[float, ...], at: float) -> tuple[int, float]:
    """The interval whose line is meant, and how far along it; of a single point, the point."""
    if len(points) == 1:
        return 0, 0.0
    index = min(max(bisect_right(points, at) - 1, 0), len(points) - 2)
    return index, (at - points[index]) / (points[index + 1] - points[index])


def _nand(a: bool, b: bool) -> bool:
    return not (a and b)


def _computes(cell: Cell, function: Callable[..., bool]) -> bool:
    """Whether the cell's output is that function of its inputs: all of them are tried."""
    text, names = next(iter(cell.outputs.values())), list(cell.inputs)
    if pins_of(text) != set(names):
        return False
    return all(
        evaluate(text, dict(zip(names, values, strict=True))) == function(*values)
        for values in product((False, True), repeat=len(names))
    )
