"""A library of standard cells: areas, capacitances, delays, energies."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

from cdma.synth.gates.cell import EDGES, Arc, Cell, ClockGate, EdgeEnergy, State, Table
from cdma.synth.gates.function import evaluate, pins_of
from cdma.synth.gates.liberty import Group, LibertyError, read_liberty
from cdma.synth.gates.wire_load import WireLoad

UNIT_GATES = Path(__file__).with_name("unit_gates.lib")
"""The library that comes with the package: its areas are gate equivalents."""

_PICOSECONDS = {"ps": 1.0, "ns": 1e3, "us": 1e6}
_FEMTOFARADS = {"ff": 1.0, "pf": 1e3}
_VOLTS = {"mv": 1e-3, "v": 1.0}
_NANOWATTS = {"pw": 1e-3, "nw": 1.0, "uw": 1e3, "mw": 1e6}

CLOCK_GATE = "latch_posedge"
"""Liberty's word for a clock gate without pins for tests."""


class Library:
    """A library, as far as synthesis, timing and energy need it.

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
    clock_gates : list of Cell
        From the smallest up; there may be none.
    port_load_ff : float
        Load of an output: four of those inverters.
    ps_per_unit : float
        Of its unit of time.
    volts : float or None
        The supply, if the file tells it.
    wire_load : WireLoad or None
        The one that the file has for all that names none, if there is one.

    Raises
    ------
    LibertyError
        If the file cannot be read, is no Liberty, or has none of one of those cells.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        root = read_liberty(path)
        self.name = root.name
        self.ps_per_unit = self._scale(root, "time_unit", "1ns", _PICOSECONDS)
        self._ff = self._load_unit(root)
        # Energies are in units of capacitance and squared voltage, as no other unit is given.
        volt = self._scale(root, "voltage_unit", "1V", _VOLTS)
        self._fj = self._ff * volt**2
        self._nw = self._scale(root, "leakage_power_unit", "1nW", _NANOWATTS)
        volts = root.attributes.get("nom_voltage")
        self.wire_load = self._wire_load(root)
        self._max_slope = root.attributes.get("default_max_transition")
        self.volts = None if volts is None else float(volts) * volt
        templates = [*root.all("lu_table_template"), *root.all("power_lut_template")]
        self._templates = {group.name: group for group in templates}
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
        gates = [cell for cell in self.cells.values() if cell.gate is not None]
        self.clock_gates = sorted(gates, key=lambda cell: cell.area)
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

    def _scale(self, root: Group, attribute: str, usual: str, units: dict[str, float]) -> float:
        text = root.attributes.get(attribute, usual)
        match = re.fullmatch(r"([\d.]+)\s*([a-z]+)", text.lower())
        if match is None or match[2] not in units:
            raise self._error(f"has a {attribute} of {text!r}, which is unknown")
        return float(match[1]) * units[match[2]]

    def _load_unit(self, root: Group) -> float:
        text = root.attributes.get("capacitive_load_unit", "1,pf")
        match = re.fullmatch(r"([\d.]+),(ff|pf)", text.lower())
        if match is None:
            raise self._error(f"has a capacitive_load_unit of {text!r}, not of fF or pF")
        return float(match[1]) * _FEMTOFARADS[match[2]]

    def _wire_load(self, root: Group) -> WireLoad | None:
        name = root.attributes.get("default_wire_load")
        group = next((group for group in root.all("wire_load") if group.name == name), None)
        if name is None or group is None:
            return None
        pairs = [value.split(",") for key, value in group.statements if key == "fanout_length"]
        lengths = tuple(sorted((int(pins), float(length)) for pins, length, *_ in pairs))
        if not lengths:
            raise self._error(f"has a wire load {name} without a length")
        return WireLoad(
            name=name,
            ff_per_length=float(group.attributes.get("capacitance", "0")) * self._ff,
            lengths=lengths,
            length_per_pin=float(group.attributes.get("slope", "0")),
        )

    def _cell(self, group: Group) -> Cell:
        flip_flops = group.all("ff")
        clock = flip_flops[0].attributes.get("clocked_on", "").strip("!() '") if flip_flops else ""
        inputs, edge_inputs, outputs, arcs, setups = {}, {}, {}, {}, {}
        max_load, max_slope = {}, {}
        energies: list[EdgeEnergy] = []
        for pin in group.all("pin"):
            energies += self._energies(pin)
            if pin.attributes.get("direction") == "input":
                capacitance = pin.attributes.get("capacitance", "0")
                inputs[pin.name] = float(capacitance) * self._ff
                edge_inputs[pin.name] = {
                    edge: float(pin.attributes.get(f"{edge}_capacitance", capacitance)) * self._ff
                    for edge in EDGES
                }
                setup = self._setup(pin)
                if setup is not None:
                    setups[pin.name] = setup
            elif pin.attributes.get("direction") == "output":
                outputs[pin.name] = pin.attributes.get("function", "")
                arcs[pin.name] = self._arcs(pin)
                if "max_capacitance" in pin.attributes:
                    max_load[pin.name] = float(pin.attributes["max_capacitance"]) * self._ff
                steepest = pin.attributes.get("max_transition", self._max_slope)
                if steepest is not None:
                    max_slope[pin.name] = float(steepest) * self.ps_per_unit
        return Cell(
            name=group.name,
            area=float(group.attributes.get("area", "0")),
            inputs=inputs,
            edge_inputs=edge_inputs,
            outputs=outputs,
            arcs=arcs,
            clock=clock,
            setups=setups,
            max_load_ff=max_load,
            max_slope_ps=max_slope,
            state=_state(flip_flops[0], clock) if flip_flops else None,
            gate=self._clock_gate(group),
            energies=tuple(energies),
            leakage_nw=float(group.attributes.get("cell_leakage_power", "0")) * self._nw,
        )

    def _clock_gate(self, group: Group) -> ClockGate | None:
        if group.attributes.get("clock_gating_integrated_cell") != CLOCK_GATE:
            return None
        marks = ("clock_gate_enable_pin", "clock_gate_clock_pin", "clock_gate_out_pin")
        pins = [
            [pin.name for pin in group.all("pin") if pin.attributes.get(mark) == "true"]
            for mark in marks
        ]
        if any(len(found) != 1 for found in pins):
            raise self._error(f"has a clock gate {group.name} without one {', one '.join(marks)}")
        return ClockGate(*(found[0] for found in pins))

    def _energies(self, pin: Group) -> list[EdgeEnergy]:
        energies = []
        for group in pin.all("internal_power"):
            tables = {table.kind: table for table in group.groups}
            both = tables.get("power")
            rise, fall = (tables.get(f"{edge}_power", both) for edge in EDGES)
            # An edge that has no table takes nothing.
            energy = {
                edge: self._table(table, self._fj) if table is not None else _NOTHING
                for edge, table in zip(EDGES, (rise, fall), strict=True)
            }
            when = group.attributes.get("when", "")
            related = group.attributes.get("related_pin", "").split() or [""]
            energies += [EdgeEnergy(pin.name, source, when, energy) for source in related]
        return energies

    def _arcs(self, pin: Group) -> list[Arc]:
        arcs = []
        for timing in pin.all("timing"):
            tables = {group.kind: group for group in timing.groups}
            # A reset only falls, and has no arc that counts here.
            if not {"cell_rise", "cell_fall", "rise_transition", "fall_transition"} <= set(tables):
                continue
            delay = {edge: self._table(tables[f"cell_{edge}"], self.ps_per_unit) for edge in EDGES}
            slope = {
                edge: self._table(tables[f"{edge}_transition"], self.ps_per_unit) for edge in EDGES
            }
            sense = timing.attributes.get("timing_sense", "non_unate")
            senses: dict[str, dict[str, tuple[str, ...]]] = {
                "positive_unate": {"rise": ("rise",), "fall": ("fall",)},
                "negative_unate": {"rise": ("fall",), "fall": ("rise",)},
            }
            causes = senses.get(sense, {"rise": ("rise", "fall"), "fall": ("rise", "fall")})
            for source in timing.attributes.get("related_pin", "").split():
                arcs.append(Arc(source, delay, slope, causes))
        return arcs

    def _setup(self, pin: Group) -> dict[str, Table] | None:
        for timing in pin.all("timing"):
            if timing.attributes.get("timing_type", "") == "setup_rising":
                tables = {
                    group.kind: self._table(group, self.ps_per_unit) for group in timing.groups
                }
                return {edge: tables.get(f"{edge}_constraint", _NOTHING) for edge in EDGES}
        return None

    def _table(self, group: Group, unit: float) -> Table:
        values = group.numbers("values")
        template = self._templates.get(group.name, Group("", ""))
        axes: dict[str, tuple[float, ...]] = {}
        units = {"slope": self.ps_per_unit, "load": self._ff}
        order = []
        for k in (1, 2):
            variable = template.attributes.get(f"variable_{k}")
            points = group.numbers(f"index_{k}") or template.numbers(f"index_{k}")
            if variable is not None and points:
                axis = "load" if variable == "total_output_net_capacitance" else "slope"
                if variable == "related_pin_transition":
                    # Of a constraint: the clock's slope, in the place of a load.
                    axis = "load"
                    units[axis] = self.ps_per_unit
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
            tuple(slope * units["slope"] for slope in slopes),
            tuple(load * units["load"] for load in loads),
            tuple(tuple(value * unit for value in row) for row in rows),
        )


_NOTHING = Table((0.0,), (0.0,), ((0.0,),))


def _state(flip_flop: Group, clock: str) -> State:
    name, _, inverse = flip_flop.name.partition(",")
    attributes = flip_flop.attributes
    plain = attributes.get("clocked_on") == clock and not {"clear", "preset"} & set(attributes)
    return State(name, inverse, attributes.get("next_state", "") if plain else "")


def _nand(a: bool, b: bool) -> bool:
    return not (a and b)


def _computes(cell: Cell, function: Callable[..., bool]) -> bool:
    """True if the cell's output is that function of its inputs: all of them are tried."""
    text, names = next(iter(cell.outputs.values())), list(cell.inputs)
    if pins_of(text) != set(names):
        return False
    return all(
        evaluate(text, dict(zip(names, values, strict=True))) == function(*values)
        for values in product((False, True), repeat=len(names))
    )
