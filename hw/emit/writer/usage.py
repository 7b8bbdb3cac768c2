"""The parts of a circuit that are needed, and those that have to have a name.

A cell whose output is used once is written where it is used; so are small ones that are used a few
times. All others get a wire, whose name is made of what it computes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from amaranth.hdl import _nir

from cdma.hw.emit.writer.circuit import (
    STORED,
    CellBits,
    Circuit,
    Constant,
    Nets,
    Slice,
    Variable,
    bits_of,
)
from cdma.hw.emit.writer.decisions import (
    Bit,
    Choice,
    Condition,
    Decision,
    Statement,
    Value,
    statements_of,
    value_of,
)

REPEATED = 3
"""How often a small expression may be repeated rather than named."""

_SMALL = ("~", "==", "!=", "b", "r|", "r&", "&", "|", "u<", "u>", "u<=", "u>=")


@dataclass
class Usage:
    """The parts that are needed to compute the roots.

    Attributes
    ----------
    variables : dict
        The needed ones, in the order in which they are met.
    cells : dict
        Bits of cells without names, and how often they are used.
    consumers : dict
        The variable that each such cell is needed for at first.
    """

    circuit: Circuit
    variables: dict[str, Variable] = field(default_factory=dict)
    cells: dict[int, Counter[tuple[int, int]]] = field(default_factory=dict)
    consumers: dict[int, str] = field(default_factory=dict)
    processes: dict[int, list[Statement]] = field(default_factory=dict)
    _pending: list[Variable] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def add_roots(self) -> None:
        """All that outputs, instances, memories and properties need."""
        circuit = self.circuit
        top = circuit.cells[0]
        for name in circuit.outputs:
            variable = circuit.variables[name]
            self.variables.setdefault(name, variable)
            if variable.cell is None:
                self._visit(top.ports_o[name], name, variable)
            else:
                self._pending.append(variable)
        for cell in circuit.cells:
            match cell:
                case _nir.Instance():
                    for port, nets in cell.ports_i.items():
                        self._visit(nets, f"{cell.name}_{port}")
                case _nir.SyncProperty() | _nir.AsyncProperty() if circuit.has_assertions:
                    self._visit((cell.en,), "checked")
                    self._visit((cell.test,), "check")
        written: set[int] = set()
        while self._pending or len(written) < len(self._memories()):
            while self._pending:
                self._define(self._pending.pop())
            for memory in self._memories():
                if memory not in written:
                    written.add(memory)
                    self._visit_writes(memory)

    def _memories(self) -> set[int]:
        """Memories that are read."""
        return {index for index in self._seen if isinstance(self.circuit.cells[index], _nir.Memory)}

    def _visit_writes(self, memory: int) -> None:
        for cell in self.circuit.cells:
            if isinstance(cell, _nir.SyncWritePort) and cell.memory == memory:
                name = self.circuit.cells[memory].name
                self._visit((cell.clk,), name)
                self._visit(cell.addr, f"{name}_address")
                self._visit(cell.data, f"{name}_data")
                for net in dict.fromkeys(cell.en):
                    self._visit((net,), f"{name}_write")

    def _visit(self, nets: Nets, consumer: str, within: Variable | None = None) -> None:
        for chunk in self.circuit.chunks(nets, within):
            match chunk:
                case Constant():
                    pass
                case Slice(variable, _, _):
                    if variable.name not in self.variables:
                        self.variables[variable.name] = variable
                        self._pending.append(variable)
                case CellBits(cell, low, high):
                    counted = self.cells.setdefault(cell, Counter())
                    self.consumers.setdefault(cell, consumer)
                    counted[low, high] += 1
                    if counted[low, high] == 1:
                        self._visit_operands(cell, low, high, consumer)

    def _define(self, variable: Variable) -> None:
        if variable.port == "input":
            return
        if variable.cell is None:
            self._visit(variable.nets, variable.name, variable)
            return
        index = variable.cell
        cell = self.circuit.cells[index]
        match cell:
            case _nir.Instance():
                pass
            case _nir.FlipFlop():
                self._visit((cell.clk,), variable.name)
                self._visit((cell.arst,), variable.name)
                source = list_of(self.circuit, cell.data)
                if source is None:
                    self._visit(cell.data, variable.name)
                elif source not in self.processes:
                    self._visit_process(source, variable, bits_of(index, 0, len(cell.data)))
            case _nir.SyncReadPort():
                self._seen.add(cell.memory)
                for nets in ((cell.clk,), (cell.en,), cell.addr):
                    self._visit(nets, variable.name)
                if cell.transparent_for:
                    # Compared once more, where the write ports are.
                    self._visit(cell.addr, variable.name)
                    self._visit_writes(cell.memory)
            case _:
                self._visit_operands(index, 0, variable.width, variable.name)

    def _visit_operands(self, index: int, low: int, high: int, consumer: str) -> None:
        cell = self.circuit.cells[index]
        match cell:
            case _nir.Operator():
                if cell.operator == "m":
                    self._visit(cell.inputs[0], consumer)
                    self._visit(cell.inputs[1][low:high], consumer)
                    self._visit(cell.inputs[2][low:high], consumer)
                elif cell.operator in ("~", "&", "|", "^"):
                    for value in cell.inputs:
                        self._visit(value[low:high], consumer)
                elif cell.operator in ("+", "-", "*"):
                    for value in cell.inputs:
                        self._visit(value[:high], consumer)
                elif cell.operator == "<<":
                    self._visit(cell.inputs[0][:high], consumer)
                    self._visit(cell.inputs[1], consumer)
                else:
                    for value in cell.inputs:
                        self._visit(value, consumer)
            case _nir.Part():
                self._visit(cell.value, consumer)
                self._visit(cell.offset, consumer)
            case _nir.AsyncReadPort():
                self._seen.add(cell.memory)
                self._visit(cell.addr, consumer)
            case _nir.AssignmentList():
                value = value_of(self.circuit, index, low, high)
                if value is not None:
                    self._visit_value(value, consumer)
                elif index not in self.processes:
                    nets = bits_of(index, 0, len(cell.default))
                    self._visit_process(index, Variable(consumer, nets), nets)

    def _visit_value(self, value: Value, consumer: str) -> None:
        if isinstance(value, Choice):
            for condition, arm in value.arms:
                self._visit_condition(condition, consumer)
                self._visit_value(arm, consumer)
            self._visit_value(value.otherwise, consumer)
        else:
            self._visit(value, consumer)

    def _visit_condition(self, condition: Condition, consumer: str) -> None:
        self._visit((condition.net,) if isinstance(condition, Bit) else condition.value, consumer)

    def _visit_process(self, index: int, variable: Variable, own: Nets) -> None:
        statements = self.processes[index] = statements_of(self.circuit, index)
        default = self.circuit.cells[index].default
        if default != own:
            self._visit(default, variable.name)
        for statement in _all(statements):
            if not isinstance(statement, Decision):
                self._visit(statement.value, variable.name)
            elif statement.cell not in self._seen:
                self._seen.add(statement.cell)
                for condition, _ in statement.branches:
                    if condition is not None:
                        self._visit_condition(condition, variable.name)

    # Naming

    def to_name(self) -> list[int]:
        """Cells that need a wire, as they are used too often."""
        return [
            index
            for index, counted in self.cells.items()
            if not self._is_written_in_place(index, counted)
        ]

    def _is_written_in_place(self, index: int, counted: Counter[tuple[int, int]]) -> bool:
        cell = self.circuit.cells[index]
        if isinstance(cell, _nir.AssignmentList) and any(
            value_of(self.circuit, index, low, high) is None for low, high in counted
        ):
            return False
        if isinstance(cell, STORED):
            return False
        spans = sorted(counted)
        if all(n == 1 for n in counted.values()) and all(a[1] <= b[0] for a, b in pairwise(spans)):
            return True
        if counted.total() > REPEATED or not isinstance(cell, _nir.Operator):
            return False
        if cell.operator not in _SMALL or (cell.operator in "~&|" and cell.width > 1):
            return False
        chunks = [c for value in cell.inputs for c in self.circuit.chunks(value)]
        return len(chunks) <= 2 and not any(isinstance(chunk, CellBits) for chunk in chunks)

    def name_cell(self, index: int) -> None:
        """Give a cell's output a wire."""
        circuit = self.circuit
        cell = circuit.cells[index]
        high = max((high for _, high in self.cells.get(index, ())), default=0)
        high = high or circuit.width_of(index)
        if isinstance(cell, _nir.AssignmentList) or circuit.home(bits_of(index, 0, 1)[0]):
            high = circuit.width_of(index)
        nets = bits_of(index, 0, high)
        name = circuit.pin_names.get(nets) or self._name_for(index)
        circuit.declare(circuit.unique(name), nets, cell=index)

    def name_value(self, nets: Nets, consumer: str) -> None:
        """Give a value a wire: only a variable can be indexed, or made in a loop."""
        name = self.circuit.pin_names.get(nets) or f"{consumer}_all"
        self.circuit.declare(self.circuit.unique(name), nets)

    def _name_for(self, index: int) -> str:
        cell = self.circuit.cells[index]
        consumer = self.consumers.get(index, "value")
        if isinstance(cell, _nir.Operator) and len(cell.inputs) <= 2:
            words = [self._word(value) for value in cell.inputs]
            joint = _WORDS.get(cell.operator, "op")
            if len(words) == 1 and words[0]:
                return f"{joint}_{words[0]}"
            if len(words) == 2 and words[0] and words[1]:
                return f"{words[0]}_{joint}_{words[1]}"
        if isinstance(cell, _nir.Part):
            word = self._word(cell.value)
            if word:
                return f"{word}_at"
        what = "part" if isinstance(cell, _nir.Part) else "choice"
        if isinstance(cell, _nir.Operator):
            what = _WORDS.get(cell.operator, "op")
        return consumer if consumer.endswith(f"_{what}") else f"{consumer}_{what}"

    def _word(self, nets: Nets) -> str:
        """A value in a word, if it has one that is not long."""
        while len(nets) > 1 and nets[-1] == 0:
            nets = nets[:-1]
        if all(net < 2 for net in nets):
            number = sum(bit << place for place, bit in enumerate(nets))
            return str(number) if number < 1 << 16 else ""
        chunks = self.circuit.chunks(nets)
        chunk = chunks[0]
        if len(chunks) != 1 or not isinstance(chunk, Slice):
            return ""
        name = chunk.variable.name if len(chunk.variable.name) <= 24 else ""
        return name if chunk.is_whole or not name else f"{name}_{chunk.low}"


_WORDS = {
    "~": "not", "-": "minus", "b": "any", "r|": "any", "r&": "all", "r^": "parity", "+": "plus",
    "*": "times", "&": "and", "|": "or", "^": "xor", "==": "is", "!=": "is_not", "u<": "below",
    "u>": "above", "u<=": "up_to", "u>=": "from", "s<": "below", "s>": "above", "s<=": "up_to",
    "s>=": "from", "<<": "shifted_by", "u>>": "down_by", "s>>": "down_by", "m": "choice",
    "u//": "over", "u%": "modulo",
}  # fmt: skip


def list_of(circuit: Circuit, data: Nets) -> int | None:
    """The assignment list that a register's input is, if it has no name; else None."""
    if data[0] < 2:
        return None
    index = data[0] >> 16
    cell = circuit.cells[index]
    if not isinstance(cell, _nir.AssignmentList) or circuit.home(data[0]) is not None:
        return None
    return index if data == bits_of(index, 0, len(cell.default)) else None


def _all(statements: Iterable[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        if isinstance(statement, Decision):
            for _, inner in statement.branches:
                yield from _all(inner)
