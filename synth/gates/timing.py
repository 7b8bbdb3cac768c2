"""Static timing of a mapped netlist: the slowest path from register to register.

As a sign-off tool does it, without wires or with a library's statistical ones: each cell's delay
from its tables by the slope at its input and the load at its output; rise and fall apart; false
paths are not known. Ports are taken for registered on their other side: what comes in comes from a
flip-flop, and what goes out goes to one. So are memory macros.

The clock is ideal, behind clock gates too: its tree, made later, reaches all flip-flops at once. A
clock gate stands in that tree, so its own clock is earlier by what it takes to drive the flip-flops
behind it, and its enable must be there that much before the edge, beside the gate's setup.
"""

from dataclasses import dataclass
from typing import Any

from cdma.synth.errors import SynthError
from cdma.synth.gates.cell import EDGES, Cell
from cdma.synth.gates.library import Library
from cdma.synth.gates.mapped import Instance, MappedNetlist
from cdma.synth.gates.wire_load import WireLoad


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
    """

    depth: int
    period_ps: float
    delay_ps: float
    start: str
    end: str

    @property
    def fmax_mhz(self) -> float:
        """Clock at which the path is a period."""
        return 1e6 / self.period_ps


@dataclass
class _Arrival:
    """Of one edge of a net: when, how steep, and from where."""

    ps: float
    slope: float
    depth: int
    start: int
    start_ps: float


def slowest_path(
    module: dict[str, Any], library: Library, wire_load: WireLoad | None = None
) -> Timing:
    """Find the slowest path of a module.

    Parameters
    ----------
    module
        As in Yosys' JSON: `ports`, `cells` of the library and macros, `netnames`.
    library
    wire_load
        Of the wires; none if None.

    Raises
    ------
    SynthError
        If gates drive each other in a circle.
    """
    netlist = MappedNetlist(module, library, wire_load)
    return _slowest(_arrivals(netlist), netlist)


def slopes_ps(netlist: MappedNetlist) -> dict[int, float]:
    """How steep the nets' edges are: of rise and fall the mean, in ps. Clocks are not in it.

    Raises
    ------
    SynthError
        If gates drive each other in a circle.
    """
    slopes: dict[int, float] = {}
    for (bit, _edge), arrival in _arrivals(netlist).items():
        slopes[bit] = slopes.get(bit, 0.0) + arrival.slope / len(EDGES)
    return slopes


def _arrivals(netlist: MappedNetlist) -> dict[tuple[int, str], _Arrival]:
    arrivals: dict[tuple[int, str], _Arrival] = {}
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
    for bit in list(netlist.load_ff):
        if bit not in driven:
            _launch(arrivals, netlist, reference, output, bit)
    for gate in netlist.in_order():
        for out in gate.kind.outputs:
            if out in gate.pins:
                _pass(arrivals, netlist, gate, out)
    return arrivals


def _launch(
    arrivals: dict[tuple[int, str], _Arrival],
    netlist: MappedNetlist,
    kind: Cell,
    out: str,
    bit: int,
) -> None:
    """What a flip-flop does after its clock has risen."""
    load = netlist.load_ff[bit]
    for arc in kind.arcs[out]:
        if arc.source == kind.clock:
            for edge in EDGES:
                ps = arc.delay[edge].at(0.0, load)
                arrivals[bit, edge] = _Arrival(ps, arc.slope[edge].at(0.0, load), 0, bit, ps)


def _pass(
    arrivals: dict[tuple[int, str], _Arrival], netlist: MappedNetlist, gate: Instance, out: str
) -> None:
    """What a gate does: the latest edge at its output, and the least steep slope."""
    pins, bit = gate.pins, gate.pins[out]
    load = netlist.load_ff[bit]
    for edge in EDGES:
        latest = None
        steepness = 0.0
        for arc in gate.kind.arcs[out]:
            source = pins.get(arc.source)
            for cause in arc.causes[edge] if source is not None else ():
                before = arrivals.get((source, cause))  # type: ignore[arg-type]
                if before is None:
                    continue
                ps = before.ps + arc.delay[edge].at(before.slope, load)
                steepness = max(steepness, arc.slope[edge].at(before.slope, load))
                if latest is None or ps > latest.ps:
                    latest = _Arrival(ps, 0.0, before.depth + 1, before.start, before.start_ps)
        if latest is not None:
            latest.slope = steepness
            arrivals[bit, edge] = latest


def gating_ps(kind: Cell, load_ff: float) -> float:
    """From a clock gate's clock to the rise of its output."""
    gate = kind.gate
    arcs = [] if gate is None else [a for a in kind.arcs[gate.output] if a.source == gate.clock]
    return max((arc.delay["rise"].at(0.0, load_ff) for arc in arcs), default=0.0)


def _slowest(arrivals: dict[tuple[int, str], _Arrival], netlist: MappedNetlist) -> Timing:
    reference = netlist.library.flip_flop
    outside = max(reference.setups_ps.values(), default=0.0)
    ends = [(bit, outside, "") for bit in netlist.sinks]
    for flip_flop in netlist.flip_flops:
        for pin, setup in flip_flop.kind.setups_ps.items():
            if pin in flip_flop.pins:
                ends.append((flip_flop.pins[pin], setup, "register"))
    for clock, gate in netlist.gate_of().items():
        earlier = gating_ps(gate.kind, netlist.pin_load_ff[clock])
        for pin, setup in gate.kind.setups_ps.items():
            if pin in gate.pins:
                ends.append((gate.pins[pin], setup + earlier, "gate"))
    worst, period, at, what = None, 0.0, 0, ""
    for bit, setup, kind in ends:
        for edge in EDGES:
            arrival = arrivals.get((bit, edge))
            if arrival is not None and arrival.ps + setup > period:
                worst, period, at, what = arrival, arrival.ps + setup, bit, kind
    if worst is None:
        raise SynthError("the netlist has no path; nothing of the component is left")
    return Timing(
        depth=worst.depth,
        period_ps=period,
        delay_ps=worst.ps - worst.start_ps,
        start=netlist.name(worst.start),
        end=_end_name(at, what, netlist),
    )


def _end_name(bit: int, what: str, netlist: MappedNetlist) -> str:
    """The register that takes the net, or whose clock it gates; or the net, where a port or a macro
    does."""
    if what == "gate":
        for clock, gate in netlist.gate_of().items():
            if bit in gate.pins.values():
                for flip_flop in netlist.flip_flops:
                    if flip_flop.pins.get(flip_flop.kind.clock) == clock:
                        return f"enable of {netlist.register_name(flip_flop)}"
    if bit not in netlist.sinks:
        for flip_flop in netlist.flip_flops:
            if any(flip_flop.pins.get(pin) == bit for pin in flip_flop.kind.setups_ps):
                return netlist.register_name(flip_flop)
    return netlist.name(bit)
