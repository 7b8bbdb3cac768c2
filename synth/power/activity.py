"""Switching activity of a netlist: edges of nets, and of pins as libraries list their energies."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.synth.gates.bitwise import ALL, LANES, NONE, Bitwise, Words, bitwise
from cdma.synth.gates.cell import EDGES, Cell
from cdma.synth.gates.simulation import ClockGates, FlipFlops, Group, Simulation

Counts = npt.NDArray[np.int64]

Edges = dict[str, Words]
"""Words of an event: those simulations in which a pin has a "rise", and a "fall"."""


@dataclass(frozen=True, eq=False)
class Events:
    """Edges and levels at the pins of a group of cells in one cycle.

    Attributes
    ----------
    edges : dict of str to Edges
        Edges of each pin.
    pins : dict of str to dict of str to dict of str to Words
        By pin and edge, all pins' words at that moment; conditions are evaluated on them.
    """

    edges: dict[str, Edges]
    pins: dict[str, dict[str, dict[str, Words]]]


class GroupActivity:
    """Edges that take energy inside the cells of one kind.

    Attributes
    ----------
    group : Group
    outputs : dict of str to dict of str to Counts
        Edges of each output, by "rise" and "fall".
    counts : list of dict of str to Counts
        For each of the cell's `energies`, by "rise" and "fall": its pin's edges while its condition
        held and, of an output, while its input had an edge in the same cycle.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        kind, size = group.kind, len(group.instances)
        pins = {*kind.inputs, *kind.outputs}
        self.outputs = {
            pin: {edge: np.zeros(size, np.int64) for edge in EDGES} for pin in kind.outputs
        }
        self.counts = [{edge: np.zeros(size, np.int64) for edge in EDGES} for _ in kind.energies]
        self._when: list[Bitwise] = [bitwise(e.when or "1", pins) for e in kind.energies]

    def count(self, events: Events) -> None:
        """Add the edges of one cycle."""
        for pin, totals in self.outputs.items():
            for edge in EDGES:
                totals[edge] += np.bitwise_count(events.edges[pin][edge])
        for energy, when, counts in zip(
            self.group.kind.energies, self._when, self.counts, strict=True
        ):
            for edge in EDGES:
                found = events.edges[energy.pin][edge] & when(events.pins[energy.pin][edge])
                if energy.related:
                    cause = events.edges[energy.related]
                    found = found & (cause["rise"] | cause["fall"])
                counts[edge] += np.bitwise_count(found)


class Activity:
    """Counts over cycles; a `Watcher` of a simulation.

    Parameters
    ----------
    simulation : Simulation

    Attributes
    ----------
    cycles : int
        Cycles of all simulations together.
    toggles : Counts
        Edges of each net, in the order of `Simulation.values`.
    pulses : Counts
        Pulses of each clock, in the order of `Simulation.pulses`.
    groups : list of GroupActivity
        Gates, then flip-flops, then clock gates.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.cycles = 0
        self.toggles: Counts = np.zeros(len(simulation.values), np.int64)
        self.pulses: Counts = np.zeros(len(simulation.pulses), np.int64)
        self._gates = [GroupActivity(group) for group in simulation.gates]
        self._flip_flops = [GroupActivity(group) for group in simulation.flip_flops]
        self._clock_gates = [GroupActivity(group) for group in simulation.clock_gates]
        self.groups = [*self._gates, *self._flip_flops, *self._clock_gates]

    def count(self, simulation: Simulation, before: Words, states: list[Words]) -> None:
        """Add one cycle."""
        after, pulses = simulation.values, simulation.pulses
        self.cycles += LANES
        self.toggles += np.bitwise_count(before ^ after)
        self.pulses += np.bitwise_count(pulses)
        for activity in self._gates:
            activity.count(_of_gates(activity.group, before, after))
        for activity, group, state in zip(
            self._flip_flops, simulation.flip_flops, states, strict=True
        ):
            activity.count(_of_flip_flops(group, state, before, after, pulses))
        for activity, gates in zip(self._clock_gates, simulation.clock_gates, strict=True):
            activity.count(_of_clock_gates(gates, before, after, pulses))


def _edges(before: Mapping[str, Words], after: Mapping[str, Words]) -> dict[str, Edges]:
    return {
        pin: {"rise": after[pin] & ~before[pin], "fall": before[pin] & ~after[pin]} for pin in after
    }


def _of_gates(group: Group, before: Words, after: Words) -> Events:
    """Events of gates; conditions are evaluated on the pins' levels after all has settled."""
    places = {**group.inputs, **group.outputs}
    settled = {pin: after[place] for pin, place in places.items()}
    edges = _edges({pin: before[place] for pin, place in places.items()}, settled)
    return Events(edges, {pin: dict.fromkeys(EDGES, settled) for pin in places})


def _of_flip_flops(
    group: FlipFlops, state: Words, before: Words, after: Words, pulses: Words
) -> Events:
    """Events of flip-flops: the clock rises, outputs change, inputs change, the clock falls."""
    kind, pulse = group.kind, pulses[group.clocks]
    old = {**group.taken(before), **group.given(state)}
    new = {**group.taken(after), **group.given(group.state)}
    edges = _edges(old, new)
    edges[kind.clock] = {"rise": pulse, "fall": pulse}
    at_rise, at_fall = _with(old, kind, NONE, pulse), _with(new, kind, ALL, pulse)
    # What has no clock is changed while that is low.
    between = _with(new, kind, pulse, pulse)
    pins = {pin: dict.fromkeys(EDGES, between) for pin in group.inputs}
    pins |= {pin: dict.fromkeys(EDGES, at_rise) for pin in kind.outputs}
    pins[kind.clock] = {"rise": at_rise, "fall": at_fall}
    return Events(edges, pins)


def _with(
    pins: dict[str, Words], kind: Cell, clock: Words | np.uint64, like: Words
) -> dict[str, Words]:
    return {**pins, kind.clock: np.broadcast_to(np.asarray(clock), like.shape)}


def _of_clock_gates(group: ClockGates, before: Words, after: Words, pulses: Words) -> Events:
    """Events of clock gates: the clock rises, its output with it; the enable changes; both fall."""
    gate = group.kind.gate
    assert gate is not None
    source, pulse = pulses[group.sources], pulses[group.clocks]
    low = np.zeros_like(pulse)
    old, new = group.taken(before), group.taken(after)
    edges = _edges(old, new)
    edges[gate.clock] = {"rise": source, "fall": source}
    edges[gate.output] = {"rise": pulse, "fall": pulse}
    at_rise = {**old, gate.clock: low, gate.output: low}
    at_fall = {**new, gate.clock: source, gate.output: pulse}
    pins = {pin: dict.fromkeys(EDGES, at_fall) for pin in group.inputs}
    pins |= {pin: {"rise": at_rise, "fall": at_fall} for pin in (gate.clock, gate.output)}
    return Events(edges, pins)
