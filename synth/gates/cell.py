"""A standard cell: area, capacitances, delays, energies."""

from bisect import bisect_right
from dataclasses import dataclass

EDGES = ("rise", "fall")


@dataclass(frozen=True)
class Table:
    """Values over input slope (ps) and load (fF): bilinear, and beyond its ends too.

    Delays and slopes are in ps, energies in fJ.
    """

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
    """Timing arc from an input pin to an output pin.

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
class EdgeEnergy:
    """Energy inside a cell when one of its pins has an edge (Liberty's `internal_power`).

    Attributes
    ----------
    pin : str
        Whose edge.
    related : str
        Of an output: the input that has caused it. Empty of an input's own edge.
    when : str
        A function of the pins that must hold; empty if it always counts.
    energy : dict of str to Table
        Of "rise" and "fall", in fJ, over the slope of the input and the load of the output.
    """

    pin: str
    related: str
    when: str
    energy: dict[str, Table]


@dataclass(frozen=True)
class ClockGate:
    """A clock gate's pins: a latch that is open while the clock is low, and an AND.

    Attributes
    ----------
    enable, clock, output : str
    """

    enable: str
    clock: str
    output: str


@dataclass(frozen=True)
class State:
    """State of a flip-flop, under the names that its functions use.

    Attributes
    ----------
    name, inverse : str
        As in an output's function.
    next : str
        The function that it takes over when the clock rises; empty unless that, of the inputs, is
        all that it does: one that falls, or has a reset of its own, has none.
    """

    name: str
    inverse: str
    next: str


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
    edge_inputs : dict of str to dict of str to float
        The same of the net's "rise" and "fall".
    outputs : dict of str to str
        Functions.
    arcs : dict of str to list of Arc
        Of each output.
    clock : str
        A flip-flop's clock; empty of other cells.
    setups : dict of str to dict of str to Table
        A flip-flop's or a clock gate's setup times before a rising clock, by the pin and its "rise"
        and "fall", over the pin's slope and the clock's, in ps.
    max_load_ff : dict of str to float
        Of outputs that have a limit.
    max_slope_ps : dict of str to float
        Of outputs that have a limit.
    state : State or None
        A flip-flop's.
    gate : ClockGate or None
    energies : tuple of EdgeEnergy
    leakage_nw : float
    """

    name: str
    area: float
    inputs: dict[str, float]
    edge_inputs: dict[str, dict[str, float]]
    outputs: dict[str, str]
    arcs: dict[str, list[Arc]]
    clock: str
    setups: dict[str, dict[str, Table]]
    max_load_ff: dict[str, float]
    max_slope_ps: dict[str, float]
    state: State | None = None
    gate: ClockGate | None = None
    energies: tuple[EdgeEnergy, ...] = ()
    leakage_nw: float = 0.0

    def setup_ps(self, pin: str, edge: str, slope_ps: float) -> float:
        """Setup time before an ideal clock of the pin's edge; 0 if the cell has none."""
        return self.setups[pin][edge].at(slope_ps, 0.0) if pin in self.setups else 0.0


def _place(points: tuple[float, ...], at: float) -> tuple[int, float]:
    """The interval whose line is meant, and how far along it; of a single point, the point."""
    if len(points) == 1:
        return 0, 0.0
    index = min(max(bisect_right(points, at) - 1, 0), len(points) - 2)
    return index, (at - points[index]) / (points[index + 1] - points[index])
