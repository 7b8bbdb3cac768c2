"""A module's netlist in memory: what drives each net, what is called how, what is used where.

Amaranth's netlist has a net for each bit and a cell for each operator. Here nets get the names of
variables: those of the source's signals where there is one, and others for what cannot be written
in place. What is left without a name is written into the expression that uses it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from amaranth.hdl import _nir

from cdma.hw.emit.names import is_keyword
from cdma.hw.emit.writer.loops import cut_loops

Nets = tuple[int, ...]
"""Bits, lowest first: 0 and 1 are constants, others a cell's index and a bit (`_nir.Net`)."""


class UnsupportedCell(RuntimeError):
    """The netlist has a cell that this writer cannot write."""


@dataclass(eq=False)
class Variable:
    """A name that the module declares.

    Attributes
    ----------
    name : str
    nets : tuple of int
        The bits it carries.
    cell : int or None
        The cell whose output it is, from bit 0 on; None if it is put together of others.
    port : str
        "input" or "output" if it is a port, else empty.
    is_source : bool
        Whether the name is one of the source's.
    """

    name: str
    nets: Nets
    cell: int | None = None
    port: str = ""
    is_source: bool = True

    @property
    def width(self) -> int:
        return len(self.nets)


@dataclass(frozen=True)
class Constant:
    """A run of constant bits."""

    bits: Nets


@dataclass(frozen=True)
class Slice:
    """Bits of a variable from `low` up to, not with, `high`."""

    variable: Variable
    low: int
    high: int

    @property
    def is_whole(self) -> bool:
        return self.high - self.low == self.variable.width


@dataclass(frozen=True)
class CellBits:
    """Bits of a cell's output that has no name."""

    cell: int
    low: int
    high: int


Chunk = Constant | Slice | CellBits

STORED = (_nir.FlipFlop, _nir.SyncReadPort)
"""Cells whose output is a register."""


def bits_of(cell: int, low: int, high: int) -> Nets:
    """The nets of a cell's output."""
    return tuple(range((cell << 16) + low, (cell << 16) + high))


@dataclass
class Circuit:
    """The netlist of one module, and names for its nets."""

    netlist: Any
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    has_assertions: bool = False
    variables: dict[str, Variable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # They get simpler here; the netlist stays as it is.
        self.cells: list[Any] = [_copied(cell) for cell in self.netlist.cells]
        self._resolved: Callable[[Any], Nets]
        self._resolve()
        self._taken: set[str] = set()
        self._home: dict[int, tuple[Variable, int]] = {}
        self._by_nets: dict[Nets, Variable] = {}
        self._known_chunks: dict[tuple[Nets, Variable | None], tuple[Chunk, ...]] = {}
        self._starts: dict[int, list[Variable]] = defaultdict(list)
        self.states: dict[Nets, dict[int, str]] = {}
        top = self.cells[0]
        self._taken |= {*top.ports_i, *top.ports_o}
        self._signals = set(self.netlist.modules[0].signal_names.values())
        self.instances: dict[str, str] = {}
        self.renamed: dict[str, str] = {}
        for cell in self.cells:
            if isinstance(cell, _nir.Instance):
                # Amaranth numbers those that are called like a signal.
                stem = cell.name.partition("$")[0]
                if stem in self._signals or is_keyword(stem):
                    stem = f"{stem}_module"
                self.instances[cell.name] = self.unique(stem)
            elif isinstance(cell, _nir.Memory):
                name = self.unique(cell.name.partition("$")[0])
                self.instances[cell.name] = cell.name = name
        self._name_nets()

    # Resolving

    def _resolve(self) -> None:
        """Replace nets by those that they only pass on."""
        wires: dict[int, int] = {}

        def resolved(nets: Any) -> Nets:
            found = []
            for net in nets:
                while net in wires:
                    net = wires[net]
                found.append(int(net))
            return tuple(found)

        self._resolved = resolved
        self._fold(wires)
        cut = cut_loops(self.cells)
        if cut:
            wires.update(cut)
            self._fold(wires)

    def _fold(self, wires: dict[int, int]) -> None:
        """Fold assignments without a condition into defaults, and what is constant or twice."""
        resolved = self._resolved
        for index, cell in enumerate(self.cells):
            if isinstance(cell, _nir.AssignmentList):
                default = list(cell.default)
                assignments = [a for a in cell.assignments if len(a.value)]
                while assignments and assignments[0].cond == 1:
                    first = assignments.pop(0)
                    default[first.start : first.start + len(first.value)] = first.value
                cell.default = tuple(default)
                cell.assignments = tuple(assignments)
                if not assignments and bits_of(index, 0, 1)[0] not in wires:
                    wires.update(zip(bits_of(index, 0, len(default)), default, strict=True))
        folded: set[int] = set()
        known = -1
        while known != len(wires):
            known = len(wires)
            alike: dict[Any, int] = {}
            for index, cell in enumerate(self.cells):
                _resolve_cell(cell, resolved)
                if index in folded:
                    continue
                nets = simplified(cell)
                if nets is None:
                    key = _key(cell)
                    other = alike.setdefault(key, index) if key is not None else index
                    if other != index:
                        width = (
                            len(cell.inputs)
                            if isinstance(cell, _nir.PriorityMatch)
                            else (1 if isinstance(cell, _nir.Matches) else self.width_of(index))
                        )
                        nets = bits_of(other, 0, width)
                if nets is not None:
                    folded.add(index)
                    wires.update(zip(bits_of(index, 0, len(nets)), nets, strict=True))

    def width_of(self, index: int) -> int:
        """Bits of a cell's output; 0 for cells without one, and instances, which have several."""
        cell = self.cells[index]
        match cell:
            case _nir.Operator() | _nir.Part() | _nir.SyncReadPort() | _nir.AsyncReadPort():
                return int(cell.width)
            case _nir.AssignmentList():
                return len(cell.default)
            case _nir.FlipFlop():
                return len(cell.data)
        return 0

    # Naming

    def unique(self, name: str) -> str:
        """A name that nothing has yet, as Verilog takes it."""
        stem = re.sub(r"\W", "_", name.lstrip("$").partition("$")[0]) or "value"
        if re.match(r"\d", stem) or is_keyword(stem):
            stem = f"{stem}_" if is_keyword(stem) else f"_{stem}"
        chosen, number = stem, 1
        while chosen in self._taken or (chosen in self._signals and chosen != name):
            chosen, number = f"{stem}_{number}", number + 1
        self._taken.add(chosen)
        if chosen != name:
            self.renamed[name] = chosen
        return chosen

    def free_name(self, stem: str) -> str:
        """A name that nothing has, without taking it."""
        names = chain([stem], (f"{stem}_{number}" for number in count(1)))
        return next(n for n in names if n not in self._taken and n not in self._signals)

    @property
    def named_values(self) -> int:
        """The number of values that have a name."""
        return len(self._by_nets)

    def declare(
        self, name: str, nets: Nets, *, cell: int | None = None, **options: Any
    ) -> Variable:
        """A new variable; nets of a cell have it as their home from now on."""
        self._known_chunks.clear()
        variable = Variable(name, nets, cell, **options)
        self.variables[name] = variable
        if cell is not None:
            found = self._home.get(nets[0])
            if found is not None:
                # A name of some of its bits: from now on a part of this variable.
                part = found[0]
                part.cell = None
                self._starts[part.nets[0]].append(part)
            for bit, net in enumerate(nets):
                self._home[net] = (variable, bit)
        else:
            self._starts[nets[0]].append(variable)
            self._starts[nets[0]].sort(key=lambda v: -v.width)
        self._by_nets.setdefault(nets, variable)
        return variable

    def _name_nets(self) -> None:
        top = self.cells[0]
        for name, (start, width) in top.ports_i.items():
            if width and name in self.inputs:
                self.declare(name, bits_of(0, start, start + width), cell=0, port="input")
        # The best name of each value: an output, then a signal of the module, then a pin's.
        inner = tuple(f"{c.name}_" for c in self.cells if isinstance(c, _nir.Instance))
        local: dict[Nets, str] = {}
        pins: dict[Nets, str] = {}
        slices: dict[int, list[tuple[Nets, str]]] = defaultdict(list)
        for signal, name in self.netlist.modules[0].signal_names.items():
            nets = self._resolved(self.netlist.signals[signal])
            if not nets or all(net < 2 for net in nets) or name in self.outputs:
                continue
            names = pins if inner and name.startswith(inner) else local
            names.setdefault(nets, name)
            shape = self.netlist.signal_fields[signal].get(())
            if shape is not None and shape.enum_variants:
                self.states.setdefault(nets, dict(shape.enum_variants))
            if nets[0] >= 2 and nets == tuple(range(nets[0], nets[0] + len(nets))):
                slices[nets[0] >> 16].append((nets, name))
        outputs: dict[Nets, str] = {}
        for name, nets in top.ports_o.items():
            outputs.setdefault(nets, name)

        def named(nets: Nets) -> str | None:
            return outputs.get(nets) or local.get(nets) or pins.get(nets)

        self.pin_names = pins
        for index, cell in enumerate(self.cells):
            if isinstance(cell, _nir.Instance):
                for port, (start, width) in cell.ports_o.items():
                    if width:
                        nets = bits_of(index, start, start + width)
                        self._declare_cell(
                            index, nets, named(nets) or f"{cell.name}_{port}", outputs
                        )
                continue
            width = self.width_of(index)
            if not width or self._resolved(bits_of(index, 0, 1)) != bits_of(index, 0, 1):
                continue
            nets = bits_of(index, 0, width)
            name = outputs.get(nets) or local.get(nets)
            if name is None and isinstance(cell, STORED):
                name = pins.get(nets) or next((n for _, n in slices[index]), "register")
            if name is None:
                # A sum without its carry, for example.
                low = [found for found in slices[index] if found[0][0] == nets[0]]
                low = [found for found in low if found[1] in local.values()]
                if low:
                    nets, name = max(low, key=lambda found: len(found[0]))
                    name = outputs.get(nets) or name
            if name is not None:
                self._declare_cell(index, nets, name, outputs)
        for nets, name in outputs.items():
            if name not in self.variables:
                self.declare(name, nets, port="output")
        for name, nets in top.ports_o.items():
            if name not in self.variables:
                # Another output has the same value.
                self.variables[name] = Variable(name, nets, port="output")
        for nets, name in local.items():
            if nets not in self._by_nets:
                self.declare(self.unique(name), nets)

    def _declare_cell(self, index: int, nets: Nets, name: str, outputs: dict[Nets, str]) -> None:
        is_output = outputs.get(nets) == name
        self.declare(
            name if is_output else self.unique(name),
            nets,
            cell=index,
            port="output" if is_output else "",
        )

    # Looking up

    def home(self, net: int) -> Variable | None:
        """The variable that a net has from its cell."""
        found = self._home.get(net)
        return found[0] if found else None

    def chunks(self, nets: Nets, within: Variable | None = None) -> Sequence[Chunk]:
        """Return what bits are called, lowest first; with names shorter than `within`'s."""
        key = nets, within
        found = self._known_chunks.get(key)
        if found is None:
            found = self._known_chunks[key] = tuple(self._chunks(nets, within))
        return found

    def _chunks(self, nets: Nets, within: Variable | None) -> Iterator[Chunk]:
        limit = within.width - 1 if within is not None else len(nets)
        whole = self._by_nets.get(nets)
        if whole is not None and whole is not within and whole.width <= limit:
            yield Slice(whole, 0, whole.width)
            return
        position, end = 0, len(nets)
        while position < end:
            net = nets[position]
            stop = position + 1
            if net < 2:
                while stop < end and nets[stop] < 2:
                    stop += 1
                yield Constant(nets[position:stop])
                position = stop
                continue
            home = self._home.get(net)
            if home is not None and home[0] is not within:
                variable, bit = home
                while stop < end and self._home.get(nets[stop]) == (
                    variable,
                    bit + stop - position,
                ):
                    stop += 1
                found: Chunk = Slice(variable, bit, bit + stop - position)
            else:
                while stop < end and nets[stop] == net + stop - position:
                    if nets[stop] in self._home and self._home[nets[stop]][0] is not within:
                        break
                    stop += 1
                bit = net & 0xFFFF
                found = CellBits(net >> 16, bit, bit + stop - position)
            for other in self._starts.get(net, ()):
                width = other.width
                fits = max(2, stop - position) <= width <= limit and other is not within
                if fits and nets[position : position + width] == other.nets:
                    found, stop = Slice(other, 0, width), position + width
                    break
            yield found
            position = stop


def _copied(cell: Any) -> Any:
    """A cell of its own, and of its own assignments."""
    copied = object.__new__(type(cell))
    vars(copied).update(vars(cell))
    if isinstance(cell, _nir.AssignmentList):
        copied.assignments = tuple(map(_copied, cell.assignments))
    return copied


def _resolve_cell(cell: Any, resolved: Callable[[Any], Nets]) -> None:
    match cell:
        case _nir.Top():
            cell.ports_o = {name: resolved(v) for name, v in cell.ports_o.items()}
        case _nir.Operator():
            cell.inputs = tuple(resolved(value) for value in cell.inputs)
        case _nir.Part():
            cell.value, cell.offset = resolved(cell.value), resolved(cell.offset)
        case _nir.Matches():
            cell.value = resolved(cell.value)
        case _nir.PriorityMatch():
            cell.inputs = resolved(cell.inputs)
            (cell.en,) = resolved((cell.en,))
        case _nir.AssignmentList():
            cell.default = resolved(cell.default)
            for assignment in cell.assignments:
                assignment.value = resolved(assignment.value)
                (assignment.cond,) = resolved((assignment.cond,))
        case _nir.FlipFlop():
            cell.data = resolved(cell.data)
            cell.clk, cell.arst = resolved((cell.clk, cell.arst))
        case _nir.SyncWritePort():
            cell.data, cell.addr = resolved(cell.data), resolved(cell.addr)
            cell.en = resolved(cell.en)
            (cell.clk,) = resolved((cell.clk,))
        case _nir.AsyncReadPort():
            cell.addr = resolved(cell.addr)
        case _nir.SyncReadPort():
            cell.addr = resolved(cell.addr)
            cell.en, cell.clk = resolved((cell.en, cell.clk))
        case _nir.Instance():
            cell.ports_i = {name: resolved(v) for name, v in cell.ports_i.items()}
        case _nir.SyncProperty():
            cell.test, cell.en, cell.clk = resolved((cell.test, cell.en, cell.clk))
        case _nir.AsyncProperty():
            cell.test, cell.en = resolved((cell.test, cell.en))
        case _nir.Memory():
            pass
        case _:
            raise UnsupportedCell(f"{type(cell).__name__} has no Verilog here")


def _key(cell: Any) -> Any:
    """Cells with the same key have the same output."""
    match cell:
        case _nir.Operator():
            return ("operator", cell.operator, cell.inputs)
        case _nir.Part():
            return ("part", cell.value, cell.value_signed, cell.offset, cell.width, cell.stride)
        case _nir.Matches():
            return ("matches", cell.value, cell.patterns)
        case _nir.PriorityMatch():
            return ("priority", cell.en, cell.inputs)
        case _nir.AssignmentList() if cell.assignments:
            assignments = tuple((a.cond, a.start, a.value) for a in cell.assignments)
            return ("list", cell.default, assignments)
    return None


def simplified(cell: Any) -> Nets | None:
    """The nets that a cell only passes on; None if it computes something.

    A cell may become a simpler one.
    """
    if isinstance(cell, _nir.Part):
        return _constant_part(cell)
    if not isinstance(cell, _nir.Operator):
        return None
    inputs, operator = cell.inputs, cell.operator
    if not inputs[-1]:
        if operator in ("<<", "u>>", "s>>"):
            return inputs[0]
        is_true = operator in ("r&", "==", "u<=", "u>=", "s<=", "s>=")
        return (1,) if is_true else (0,)[: cell.width]
    if operator in ("&", "|", "^"):
        return _bitwise(cell)
    constants = [all(net < 2 for net in value) for value in inputs]
    match operator:
        case "~":
            return tuple(1 - net for net in inputs[0]) if constants[0] else None
        case "+" | "-" if len(inputs) == 2:
            if constants[1] and not any(inputs[1]):
                return inputs[0]
            if operator == "+" and constants[0] and not any(inputs[0]):
                return inputs[1]
        case "m":
            test, yes, no = inputs
            if constants[0]:
                return yes if test[0] else no
            return yes if yes == no else None
        case "b" | "r|" | "r&":
            return inputs[0] if len(inputs[0]) == 1 else None
        case "==" | "!=" if len(inputs[0]) == 1:
            first, second = inputs if constants[1] else inputs[::-1]
            if second[0] > 1:
                return None
            if (operator == "==") == (second[0] == 1):
                return first
            cell.operator, cell.inputs = "~", (first,)
        case "u<=" if constants[1] and not any(inputs[1]):
            cell.operator = "=="
        case "u>" if constants[1] and not any(inputs[1]):
            cell.operator = "!="
        case "*" if len(inputs) == 2 and any(
            fixed and sum(value) == 1 for fixed, value in zip(constants, inputs, strict=True)
        ):
            # By a power of two. Yosys would make one adder of a product and what it is added to.
            factor, other = inputs if constants[0] and sum(inputs[0]) == 1 else inputs[::-1]
            amount = factor.index(1)
            return (*factor[:amount], *other)[: len(other)]
        case "u//" | "s//" | "u%" if constants[1] and sum(inputs[1]) == 1 and not inputs[1][-1]:
            # By a power of two, rounded down.
            amount, width = inputs[1].index(1), len(inputs[0])
            if operator == "u%":
                return (*inputs[0][:amount], *((0,) * (width - amount)))
            fill = inputs[0][-1] if operator == "s//" else 0
            return (*inputs[0][amount:], *((fill,) * amount))
        case "<<" | "u>>" if constants[1] and len(inputs[1]) < 32:
            amount = sum(bit << place for place, bit in enumerate(inputs[1]))
            width = len(inputs[0])
            zeros = (0,) * min(amount, width)
            if operator == "<<":
                return (*zeros, *inputs[0])[:width]
            return (*inputs[0][amount:], *zeros)
    return None


def _bitwise(cell: Any) -> Nets | None:
    left, right = cell.inputs
    found: list[int | None] = []
    for a, b in zip(left, right, strict=True):
        low, high = min(a, b), max(a, b)
        bit: int | None = None
        if cell.operator == "&":
            bit = 0 if low == 0 else high if low == 1 or a == b else None
        elif cell.operator == "|":
            bit = 1 if low == 1 else high if low == 0 or a == b else None
        else:
            bit = 0 if a == b else high if low == 0 else None
        found.append(bit)
    if cell.operator == "^" and all(bit == 1 for bit in right):
        cell.operator, cell.inputs = "~", (left,)
        return None
    if cell.operator == "^" and all(bit == 1 for bit in left):
        cell.operator, cell.inputs = "~", (right,)
        return None
    nets = tuple(bit for bit in found if bit is not None)
    return nets if len(nets) == len(found) else None


def _constant_part(cell: Any) -> Nets | None:
    if any(net > 1 for net in cell.offset):
        return None
    start = sum(bit << place for place, bit in enumerate(cell.offset)) * cell.stride
    size = len(cell.value)
    # Beyond a signed value Amaranth's simulator has its sign, and its RTLIL zeros.
    if cell.value_signed and start + cell.width > size:
        return None
    return tuple(cell.value[k] if k < size else 0 for k in range(start, start + cell.width))
