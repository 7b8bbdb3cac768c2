"""Static timing of a mapped netlist: the slowest path from register to register.

As a sign-off tool does it, without wires or with a library's statistical ones: each cell's delay
from its tables by the slope at its input and the load at its output; rise and fall apart; false
paths are not known. Ports are taken for registered on their other side: what comes in comes from a
flip-flop, and what goes out goes to one. So are memory macros.

The clock is ideal, behind clock gates too: its tree, made later, reaches all flip-flops at once. A
clock gate stands in that tree, so its own clock is earlier by what it takes to drive the flip-flops
behind it, and its enable must be there that much before the edge, beside the gate's setup.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any

from cdma.synth.errors import SynthError
from cdma.synth.gates.cell import EDGES, Cell
from cdma.synth.gates.library import Library
from cdma.synth.gates.mapped import HIDDEN, Instance, MappedNetlist
from cdma.synth.gates.wire_load import WireLoad

GATED = "enable of "
"""Before a register's name: what ends a path is the gate of its clock."""


@dataclass(frozen=True)
class Timing:
    """The slowest path.

    Attributes
    ----------
    depth : int
        Gates on it, between the flip-flops; buffers count.
    period_ps : float
        From a rising clock to the next: clock to output, gates, setup.
    delay_ps : float
        The gates' part.
    start, end : str
        The nets on which it begins and ends; ports or registers, by their names in the Verilog.
        A clock gate ends one as `enable of` a register.
    path : tuple of str
        The nets on it that have a name in the Verilog, from the first to the last.
    overloaded_nets : int
        Of all nets, those with more than the `max_capacitance` of what drives them.
    steep_nets : int
        Of all nets, those with edges that take longer than `max_transition`.
    """

    depth: int
    period_ps: float
    delay_ps: float
    start: str
    end: str
    path: tuple[str, ...] = ()
    overloaded_nets: int = 0
    steep_nets: int = 0

    @property
    def fmax_mhz(self) -> float:
        """Clock at which the path is a period."""
        return 1e6 / self.period_ps


@dataclass
class _Arrival:
    """Arrival of one edge of a net: when, how steep, and which arrival has caused it."""

    ps: float
    slope: float
    depth: int
    bit: int
    cause: "_Arrival | None" = None

    @property
    def trace(self) -> list["_Arrival"]:
        """Nets from the path's first one to this one."""
        found = [self]
        while (cause := found[-1].cause) is not None:
            found.append(cause)
        return found[::-1]


def slowest_path(
    module: dict[str, Any],
    library: Library,
    wire_load: WireLoad | None = None,
    *,
    between_registers: bool = False,
) -> Timing:
    """Find the slowest path of a module.

    Parameters
    ----------
    module
        As in Yosys' JSON: `ports`, `cells` of the library and macros, `netnames`.
    library
    wire_load
        Of the wires; none if None.
    between_registers
        Paths from and to ports and macros do not count.

    Raises
    ------
    SynthError
        If gates drive each other in a circle.
    """
    netlist = MappedNetlist(module, library, wire_load)
    arrivals = _arrivals(netlist, between_registers)
    timing = _slowest(arrivals, netlist, between_registers)
    overloaded, steep = _beyond_limits(arrivals, netlist)
    return replace(timing, overloaded_nets=overloaded, steep_nets=steep)


def slopes_ps(netlist: MappedNetlist) -> dict[int, float]:
    """Slopes of the nets' edges: of rise and fall the mean, in ps. Clocks are not in it.

    Raises
    ------
    SynthError
        If gates drive each other in a circle.
    """
    slopes: dict[int, float] = {}
    for (bit, _edge), arrival in _arrivals(netlist).items():
        slopes[bit] = slopes.get(bit, 0.0) + arrival.slope / len(EDGES)
    return slopes


_Arrivals = dict[tuple[int, str], _Arrival]


def _arrivals(netlist: MappedNetlist, between_registers: bool = False) -> _Arrivals:
    arrivals: _Arrivals = {}
    for flip_flop in netlist.flip_flops:
        for out in flip_flop.kind.outputs:
            if out in flip_flop.pins:
                _launch(arrivals, netlist, flip_flop.kind, out, flip_flop.pins[out])
    reference = netlist.library.flip_flop
    output = next(iter(reference.outputs))
    driven = {bit for bit, _edge in arrivals}
    driven |= {
        gate.pins[out] for gate in netlist.gates for out in gate.kind.outputs if out in gate.pins
    }
    for bit in [] if between_registers else list(netlist.load_ff):
        if bit not in driven:
            _launch(arrivals, netlist, reference, output, bit)
    for gate in netlist.in_order():
        for out in gate.kind.outputs:
            if out in gate.pins:
                _pass(arrivals, netlist, gate, out)
    return arrivals


def _launch(arrivals: _Arrivals, netlist: MappedNetlist, kind: Cell, out: str, bit: int) -> None:
    """Launch the edges of a flip-flop after its clock has risen."""
    for arc in kind.arcs[out]:
        if arc.source == kind.clock:
            for edge in EDGES:
                load = netlist.edge_load_ff[edge][bit]
                ps = arc.delay[edge].at(0.0, load)
                arrivals[bit, edge] = _Arrival(ps, arc.slope[edge].at(0.0, load), 0, bit)


def _pass(arrivals: _Arrivals, netlist: MappedNetlist, gate: Instance, out: str) -> None:
    """Pass edges through a gate: the latest one at its output, with the least steep slope."""
    pins, bit = gate.pins, gate.pins[out]
    for edge in EDGES:
        load = netlist.edge_load_ff[edge][bit]
        latest, latest_ps = None, 0.0
        steepness = 0.0
        for arc in gate.kind.arcs[out]:
            source = pins.get(arc.source)
            for cause in arc.causes[edge] if source is not None else ():
                before = arrivals.get((source, cause))  # type: ignore[arg-type]
                if before is None:
                    continue
                ps = before.ps + arc.delay[edge].at(before.slope, load)
                steepness = max(steepness, arc.slope[edge].at(before.slope, load))
                if latest is None or ps > latest_ps:
                    latest, latest_ps = before, ps
        if latest is not None:
            arrivals[bit, edge] = _Arrival(latest_ps, steepness, latest.depth + 1, bit, latest)


def _beyond_limits(arrivals: _Arrivals, netlist: MappedNetlist) -> tuple[int, int]:
    """Count the nets with too much load, and those with too long edges."""
    overloaded = steep = 0
    for instance in [*netlist.flip_flops, *netlist.gates]:
        for out in instance.kind.outputs:
            bit = instance.pins.get(out)
            if bit is None:
                continue
            most = instance.kind.max_load_ff.get(out, inf)
            overloaded += max(netlist.edge_load_ff[edge][bit] for edge in EDGES) > most
            edges = [arrivals[bit, edge].slope for edge in EDGES if (bit, edge) in arrivals]
            steep += max(edges, default=0.0) > instance.kind.max_slope_ps.get(out, inf)
    return overloaded, steep


def gating_ps(kind: Cell, load_ff: float) -> float:
    """Delay from a clock gate's clock to the rise of its output."""
    gate = kind.gate
    arcs = [] if gate is None else [a for a in kind.arcs[gate.output] if a.source == gate.clock]
    return max((arc.delay["rise"].at(0.0, load_ff) for arc in arcs), default=0.0)


@dataclass(frozen=True)
class _End:
    """End of paths: a net, which a cell's pin takes some time before the clock."""

    bit: int
    kind: Cell
    pin: str
    earlier_ps: float = 0.0
    what: str = ""


def _ends(netlist: MappedNetlist, between_registers: bool) -> list[_End]:
    reference = netlist.library.flip_flop
    taken = next(iter(reference.setups), "")
    ends = [] if between_registers else [_End(bit, reference, taken) for bit in netlist.sinks]
    for flip_flop in netlist.flip_flops:
        for pin in flip_flop.kind.setups:
            if pin in flip_flop.pins:
                ends.append(_End(flip_flop.pins[pin], flip_flop.kind, pin, what="register"))
    for clock, gate in netlist.gate_of().items():
        earlier = gating_ps(gate.kind, netlist.pin_load_ff[clock])
        for pin in gate.kind.setups:
            if pin in gate.pins:
                ends.append(_End(gate.pins[pin], gate.kind, pin, earlier, "gate"))
    return ends


def _slowest(arrivals: _Arrivals, netlist: MappedNetlist, between_registers: bool) -> Timing:
    worst, period, last = None, 0.0, None
    for end in _ends(netlist, between_registers):
        for edge in EDGES:
            arrival = arrivals.get((end.bit, edge))
            if arrival is None:
                continue
            setup = end.kind.setup_ps(end.pin, edge, arrival.slope)
            if arrival.ps + setup + end.earlier_ps > period:
                worst, period, last = arrival, arrival.ps + setup + end.earlier_ps, end
    if worst is None or last is None:
        raise SynthError("the netlist has no path; nothing of the component is left")
    trace = worst.trace
    names = netlist.names([arrival.bit for arrival in trace])
    return Timing(
        depth=worst.depth,
        period_ps=period,
        delay_ps=worst.ps - trace[0].ps,
        start=names[0],
        end=_end_name(last.bit, last.what, netlist),
        path=tuple(name for name in names if not name.startswith(HIDDEN)),
    )


def _end_name(bit: int, what: str, netlist: MappedNetlist) -> str:
    """The register that takes the net, or whose clock it gates; or the net, where a port or a macro
    does."""
    if what == "gate":
        for clock, gate in netlist.gate_of().items():
            if bit in gate.pins.values():
                for flip_flop in netlist.flip_flops:
                    if flip_flop.pins.get(flip_flop.kind.clock) == clock:
                        return f"{GATED}{netlist.register_name(flip_flop)}"
    if bit not in netlist.sinks:
        for flip_flop in netlist.flip_flops:
            if any(flip_flop.pins.get(pin) == bit for pin in flip_flop.kind.setups):
                return netlist.register_name(flip_flop)
    return netlist.name(bit)
