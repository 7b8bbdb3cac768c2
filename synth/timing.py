"""Static timing of a mapped netlist: the slowest path from register to register.

As a sign-off tool does it, less wires: each cell's delay from its tables by the slope at its input
and the load at its output; rise and fall apart; false paths are not known. Ports are taken for
registered on their other side: what comes in comes from a flip-flop, and what goes out goes to one.
So are memory macros.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from synth.errors import SynthError
from synth.library import Arc, Cell, Library

EDGES = ("rise", "fall")

MACRO_OUTPUTS = {"RD_DATA"}
"""Of a memory, as Yosys names its ports."""


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


class _Netlist:
    """The netlist by nets: who drives each, who loads it."""

    def __init__(self, module: dict[str, Any], library: Library) -> None:
        self.library = library
        self.load: dict[int, float] = defaultdict(float)
        self.gates: list[tuple[Cell, dict[str, int]]] = []
        self.flip_flops: list[tuple[Cell, dict[str, int]]] = []
        self.sinks: list[int] = []
        # The clock's tree is made later.
        clocks = {
            bit
            for cell in module["cells"].values()
            if cell["type"] in library.cells and library.cells[cell["type"]].clock
            for bit in cell["connections"].get(library.cells[cell["type"]].clock, [])
        }
        for cell in module["cells"].values():
            kind = library.cells.get(cell["type"])
            if kind is None:
                # A macro: what reaches it is an end, and what it drives has no other driver.
                for port, bits in cell["connections"].items():
                    if port not in MACRO_OUTPUTS:
                        # An enable that stands for each bit of a word is one pin.
                        self._end({bit for bit in bits if bit not in clocks})
                continue
            pins = {pin: bits[0] for pin, bits in cell["connections"].items() if bits}
            pins = {pin: bit for pin, bit in pins.items() if isinstance(bit, int)}
            for pin, bit in pins.items():
                if bit not in clocks:
                    self.load[bit] += kind.inputs.get(pin, 0.0)
            (self.flip_flops if kind.clock else self.gates).append((kind, pins))
        for port in module["ports"].values():
            if port["direction"] != "input":
                self._end(set(port["bits"]))

    def _end(self, bits: set[int | str]) -> None:
        """Paths end on these nets, outside of the gates; constants are no nets."""
        for bit in bits:
            if isinstance(bit, int):
                self.load[bit] += self.library.port_load_ff
                self.sinks.append(bit)

    def in_order(self) -> list[tuple[Cell, dict[str, int]]]:
        """The gates, each behind those that drive it."""
        driver = {
            pins[out]: index
            for index, (kind, pins) in enumerate(self.gates)
            for out in kind.outputs
            if out in pins
        }
        waits = [
            {driver[bit] for pin, bit in pins.items() if pin in kind.inputs and bit in driver}
            for kind, pins in self.gates
        ]
        followers: dict[int, list[int]] = defaultdict(list)
        for index, before in enumerate(waits):
            for other in before:
                followers[other].append(index)
        left = [len(before) for before in waits]
        ready = [index for index, count in enumerate(left) if count == 0]
        order = []
        while ready:
            index = ready.pop()
            order.append(self.gates[index])
            for follower in followers[index]:
                left[follower] -= 1
                if left[follower] == 0:
                    ready.append(follower)
        if len(order) < len(self.gates):
            raise SynthError("the netlist has a combinational loop; mend the component")
        return order


def slowest_path(module: dict[str, Any], library: Library) -> Timing:
    """Find the slowest path of a module.

    Parameters
    ----------
    module
        As in Yosys' JSON: `ports`, `cells` of the library and macros, `netnames`.
    library

    Raises
    ------
    SynthError
        If gates drive each other in a circle.
    """
    netlist = _Netlist(module, library)
    arrivals: dict[tuple[int, str], _Arrival] = {}
    for kind, pins in netlist.flip_flops:
        for out in kind.outputs:
            if out in pins:
                _launch(arrivals, netlist, kind, out, pins[out])
    reference = library.flip_flop
    output = next(iter(reference.outputs))
    driven = {bit for bit, _edge in arrivals}
    driven |= {pins[out] for kind, pins in netlist.gates for out in kind.outputs if out in pins}
    for bit in list(netlist.load):
        if bit not in driven:
            _launch(arrivals, netlist, reference, output, bit)
    for kind, pins in netlist.in_order():
        for out in kind.outputs:
            if out in pins:
                _pass(arrivals, netlist, kind.arcs[out], pins, pins[out])
    return _slowest(arrivals, netlist, module)


def _launch(
    arrivals: dict[tuple[int, str], _Arrival], netlist: _Netlist, kind: Cell, out: str, bit: int
) -> None:
    """What a flip-flop does after its clock has risen."""
    load = netlist.load[bit]
    for arc in kind.arcs[out]:
        if arc.source == kind.clock:
            for edge in EDGES:
                ps = arc.delay[edge].at(0.0, load)
                arrivals[bit, edge] = _Arrival(ps, arc.slope[edge].at(0.0, load), 0, bit, ps)


def _pass(
    arrivals: dict[tuple[int, str], _Arrival],
    netlist: _Netlist,
    arcs: list[Arc],
    pins: dict[str, int],
    bit: int,
) -> None:
    """What a gate does: the latest edge at its output, and the least steep slope."""
    load = netlist.load[bit]
    for edge in EDGES:
        latest = None
        steepness = 0.0
        for arc in arcs:
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


def _slowest(
    arrivals: dict[tuple[int, str], _Arrival], netlist: _Netlist, module: dict[str, Any]
) -> Timing:
    reference = netlist.library.flip_flop
    outside = max(reference.setups_ps.values(), default=0.0)
    ends = [(bit, outside) for bit in netlist.sinks]
    for kind, pins in netlist.flip_flops:
        ends += [(pins[pin], setup) for pin, setup in kind.setups_ps.items() if pin in pins]
    worst, period, at = None, 0.0, 0
    for bit, setup in ends:
        for edge in EDGES:
            arrival = arrivals.get((bit, edge))
            if arrival is not None and arrival.ps + setup > period:
                worst, period, at = arrival, arrival.ps + setup, bit
    if worst is None:
        raise SynthError("the netlist has no path; nothing of the component is left")
    return Timing(
        depth=worst.depth,
        period_ps=period,
        delay_ps=worst.ps - worst.start_ps,
        start=_name(worst.start, module),
        end=_end_name(at, netlist, module),
    )


def _name(bit: int, module: dict[str, Any]) -> str:
    """The shortest name that the Verilog gives a net; one of Yosys' if there is no other."""
    found = [
        (
            net["hide_name"],
            len(name),
            f"{name}[{net['bits'].index(bit)}]" if len(net["bits"]) > 1 else name,
        )
        for name, net in module["netnames"].items()
        if bit in net["bits"]
    ]
    return min(found)[2] if found else "a macro"


def _end_name(bit: int, netlist: _Netlist, module: dict[str, Any]) -> str:
    """The register that takes the net; or the net, where a port or a macro does."""
    if bit not in netlist.sinks:
        for kind, pins in netlist.flip_flops:
            if any(pins.get(pin) == bit for pin in kind.setups_ps):
                return _name(next(pins[out] for out in kind.outputs if out in pins), module)
    return _name(bit, module)
