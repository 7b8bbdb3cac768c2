"""Bits of registers that nothing loads, found in Amaranth's netlist of a component.

A register without a reset holds anything after power-up. One that nothing loads holds it for ever,
and what follows from it may be something else on each chip; simulators and FPGAs give it its
initial value, and hide that.
"""

from collections.abc import Iterator
from pathlib import Path

from amaranth.hdl import Fragment, Value
from amaranth.hdl._ir import PortDirection, build_netlist
from amaranth.hdl._nir import (
    AssignmentList,
    AsyncReadPort,
    FlipFlop,
    Net,
    Netlist,
    SyncReadPort,
    SyncWritePort,
)
from amaranth.lib import wiring

ONE = Net.from_const(1)


def netlist_of(component: wiring.Component) -> Netlist:
    """A component and all below it, not elaborated before."""
    ports = {
        "__".join(map(str, path)): (
            Value.cast(value),
            PortDirection.Output if member.flow is wiring.Out else PortDirection.Input,
        )
        for path, member, value in component.signature.flatten(component)
    }
    netlist = build_netlist(Fragment.get(component, None).prepare(ports, hierarchy=("top",)))
    netlist.resolve_all_nets()
    return netlist


def unloaded_that_count(netlist: Netlist) -> list[str]:
    """Bits that nothing loads, not even a reset, and that an output of the top follows from."""
    found = unloaded_bits(netlist) & _bits_that_count(netlist)
    told = []
    for net in sorted(found):
        cell = netlist.cells[net.cell]
        file, line = cell.src_loc
        module = ".".join(netlist.modules[cell.module_idx].name)
        told.append(f"{module}: bit {net.bit} of the register of {Path(file).name}:{line}")
    return told


def unloaded_bits(netlist: Netlist) -> set[Net]:
    """Bits of registers that only ever keep what they have."""
    found = set()
    for number, cell in enumerate(netlist.cells):
        if isinstance(cell, FlipFlop):
            for bit, given in enumerate(cell.data):
                net = Net.from_cell(number, bit)
                if given == net or _sources(netlist, given) == {net}:
                    found.add(net)
    return found


def _bits_that_count(netlist: Netlist) -> set[Net]:
    """All that the outputs follow from, however many cycles later."""
    writes: dict[int, list[SyncWritePort]] = {}
    for cell in netlist.cells:
        if isinstance(cell, SyncWritePort):
            writes.setdefault(cell.memory, []).append(cell)
    found: set[Net] = set()
    left = {net for value in netlist.top.ports_o.values() for net in value}
    while left:
        net = left.pop()
        if net in found or net.is_const:
            continue
        found.add(net)
        cell = netlist.cells[net.cell]
        left |= _sources(netlist, net)
        if isinstance(cell, AsyncReadPort | SyncReadPort):
            for write in writes.get(cell.memory, []):
                left |= {write.data[net.bit], *write.addr, *write.en}
    return found


def _sources(netlist: Netlist, net: Net) -> set[Net]:
    """The nets that a net follows from directly."""
    if net.is_const or net.cell == 0:
        return set()
    cell = netlist.cells[net.cell]
    if isinstance(cell, AssignmentList):
        return set(_assigned(cell, net.bit))
    if isinstance(cell, FlipFlop):
        return {cell.data[net.bit], cell.arst}
    if isinstance(cell, SyncReadPort):
        return {*cell.addr, cell.en}
    return {source for source, _place in cell.comb_edges_to(net.bit)}


def _assigned(cell: AssignmentList, bit: int) -> Iterator[Net]:
    """What a bit is assigned, with the conditions: of those under one condition the last."""
    later = set()
    for assigned in reversed(cell.assignments):
        is_of_it = assigned.start <= bit < assigned.start + len(assigned.value)
        if is_of_it and assigned.cond not in later:
            yield assigned.value[bit - assigned.start]
            if assigned.cond == ONE:
                return
            yield assigned.cond
            later.add(assigned.cond)
    yield cell.default[bit]
