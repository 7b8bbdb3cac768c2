"""A mapped netlist by its nets: who drives each, who loads it, and how its clocks are gated."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cdma.synth.errors import SynthError
from cdma.synth.gates.cell import EDGES, Cell
from cdma.synth.gates.library import Library
from cdma.synth.gates.wire_load import WireLoad

NAMELESS = "a macro"
"""What a net is called that has no name."""

HIDDEN = ("$", NAMELESS)
"""Names that are not the Verilog's begin so."""

MACRO_OUTPUTS = {"RD_DATA"}
"""Of a memory, as Yosys names its ports."""


@dataclass(frozen=True, eq=False)
class Instance:
    """A cell in the netlist.

    Attributes
    ----------
    kind : Cell
    pins : dict of str to int
        Nets; a pin that is not connected is not there.
    tied : dict of str to bool
        Pins at a constant.
    """

    kind: Cell
    pins: dict[str, int]
    tied: dict[str, bool] = field(default_factory=dict)


class MappedNetlist:
    """A netlist, as far as timing and energy need it.

    Parameters
    ----------
    module : dict
        As in Yosys' JSON: `ports`, `cells` of the library and macros, `netnames`.
    library : Library
    wire_load : WireLoad or None
        Of the wires between the pins; none if None.

    Attributes
    ----------
    gates, flip_flops, clock_gates : list of Instance
    macros : int
        Memories and black boxes that are no cells.
    ports : dict of str to list
        Nets, and constants as strings, by the ports' names.
    inputs, outputs : set of str
        The ports' names.
    clocks : set of int
        Nets that clock flip-flops, before and behind clock gates.
    pin_load_ff : dict of int to float
        Of each net, clocks too: what the cells' inputs have.
    load_ff : dict of int to float
        The same with what is behind the ports and with wires, without the clocks, whose tree is
        made later.
    edge_load_ff : dict of str to dict of int to float
        The same of the net's "rise" and "fall".
    sinks : list of int
        Nets that leave the gates for ports and macros.
    """

    def __init__(
        self, module: dict[str, Any], library: Library, wire_load: WireLoad | None = None
    ) -> None:
        self.library = library
        self.gates: list[Instance] = []
        self.flip_flops: list[Instance] = []
        self.clock_gates: list[Instance] = []
        self.macros = 0
        self.sinks: list[int] = []
        self.ports = {name: port["bits"] for name, port in module["ports"].items()}
        ways = {name: port["direction"] for name, port in module["ports"].items()}
        self.inputs = {name for name, way in ways.items() if way == "input"}
        self.outputs = set(ways) - self.inputs
        self.pin_load_ff: dict[int, float] = defaultdict(float)
        self.load_ff: dict[int, float] = defaultdict(float)
        self.edge_load_ff = {edge: defaultdict[int, float](float) for edge in EDGES}
        self._fan_out: dict[int, int] = defaultdict(int)
        self._nets = module["netnames"]
        self.clocks = set(_clocks(module, library))
        for cell in module["cells"].values():
            kind = library.cells.get(cell["type"])
            if kind is None:
                self.macros += 1
                # What reaches a macro or a black box is an end, and what it drives has no other
                # driver.
                ways_of = cell.get("port_directions", {})
                for port, bits in cell["connections"].items():
                    if port not in MACRO_OUTPUTS and ways_of.get(port) != "output":
                        # An enable that stands for each bit of a word is one pin.
                        self._end(set(bits) - self.clocks)
                continue
            self._add(kind, {pin: bits[0] for pin, bits in cell["connections"].items() if bits})
        for name in ways:
            if name in self.outputs:
                self._end(set(self.ports[name]))
        if wire_load is not None:
            for bit, pins in self._fan_out.items():
                self._load(bit, wire_load.load_ff(pins))

    def _add(self, kind: Cell, connections: dict[str, int | str]) -> None:
        instance = Instance(
            kind,
            {pin: bit for pin, bit in connections.items() if isinstance(bit, int)},
            {pin: bit == "1" for pin, bit in connections.items() if isinstance(bit, str)},
        )
        for pin, bit in instance.pins.items():
            load = kind.inputs.get(pin, 0.0)
            self.pin_load_ff[bit] += load
            if bit not in self.clocks:
                self.load_ff[bit] += load
                for edge in EDGES if pin in kind.inputs else ():
                    self.edge_load_ff[edge][bit] += kind.edge_inputs[pin][edge]
                self._fan_out[bit] += pin in kind.inputs
        if kind.clock:
            self.flip_flops.append(instance)
        elif kind.gate is not None:
            self.clock_gates.append(instance)
        else:
            self.gates.append(instance)

    def _load(self, bit: int, load_ff: float) -> None:
        """Loads that are no pins', for both edges alike."""
        self.load_ff[bit] += load_ff
        for loads in self.edge_load_ff.values():
            loads[bit] += load_ff

    def _end(self, bits: set[int | str]) -> None:
        """Paths end on these nets, outside of the gates; constants are no nets."""
        for bit in bits:
            if isinstance(bit, int):
                self._load(bit, self.library.port_load_ff)
                self._fan_out[bit] += 1
                self.sinks.append(bit)

    def in_order(self) -> list[Instance]:
        """The gates, each behind those that drive it.

        Raises
        ------
        SynthError
            If gates drive each other in a circle.
        """
        driver = {
            gate.pins[out]: index
            for index, gate in enumerate(self.gates)
            for out in gate.kind.outputs
            if out in gate.pins
        }
        waits = [
            {
                driver[bit]
                for pin, bit in gate.pins.items()
                if pin in gate.kind.inputs and bit in driver
            }
            for gate in self.gates
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

    def gate_of(self) -> dict[int, Instance]:
        """The clock gate that drives a clock, by the net."""
        found = {}
        for instance in self.clock_gates:
            gate = instance.kind.gate
            if gate is not None and gate.output in instance.pins:
                found[instance.pins[gate.output]] = instance
        return found

    def name(self, bit: int) -> str:
        """The shortest name that the Verilog gives a net; one of Yosys' if there is no other."""
        return self.names([bit])[0]

    def names(self, bits: Sequence[int]) -> list[str]:
        """The names of several nets, all by one look at the netlist's."""
        found: dict[int, tuple[int, int, str]] = {}
        wanted = set(bits)
        for name, net in self._nets.items():
            for index, bit in enumerate(net["bits"]):
                if bit in wanted:
                    text = f"{name}[{index}]" if len(net["bits"]) > 1 else name
                    known = (net["hide_name"], len(name), text)
                    found[bit] = min(found.get(bit, known), known)
        return [found[bit][2] if bit in found else NAMELESS for bit in bits]

    def register_name(self, flip_flop: Instance) -> str:
        """Name of its output in the Verilog."""
        return self.name(
            next(flip_flop.pins[out] for out in flip_flop.kind.outputs if out in flip_flop.pins)
        )


def _clocks(module: dict[str, Any], library: Library) -> list[int]:
    clocks = []
    for cell in module["cells"].values():
        kind = library.cells.get(cell["type"])
        if kind is None:
            continue
        pins = [kind.clock] if kind.gate is None else [kind.gate.clock, kind.gate.output]
        clocks += [bit for pin in pins for bit in cell["connections"].get(pin, [])]
    return [bit for bit in clocks if isinstance(bit, int)]
