"""A mapped netlist in simulation, without delays.

64 simulations run at once, one in each bit of a word, so that a cycle of thousands of gates takes
some milliseconds. In a cycle the clock rises, inputs change, and all gates settle: a net has one
edge or none, and hazards are not seen. All flip-flops begin at 0.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cdma.synth.errors import SynthError
from cdma.synth.gates.bitwise import ALL, NONE, Bitwise, Words, bitwise
from cdma.synth.gates.mapped import Instance, MappedNetlist

Indices = npt.NDArray[np.int64]

_ZERO, _ONE, _NOWHERE = 0, 1, 2
"""Places before those of the nets: the constants, and where outputs go that are not connected."""
_FIRST_NET = 3


class Watcher(Protocol):
    """Observer of a simulation's cycles."""

    def count(self, simulation: "Simulation", before: Words, states: list[Words]) -> None:
        """A cycle has passed: `before` were the nets' values, `states` each kind of flip-flops'."""


class Group:
    """Cells of one kind, with the places of their nets.

    Parameters
    ----------
    instances
    places
        Of the nets, among a simulation's values.

    Attributes
    ----------
    kind : Cell
    instances : list of Instance
    inputs : dict of str to Indices
        By pin. A clock is none of them.
    outputs : dict of str to Indices
        By pin.
    """

    def __init__(self, instances: Sequence[Instance], places: Mapping[int, int]) -> None:
        self.kind = instances[0].kind
        self.instances = list(instances)
        clocks = {self.kind.clock}
        if self.kind.gate is not None:
            clocks |= {self.kind.gate.clock, self.kind.gate.output}
        self.inputs = {
            pin: np.array([_source(instance, pin, places) for instance in instances])
            for pin in self.kind.inputs
            if pin not in clocks
        }
        self.outputs = {
            pin: np.array([places.get(i.pins.get(pin, -1), _NOWHERE) for i in instances])
            for pin in self.kind.outputs
            if pin not in clocks
        }

    def taken(self, values: Words) -> dict[str, Words]:
        """The inputs' words."""
        return {pin: values[places] for pin, places in self.inputs.items()}


def _source(instance: Instance, pin: str, places: Mapping[int, int]) -> int:
    if pin in instance.pins:
        return places[instance.pins[pin]]
    return _ONE if instance.tied.get(pin, False) else _ZERO


class FlipFlops(Group):
    """Flip-flops of one kind.

    Attributes
    ----------
    clocks : Indices
        Of each, its clock among `Simulation.pulses`.
    state : Words

    Raises
    ------
    SynthError
        If they do more than take their inputs when the clock rises.
    """

    def __init__(
        self, instances: Sequence[Instance], places: Mapping[int, int], clocks: Mapping[int, int]
    ) -> None:
        super().__init__(instances, places)
        state = self.kind.state
        if state is None or not state.next:
            raise SynthError(
                f"{self.kind.name} is more than a flip-flop with a rising clock; activity is of "
                "those alone"
            )
        self.clocks = np.array([clocks[i.pins[self.kind.clock]] for i in instances])
        self.state: Words = np.zeros(len(instances), np.uint64)
        self._names = (state.name, state.inverse)
        self._next = bitwise(state.next, {*self.kind.inputs, *self._names})
        self._functions = {
            pin: bitwise(function, set(self._names)) for pin, function in self.kind.outputs.items()
        }

    def given(self, state: Words) -> dict[str, Words]:
        """The outputs' words, connected or not."""
        names = dict(zip(self._names, (state, ~state), strict=True))
        return {pin: function(names) for pin, function in self._functions.items()}

    def take(self, values: Words, pulses: Words) -> None:
        """The clock rises, where there is a pulse."""
        names = dict(zip(self._names, (self.state, ~self.state), strict=True))
        following = self._next({**self.taken(values), **names})
        pulse = pulses[self.clocks]
        self.state = (following & pulse) | (self.state & ~pulse)


class ClockGates(Group):
    """Clock gates of one kind.

    Attributes
    ----------
    enables : Indices
        Among the values.
    sources, clocks : Indices
        Of each, the clock before and behind it among `Simulation.pulses`.
    """

    def __init__(
        self, instances: Sequence[Instance], places: Mapping[int, int], clocks: Mapping[int, int]
    ) -> None:
        super().__init__(instances, places)
        gate = self.kind.gate
        assert gate is not None
        self.enables = self.inputs[gate.enable]
        self.sources = np.array([clocks[i.pins[gate.clock]] for i in instances])
        self.clocks = np.array([clocks[i.pins[gate.output]] for i in instances])


class Simulation:
    """A netlist without memory macros.

    Parameters
    ----------
    netlist : MappedNetlist

    Attributes
    ----------
    values : Words
        Of each net at the end of the cycle, behind three that are none.
    pulses : Words
        Of each clock: whether it rose at the cycle's beginning.
    places, clocks : dict of int to int
        Where a net is among the values, and a clock among the pulses.
    gates : list of Group
    flip_flops : list of FlipFlops
    clock_gates : list of ClockGates
        Each of one kind.

    Raises
    ------
    SynthError
        If there is a memory macro, a flip-flop that does more than take its inputs when the clock
        rises, a clock behind a clock gate or made by gates otherwise, or a combinational loop.
    """

    def __init__(self, netlist: MappedNetlist) -> None:
        if netlist.macros:
            raise SynthError(
                "the component has memories that are macros, whose activity is not known; choose "
                "one without"
            )
        self.netlist = netlist
        levels = _levels(netlist)
        self.places = {
            bit: place for place, bit in enumerate(_nets(netlist, levels), start=_FIRST_NET)
        }
        self.values: Words = np.zeros(len(self.places) + _FIRST_NET, np.uint64)
        self.values[_ONE] = ALL
        _check_clocks(netlist)
        self.clocks = {clock: place for place, clock in enumerate(sorted(netlist.clocks))}
        self.pulses: Words = np.full(len(self.clocks), ALL)
        self.gates = [Group(group, self.places) for group in _by_kind(netlist.gates)]
        self.flip_flops = [
            FlipFlops(group, self.places, self.clocks) for group in _by_kind(netlist.flip_flops)
        ]
        self.clock_gates = [
            ClockGates(group, self.places, self.clocks) for group in _by_kind(netlist.clock_gates)
        ]
        self._steps: list[tuple[Bitwise, dict[str, Indices], Indices]] = []
        for level in levels:
            for gates in _by_kind(level):
                group = Group(gates, self.places)
                for pin, function in group.kind.outputs.items():
                    compute = bitwise(function, set(group.kind.inputs))
                    self._steps.append((compute, group.inputs, group.outputs[pin]))
        self._settle()

    def cycle(self, inputs: Mapping[str, Words], watcher: Watcher | None = None) -> None:
        """The clock rises, inputs change, and all settles.

        Parameters
        ----------
        inputs
            Words of ports by name, one for each bit; what is not named stays.
        watcher
            Looks at what has changed.
        """
        before = self.values.copy()
        states = [group.state for group in self.flip_flops]
        for gates in self.clock_gates:
            # The gate's latch has closed on what the enable was at the end of the cycle.
            self.pulses[gates.clocks] = before[gates.enables]
        for group in self.flip_flops:
            group.take(before, self.pulses)
        for name, words in inputs.items():
            self._drive(name, words)
        self._settle()
        if watcher is not None:
            watcher.count(self, before, states)

    def read(self, port: str) -> Words:
        """A port's words, one for each bit."""
        bits = self.netlist.ports[port]
        constants = {"1": _ONE}
        return self.values[
            [self.places[b] if isinstance(b, int) else constants.get(b, _ZERO) for b in bits]
        ]

    def _drive(self, port: str, words: Words) -> None:
        for bit, word in zip(self.netlist.ports[port], words, strict=True):
            self.values[self.places[bit]] = word

    def _settle(self) -> None:
        values = self.values
        for group in self.flip_flops:
            for pin, words in group.given(group.state).items():
                values[group.outputs[pin]] = words
        for compute, inputs, targets in self._steps:
            values[targets] = compute({pin: values[places] for pin, places in inputs.items()})
        # Reading it would be an edge of a net that is none.
        values[_NOWHERE] = NONE


def _by_kind(instances: Sequence[Instance]) -> list[list[Instance]]:
    groups: dict[str, list[Instance]] = defaultdict(list)
    for instance in instances:
        groups[instance.kind.name].append(instance)
    return list(groups.values())


def _levels(netlist: MappedNetlist) -> list[list[Instance]]:
    """Gates by how many are before them."""
    rank: dict[int, int] = {}
    levels: list[list[Instance]] = []
    for gate in netlist.in_order():
        own = max((rank.get(gate.pins.get(pin, -1), 0) for pin in gate.kind.inputs), default=0)
        for out in gate.kind.outputs:
            if out in gate.pins:
                rank[gate.pins[out]] = own + 1
        while len(levels) <= own:
            levels.append([])
        levels[own].append(gate)
    return levels


def _nets(netlist: MappedNetlist, levels: list[list[Instance]]) -> list[int]:
    """All nets but the clocks: those of a level's gates of one kind are beside each other."""
    gates = [gate for level in levels for group in _by_kind(level) for gate in group]
    cells = [*netlist.flip_flops, *netlist.clock_gates, *gates]
    bits = [
        *(bit for bits in netlist.ports.values() for bit in bits if isinstance(bit, int)),
        *(bit for cell in cells for pin, bit in cell.pins.items() if pin in cell.kind.outputs),
        *(bit for cell in cells for bit in cell.pins.values()),
    ]
    return [bit for bit in dict.fromkeys(bits) if bit not in netlist.clocks]


def _check_clocks(netlist: MappedNetlist) -> None:
    gates = netlist.gate_of()
    ported = {bit for name in netlist.inputs for bit in netlist.ports[name]}
    for clock in netlist.clocks:
        gate = gates.get(clock)
        source = clock
        if gate is not None and gate.kind.gate is not None:
            source = gate.pins[gate.kind.gate.clock]
        if source not in ported:
            raise SynthError(
                "a clock comes from no port, and from none through one clock gate; activity is of "
                "those alone"
            )
