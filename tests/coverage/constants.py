"""Bits that no input can change, found by propagating constants through a design's modules."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amaranth.hdl import _nir

UNKNOWN, VARIES = -1, 2
"""Beside 0 and 1: a bit that nothing has been said of yet, and one that changes."""

Bits = tuple[int, ...]


def _join(one: int, other: int) -> int:
    if one in (UNKNOWN, other):
        return other
    return one if other == UNKNOWN else VARIES


def _not(bit: int) -> int:
    return 1 - bit if bit in (0, 1) else bit


def _and(one: int, other: int) -> int:
    if 0 in (one, other):
        return 0
    if UNKNOWN in (one, other):
        return UNKNOWN
    return VARIES if VARIES in (one, other) else 1


def _or(one: int, other: int) -> int:
    return _not(_and(_not(one), _not(other)))


def _xor(one: int, other: int) -> int:
    if UNKNOWN in (one, other):
        return UNKNOWN
    return VARIES if VARIES in (one, other) else one ^ other


_BITWISE = {"&": _and, "|": _or, "^": _xor}


def _matches(value: Bits, patterns: Sequence[str]) -> int:
    found = 0
    for pattern in patterns:
        matched = 1
        for bit, wanted in zip(value, reversed(pattern), strict=True):
            if wanted != "-":
                matched = _and(matched, bit if wanted == "1" else _not(bit))
        found = _or(found, matched)
    return found


class ModuleConstants:
    """The bits of a module, as far as they are the same for ever.

    Attributes
    ----------
    netlist
        Amaranth's, of this module alone: what is below are instances.
    inputs : dict of str to list of int
        Its input ports.
    """

    def __init__(self, netlist: Any, varies: bool) -> None:
        self.netlist = netlist
        self.inputs = {
            name: [VARIES if varies else UNKNOWN] * width
            for name, (_, width) in netlist.top.ports_i.items()
        }
        self._cells: dict[int, Bits] = {}

    def bit(self, net: int) -> int:
        """A net's value."""
        if net < 2:
            return int(net)
        index, bit = net >> 16, net & 0xFFFF
        if index == 0:
            return self._ports.get(bit, VARIES)
        found = self._cells.get(index)
        return UNKNOWN if found is None else found[bit]

    def bits(self, nets: Sequence[int]) -> Bits:
        """The values of several nets."""
        return tuple(map(self.bit, nets))

    @property
    def outputs(self) -> dict[str, Bits]:
        """Its output ports."""
        return {name: self.bits(nets) for name, nets in self.netlist.top.ports_o.items()}

    def join_inputs(self, name: str, bits: Bits) -> bool:
        """Enter what an instance gets at an input; true if that changes anything."""
        before = self.inputs[name]
        after = list(map(_join, before, bits))
        self.inputs[name] = after
        return after != before

    def settle(self, below: Mapping[str, "ModuleConstants"]) -> bool:
        """Look at all cells until nothing changes; true if anything has."""
        self._ports = {
            start + bit: value
            for name, (start, _) in self.netlist.top.ports_i.items()
            for bit, value in enumerate(self.inputs[name])
        }
        cells = [
            (index, cell)
            for index, cell in enumerate(self.netlist.cells)
            if index and not isinstance(cell, _nir.Matches)
        ]
        changed = False
        while True:
            changes = False
            for index, cell in cells:
                bits = self._cell(cell, below)
                before = self._cells.get(index)
                # What has varied once goes on to do so, so that this comes to an end.
                if bits is not None and before is not None:
                    bits = tuple(map(_join, before, bits))
                if bits is not None and before != bits:
                    self._cells[index] = bits
                    changes = True
            if not changes:
                return changed
            changed = True

    def _cell(self, cell: Any, below: Mapping[str, "ModuleConstants"]) -> Bits | None:
        """The values of a cell's outputs; None if it has none that anything reads."""
        match cell:
            case _nir.FlipFlop():
                data = self.bits(cell.data)
                return tuple(_join(cell.init >> k & 1, bit) for k, bit in enumerate(data))
            case _nir.PriorityMatch():
                return tuple(self._chosen(cell))
            case _nir.AssignmentList():
                return self._assigned(cell)
            case _nir.Operator(operator="m"):
                sel, yes, no = (self.bits(value) for value in cell.inputs)
                if sel[0] == UNKNOWN:
                    return (UNKNOWN,) * len(yes)
                if sel[0] == VARIES:
                    return tuple(map(_join, yes, no))
                return yes if sel[0] else no
            case _nir.Operator(operator="~"):
                return tuple(map(_not, self.bits(cell.inputs[0])))
            case _nir.Operator(operator="&" | "|" | "^"):
                one, other = map(self.bits, cell.inputs)
                return tuple(map(_BITWISE[cell.operator], one, other))
            case _nir.Operator(operator="b" | "r|"):
                return (_not(_matches(self.bits(cell.inputs[0]), ["0" * len(cell.inputs[0])])),)
            case _nir.Operator(operator="==" | "!="):
                unlike = 0
                for one, other in zip(*map(self.bits, cell.inputs), strict=True):
                    unlike = _or(unlike, _xor(one, other))
                return (unlike if cell.operator == "!=" else _not(unlike),)
            case _nir.Instance():
                return self._instance(cell, below)
            case _nir.SyncReadPort() | _nir.AsyncReadPort():
                return self._stored(cell.memory)
            case _:
                nets = [net & 0xFFFF for net in cell.output_nets(1)]
                return (VARIES,) * (max(nets) + 1) if nets else None

    def _stored(self, index: int) -> Bits:
        """The bits of a memory's words, as far as all words have the same for ever."""
        memory = self.netlist.cells[index]
        # What a registered port shows before it has read anything is 0.
        bits = (0,) * memory.width
        for word in set(memory.init):
            bits = tuple(_join(bit, word >> k & 1) for k, bit in enumerate(bits))
        for cell in self.netlist.cells:
            if isinstance(cell, _nir.SyncWritePort) and cell.memory == index:
                bits = tuple(map(_join, bits, self.bits(cell.data)))
        return bits

    def matches(self, net: int) -> int:
        """The value of an input of a decision: constant, or whether a pattern matches."""
        if net < 2:
            return int(net)
        cell = self.netlist.cells[net >> 16]
        return _matches(self.bits(cell.value), cell.patterns)

    def _chosen(self, cell: Any) -> Iterator[int]:
        left = self.bit(cell.en)
        for net in cell.inputs:
            matched = self.matches(net)
            yield _and(left, matched)
            left = _and(left, _not(matched))

    def none_chosen(self, cell: Any) -> int:
        """Tell if a decision is ever met in which no branch is taken."""
        left = self.bit(cell.en)
        for net in cell.inputs:
            left = _and(left, _not(self.matches(net)))
        return left

    def _assigned(self, cell: Any) -> Bits:
        value = list(self.bits(cell.default))
        for assignment in cell.assignments:
            condition = self.bit(assignment.cond)
            for place, net in enumerate(assignment.value, assignment.start):
                if condition == UNKNOWN:
                    value[place] = UNKNOWN
                elif condition:
                    new = self.bit(net)
                    value[place] = new if condition == 1 else _join(value[place], new)
        return tuple(value)

    def _instance(self, cell: Any, below: Mapping[str, "ModuleConstants"]) -> Bits:
        width = sum(width for _, width in cell.ports_o.values())
        found = [VARIES] * width
        module = below.get(cell.type)
        if module is not None:
            outputs = module.outputs
            for name, (start, size) in cell.ports_o.items():
                found[start : start + size] = outputs[name]
        return tuple(found)


def constants(netlists: Mapping[str, Any], top: str) -> dict[str, ModuleConstants]:
    """Propagate constants through all modules of a design, whose top's inputs vary.

    Parameters
    ----------
    netlists : mapping of str
        Amaranth's, of each module alone, by the names that instances call them.
    top : str
        The name of the top module.
    """
    found = {name: ModuleConstants(netlist, name == top) for name, netlist in netlists.items()}
    waiting = dict.fromkeys(reversed(list(found)))
    users: dict[str, set[str]] = {}
    for name, netlist in netlists.items():
        for cell in netlist.cells:
            if isinstance(cell, _nir.Instance):
                users.setdefault(cell.type, set()).add(name)
    while waiting:
        name = next(iter(waiting))
        del waiting[name]
        module = found[name]
        before = module.outputs if module._cells else None
        module.settle(found)
        for cell in module.netlist.cells:
            if isinstance(cell, _nir.Instance) and cell.type in found:
                for port, nets in cell.ports_i.items():
                    if found[cell.type].join_inputs(port, module.bits(nets)):
                        waiting[cell.type] = None
        if module.outputs != before:
            waiting.update(dict.fromkeys(users.get(name, ())))
    return found
