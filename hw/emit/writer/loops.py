"""Signals whose bits depend on other bits of the same signal, cut into parts that do not.

Amaranth forbids loops of bits only. A payload may have a field that depends, by way of other logic,
on another of its fields. As one variable of Verilog it would be a loop: an `always` block that does
not see its own writes, and a warning of every tool.
"""

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

from amaranth.hdl import _nir

_CUT = (_nir.Top, _nir.FlipFlop, _nir.SyncReadPort, _nir.Instance, _nir.Memory)
"""Cells with no way from an input to an output in the same cycle, as far as a module knows."""


def cut_loops(cells: list[Any]) -> dict[int, int]:
    """Cut assignment lists in loops of whole cells into lists of their own, behind the others.

    Returns
    -------
    dict of int to int
        The nets that stand for those of the lists that were cut.
    """
    wires: dict[int, int] = {}
    while (loop := _loop(cells, wires)) is not None:
        lists = [i for i in loop if isinstance(cells[i], _nir.AssignmentList)]
        places = {index: _places(cells[index]) for index in lists}
        cut = next((i for i in lists if len(places[i]) > 2), None)
        if cut is None:
            cut = next((i for i in lists if len(cells[i].default) > 1), None)
            if cut is None:
                # Of operators on several bits: each has a wire, and simulators settle them.
                break
            places[cut] = list(range(len(cells[cut].default) + 1))
        for low, high in pairwise(places[cut]):
            first = len(cells) << 16
            wires.update({(cut << 16) + bit: first + bit - low for bit in range(low, high)})
            cells.append(_part(cells[cut], low, high))
        # Nothing reads it any more.
        cells[cut].assignments = ()
    return wires


def _loop(cells: list[Any], wires: dict[int, int]) -> list[int] | None:
    """The cells of a loop, if there is one."""

    def node(net: int) -> int:
        net = wires.get(net, net)
        # Of a match's bits each depends on those before it only; others are taken as a whole.
        return net if isinstance(cells[net >> 16], _nir.PriorityMatch) else -(net >> 16)

    def nodes(nets: Iterable[int]) -> Iterator[int]:
        return (node(net) for net in nets if net > 1)

    graph: dict[int, set[int]] = {}
    for index, cell in enumerate(cells):
        if isinstance(cell, _nir.PriorityMatch):
            for bit in range(len(cell.inputs)):
                graph[(index << 16) + bit] = set(nodes((*cell.inputs[: bit + 1], cell.en)))
        elif not isinstance(cell, _CUT):
            graph[-index] = set(nodes(map(int, cell.input_nets())))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [-n if n < 0 else n >> 16 for n in error.args[1]]
    return None


def _places(cell: Any) -> list[int]:
    """List where the pieces that are assigned together begin and end."""
    width = len(cell.default)
    places = {0, width}
    for assignment in cell.assignments:
        places |= {assignment.start, min(width, assignment.start + len(assignment.value))}
    return sorted(places)


def _part(cell: Any, low: int, high: int) -> Any:
    """Bits of an assignment list as a list of their own."""
    assignments = []
    for assignment in cell.assignments:
        start = max(low, assignment.start)
        end = min(high, assignment.start + len(assignment.value))
        if start < end:
            value = assignment.value[start - assignment.start : end - assignment.start]
            assignments.append(
                _nir.Assignment(
                    cond=_nir.Net(assignment.cond),
                    start=start - low,
                    value=[_nir.Net(net) for net in value],
                    src_loc=assignment.src_loc,
                )
            )
    return _nir.AssignmentList(
        cell.module_idx,
        default=[_nir.Net(net) for net in cell.default[low:high]],
        assignments=assignments,
        src_loc=cell.src_loc,
    )
