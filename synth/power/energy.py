"""Energy of a mapped netlist from its activity, by the library's capacitances and energies.

Per cycle, of each net that is not a clock

    1/2 · C · V²  for each edge, C being the cells' input pins on the net,

of each clock the same with two edges for each of its pulses, of each cell

    what the library says of each pin's edges (`internal_power`), at the slope of the input and the
    load of the output, under the condition (`when`) that holds; and its `cell_leakage_power`.

If several inputs of a gate have an edge in the cycle in which its output has one, the energies that
the library has for them are averaged. Outputs that are not connected count: their transistors are
there. What is left out: wires, the clock's tree, hazards (there are no delays), what is behind the
outputs, slopes of the clock.
"""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from cdma.synth.errors import SynthError
from cdma.synth.gates.cell import EDGES, Table
from cdma.synth.gates.mapped import MappedNetlist
from cdma.synth.gates.simulation import ClockGates, FlipFlops, Group, Simulation
from cdma.synth.gates.timing import slopes_ps
from cdma.synth.power.activity import Activity, Counts, GroupActivity

Figures = npt.NDArray[np.float64]

FJ_PER_PJ = 1000.0


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Energy of one cycle in pJ, by where it is dissipated.

    Attributes
    ----------
    clock_pins : float
        Charging the flip-flops' clock pins.
    flip_flops_clock : float
        Inside flip-flops, by edges of their clocks.
    flip_flops_data : float
        Inside flip-flops, by edges of their inputs and outputs.
    nets : float
        Charging the input pins of all cells, clocks apart.
    gates : float
        Inside gates.
    clock_gates : float
        Clock gates, with their clock pins.
    """

    clock_pins: float
    flip_flops_clock: float
    flip_flops_data: float
    nets: float
    gates: float
    clock_gates: float

    @property
    def parts(self) -> dict[str, float]:
        """Energies by the fields' names."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def total(self) -> float:
        """Sum of all parts."""
        return sum(self.parts.values())

    @property
    def clock(self) -> float:
        """Energy that the clock takes, whatever the data are."""
        return self.clock_pins + self.flip_flops_clock + self.clock_gates


@dataclass(frozen=True)
class RegisterEnergy:
    """Clock energy of a register: the flip-flops that share a name in the Verilog.

    Attributes
    ----------
    name : str
    bits : int
    gated : bool
        True if all of its bits are behind clock gates.
    clocked, changed : float
        Per bit and cycle, how often the clock arrives and how often the bit changes.
    clock_pj : float
        Energy of the clock per cycle, without that of its clock gates.
    """

    name: str
    bits: int
    gated: bool
    clocked: float
    changed: float
    clock_pj: float


class EnergyModel:
    """Energies of a netlist's cells and nets.

    Parameters
    ----------
    netlist : MappedNetlist

    Attributes
    ----------
    leakage_mw : float

    Raises
    ------
    SynthError
        If the library tells no voltage, or gates drive each other in a circle.
    """

    def __init__(self, netlist: MappedNetlist) -> None:
        library = netlist.library
        if library.volts is None:
            raise SynthError(
                f"{library.path} has no nom_voltage, and so no energies; give a library with it"
            )
        self.netlist = netlist
        self._edge_fj_per_ff = 0.5 * library.volts**2
        self._slopes = slopes_ps(netlist)
        self._known: dict[tuple[str, int, str], Figures] = {}
        cells = [*netlist.gates, *netlist.flip_flops, *netlist.clock_gates]
        self.leakage_mw = sum(cell.kind.leakage_nw for cell in cells) * 1e-6

    def energy(self, simulation: Simulation, activity: Activity) -> Energy:
        """Energy per cycle of the counted activity."""
        parts = dict.fromkeys((field.name for field in fields(Energy)), 0.0)
        parts["nets"] = self._nets_fj(simulation, activity)
        for counted in activity.groups:
            group = counted.group
            inside = self._inside_fj(counted)
            if isinstance(group, FlipFlops):
                pulses = activity.pulses[group.clocks]
                pin = group.kind.inputs[group.kind.clock]
                parts["clock_pins"] += float(pulses.sum()) * 2 * pin * self._edge_fj_per_ff
                clock = inside.pop(group.kind.clock, np.zeros(1))
                parts["flip_flops_clock"] += float(clock.sum())
                parts["flip_flops_data"] += float(sum(fj.sum() for fj in inside.values()))
            elif isinstance(group, ClockGates):
                gate = group.kind.gate
                assert gate is not None
                pulses = activity.pulses[group.sources]
                pin = group.kind.inputs[gate.clock]
                parts["clock_gates"] += float(pulses.sum()) * 2 * pin * self._edge_fj_per_ff
                parts["clock_gates"] += float(sum(fj.sum() for fj in inside.values()))
            else:
                parts["gates"] += float(sum(fj.sum() for fj in inside.values()))
        return Energy(**{name: fj / activity.cycles / FJ_PER_PJ for name, fj in parts.items()})

    def registers(self, simulation: Simulation, activity: Activity) -> list[RegisterEnergy]:
        """Clock energy by register, the largest first."""
        gated = self.netlist.gate_of()
        found: dict[str, list[tuple[bool, float, float, float]]] = {}
        for counted in activity.groups:
            group = counted.group
            if not isinstance(group, FlipFlops):
                continue
            pulses = activity.pulses[group.clocks]
            pin_fj = 2 * group.kind.inputs[group.kind.clock] * self._edge_fj_per_ff
            inside = self._inside_fj(counted).get(group.kind.clock, np.zeros(len(pulses)))
            output = next(iter(counted.outputs.values()))
            changes = output["rise"] + output["fall"]
            for k, flip_flop in enumerate(group.instances):
                name = self.netlist.register_name(flip_flop).partition("[")[0]
                fj = float(pulses[k]) * pin_fj + float(inside[k])
                behind = flip_flop.pins[flip_flop.kind.clock] in gated
                found.setdefault(name, []).append((behind, float(pulses[k]), float(changes[k]), fj))
        registers = [
            RegisterEnergy(
                name=name,
                bits=len(bits),
                gated=all(bit[0] for bit in bits),
                clocked=sum(bit[1] for bit in bits) / len(bits) / activity.cycles,
                changed=sum(bit[2] for bit in bits) / len(bits) / activity.cycles,
                clock_pj=sum(bit[3] for bit in bits) / activity.cycles / FJ_PER_PJ,
            )
            for name, bits in found.items()
        ]
        return sorted(registers, key=lambda register: -register.clock_pj)

    def _nets_fj(self, simulation: Simulation, activity: Activity) -> float:
        loads = self.netlist.pin_load_ff
        return sum(
            float(activity.toggles[place]) * loads.get(bit, 0.0) * self._edge_fj_per_ff
            for bit, place in simulation.places.items()
        )

    def _inside_fj(self, counted: GroupActivity) -> dict[str, Figures]:
        """Energy inside the cells by the pin whose edges take it, one figure per cell."""
        kind = counted.group.kind
        found: dict[str, Figures] = {}
        for pin in dict.fromkeys(energy.pin for energy in kind.energies):
            own = [k for k, energy in enumerate(kind.energies) if energy.pin == pin]
            total = np.zeros(len(counted.group.instances))
            for edge in EDGES:
                counts = np.array([counted.counts[k][edge] for k in own])
                if not counts.any() and pin not in counted.outputs:
                    continue
                each = np.array([self._each_fj(counted.group, k, edge) for k in own])
                if pin in counted.outputs:
                    total += counted.outputs[pin][edge] * _mean(each, counts)
                else:
                    total += (each * counts).sum(axis=0)
            found[pin] = total
        return found

    def _each_fj(self, group: Group, index: int, edge: str) -> Figures:
        """Energy in fJ that an edge takes by one of the cell's `energies`, one figure per cell."""
        key = (group.kind.name, index, edge)
        if key not in self._known:
            energy = group.kind.energies[index]
            source = energy.related or energy.pin
            slopes = [self._slopes.get(i.pins.get(source, -1), 0.0) for i in group.instances]
            loads = [self._load_ff(i.pins.get(energy.pin, -1)) for i in group.instances]
            table = energy.energy[edge]
            self._known[key] = interpolated(table, np.array(slopes), np.array(loads))
        return self._known[key]

    def _load_ff(self, bit: int) -> float:
        loads = self.netlist.pin_load_ff if bit in self.netlist.clocks else self.netlist.load_ff
        return loads.get(bit, 0.0)


def _mean(each: Figures, counts: Counts) -> Figures:
    """Mean weighted by the counts, down the columns; unweighted where all counts are zero."""
    weights = np.where(counts.sum(axis=0) > 0, counts, 1)
    mean: Figures = (each * weights).sum(axis=0) / weights.sum(axis=0)
    return mean


def interpolated(table: Table, slopes: Figures, loads: Figures) -> Figures:
    """`Table.at` for many points: one figure for each of (points,) slopes and loads."""
    values = np.array(table.rows)
    row, down = _places(table.slopes, slopes)
    column, right = _places(table.loads, loads)
    next_row, next_column = (
        np.minimum(row + 1, len(values) - 1),
        np.minimum(column + 1, values.shape[1] - 1),
    )
    upper = values[row, column] * (1 - right) + values[row, next_column] * right
    lower = values[next_row, column] * (1 - right) + values[next_row, next_column] * right
    mean: Figures = upper * (1 - down) + lower * down
    return mean


def _places(points: tuple[float, ...], at: Figures) -> tuple[Counts, Figures]:
    if len(points) == 1:
        return np.zeros(len(at), np.int64), np.zeros(len(at))
    grid = np.array(points)
    index = np.clip(np.searchsorted(grid, at, side="right") - 1, 0, len(points) - 2)
    return index, (at - grid[index]) / (grid[index + 1] - grid[index])
