"""Verilog expressions of nets and cells.

Verilog evaluates `+ - * & | ^ ~ << ?:` in the width of what is around them. So each expression here
knows in which widths it has its value, and whoever puts it somewhere looks whether that fits. Where
nothing fits, the cell gets a wire of its own (`NeedsWire`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import _nir

from cdma.hw.emit.writer.circuit import (
    CellBits,
    Chunk,
    Circuit,
    Constant,
    Nets,
    Slice,
    UnsupportedCell,
    Variable,
)
from cdma.hw.emit.writer.decisions import Bit, Choice, Condition, Match, Value, value_of

INFINITE = math.inf
FEWEST_MASKED = 4
"""Parts of a variable from which on a mask selects them."""

LONGEST = 160
"""Characters of an expression that is written in place."""

LONGEST_SUM = 480
"""Characters of a sum of single bits, which is one expression.

In a tree of sums Yosys would find the widths in some orders of cells only, and make a large adder
of it. Other sums stay trees, as the source has them.
"""

ATOM, UNARY, TIMES, PLUS, SHIFT, LESS, EQUAL, AND, XOR, OR, BOTH, EITHER, CHOICE = range(13, 0, -1)
"""How strongly operators bind."""


class NeedsWire(Exception):
    """A cell's output, or a value, cannot be written in place."""

    def __init__(self, cell: int | None = None, nets: Nets = ()) -> None:
        super().__init__(cell, nets)
        self.cell = cell
        self.nets = nets


@dataclass(frozen=True)
class Expression:
    """A text, and when it has its value.

    Attributes
    ----------
    text : str
    rank : int
        How strongly its outermost operator binds.
    width : int
        Bits of the text alone, as Verilog has it.
    low, high : float
        The widths of contexts in which the text is the value with zeros in front.
    wraps : bool
        In wider contexts its low bits still are the value.
    is_sum : bool
        It is a sum of single bits, which can go on.
    """

    text: str
    rank: int
    width: int
    low: float
    high: float = INFINITE
    wraps: bool = True
    is_sum: bool = False

    def within(self, rank: int) -> str:
        """In parentheses where an operator around binds as strongly or more."""
        return self.text if self.rank > rank else f"({self.text})"


def literal(bits: Nets) -> str:
    """A constant with its width: decimal if it is small, else hexadecimal."""
    width = len(bits)
    value = sum(bit << place for place, bit in enumerate(bits))
    if width == 1:
        return f"1'b{value}"
    if width > 64 and value == (1 << width) - 1:
        return f"{{{width}{{1'b1}}}}"
    if value < 1024:
        return f"{width}'d{value}"
    return f"{width}'h{value:x}"


_FLIPPED = {"==": "!=", "!=": "==", "u<": "u>=", "u>=": "u<", "u>": "u<=", "u<=": "u>"}
_FLIPPED |= {f"s{key[1:]}": f"s{value[1:]}" for key, value in _FLIPPED.items() if key[0] == "u"}
_REDUCTIONS = {"b": "|", "r|": "|", "r&": "&", "r^": "^"}
_DIVISIONS = {"u//": "/", "u%": "%"}


class Printer:
    """Expressions of a circuit's nets."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.localparams: dict[str, str] = {}
        self.read: set[str] = set()
        self._kept: dict[CellBits, Expression] = {}
        self._is_in_sum = False

    def definition(self, variable: Variable) -> str:
        """Return what a wire is assigned."""
        width = variable.width
        if variable.cell is None:
            return self.assigned(variable.nets, variable)
        expression = self.cell(variable.cell, 0, width, is_definition=True)
        context = max(width, expression.width)
        if context >= expression.low and (context <= expression.high or expression.wraps):
            return expression.text
        raise NeedsWire(variable.cell)

    def assigned(self, nets: Nets, within: Variable | None = None) -> str:
        """Bits as the right side of an assignment to as many."""
        expression = self.value(nets, within)
        width = len(nets)
        context = max(width, expression.width)
        if context >= expression.low and (context <= expression.high or expression.wraps):
            return expression.text
        return self.exact(nets)

    # Values

    def value(self, nets: Nets, within: Variable | None = None) -> Expression:
        """Any bits; in a context of their number, or one that `Expression` allows."""
        width = len(nets)
        if all(net < 2 for net in nets):
            return Expression(literal(nets), ATOM, width, width)
        chunks = self.circuit.chunks(nets, within)
        last = chunks[-1]
        if isinstance(last, Constant) and len(chunks) > 1:
            zeros = _zeros(last.bits)
            if zeros:
                # Without zeros in front, where the context adds them.
                kept = last.bits[: len(last.bits) - zeros]
                start = [*chunks[:-1], *([Constant(kept)] if kept else [])]
                inner = self._together(start, width - zeros)
                if inner.high >= width:
                    return inner
        return self._together(chunks, width)

    def _together(self, chunks: Sequence[Chunk], width: int) -> Expression:
        if len(chunks) == 1:
            return self.chunk(chunks[0])
        return self._scattered(chunks, width) or Expression(
            self._joined(chunks), ATOM, width, width
        )

    def _scattered(self, chunks: Sequence[Chunk], width: int) -> Expression | None:
        """Bits here and there of one variable, all moved as far, between constants; else None."""
        slices = [chunk for chunk in chunks if isinstance(chunk, Slice)]
        constants = sum(isinstance(chunk, Constant) for chunk in chunks)
        if len(slices) < FEWEST_MASKED or len(slices) + constants < len(chunks):
            return None
        variable, moved, place = slices[0].variable, set(), 0
        mask: list[int] = []
        ones: list[int] = []
        for chunk in chunks:
            if isinstance(chunk, Slice):
                moved.add((chunk.variable.name, place - chunk.low))
            place += _size(chunk)
            mask += [int(isinstance(chunk, Slice))] * _size(chunk)
            ones += chunk.bits if isinstance(chunk, Constant) else [0] * _size(chunk)
        if len(moved) > 1 or variable.width > width:
            return None
        self.read.add(variable.name)
        ((_, by),) = moved
        shift = f"({variable.name} {'<<' if by > 0 else '>>'} {abs(by)})"
        text = f"{shift if by else variable.name} & {literal(tuple(mask))}"
        if any(ones):
            return Expression(f"({text}) | {literal(tuple(ones))}", OR, width, width)
        return Expression(text, AND, width, width)

    def exact(self, nets: Nets) -> str:
        """Bits where Verilog takes a text's own width: in a concatenation, for example."""
        expression = self.value(nets)
        if expression.width == len(nets) and expression.low <= len(nets):
            return expression.text
        chunks = self.circuit.chunks(nets)
        if len(chunks) == 1 and isinstance(chunks[0], CellBits):
            raise NeedsWire(chunks[0].cell)
        return self._joined(chunks)

    def parts(self, nets: Nets, within: Variable | None = None) -> list[tuple[int, int, str]]:
        """Place, width and text of what a concatenation of bits consists of, the lowest first."""
        found: list[tuple[int, int, str]] = []
        place = 0
        for chunk in self.circuit.chunks(nets, within):
            found.append((place, _size(chunk), self._part_text(chunk)))
            place += _size(chunk)
        return found

    def _part_text(self, chunk: Chunk) -> str:
        expression = self.chunk(chunk)
        size = _size(chunk)
        if expression.width != size or not expression.low <= size <= expression.high:
            assert isinstance(chunk, CellBits)
            raise NeedsWire(chunk.cell)
        return expression.text

    def _joined(self, chunks: Sequence[Chunk]) -> str:
        parts: list[tuple[str, int]] = []
        for chunk in chunks:
            text = self._part_text(chunk)
            if parts and parts[-1][0] == text:
                parts[-1] = (text, parts[-1][1] + 1)
            else:
                parts.append((text, 1))
        texts = [text if times == 1 else f"{{{times}{{{text}}}}}" for text, times in parts]
        if len(texts) == 1:
            return texts[0]
        return "{" + ", ".join(reversed(texts)) + "}"

    def chunk(self, chunk: Chunk) -> Expression:
        width = _size(chunk)
        match chunk:
            case Constant(bits):
                return Expression(literal(bits), ATOM, width, width)
            case Slice(variable, low, high):
                self.read.add(variable.name)
                return Expression(sliced(variable, low, high), ATOM, width, width)
            case CellBits(cell, low, high):
                is_term, self._is_in_sum = self._is_in_sum, False
                if chunk not in self._kept:
                    found = self.cell(cell, low, high)
                    if len(found.text) > (LONGEST_SUM if is_term and found.is_sum else LONGEST):
                        raise NeedsWire(cell)
                    self._kept[chunk] = found
                return self._kept[chunk]

    def _needs_wire(self, nets: Nets) -> NeedsWire:
        """The first part of a value that has no name needs one; if all have, the whole does."""
        for chunk in self.circuit.chunks(nets):
            if isinstance(chunk, CellBits):
                return NeedsWire(chunk.cell)
        return NeedsWire(nets=nets)

    def condition(self, net: int) -> Expression:
        return self.value((net,))

    # Cells

    def cell(self, index: int, low: int, high: int, *, is_definition: bool = False) -> Expression:
        """Bits of a cell's output, from what it reads.

        A definition may be wider than its bits: the assignment takes the low ones.
        """
        cell = self.circuit.cells[index]
        match cell:
            case _nir.Operator():
                return self._operator(index, cell, low, high, is_definition)
            case _nir.Part():
                if low:
                    raise NeedsWire(index)
                return self._part(index, cell, high, is_definition)
            case _nir.AssignmentList():
                value = value_of(self.circuit, index, low, high)
                if value is None:
                    raise NeedsWire(index)
                return self.choice(value, high - low)
            case _nir.AsyncReadPort():
                if (low, high) != (0, cell.width):
                    raise NeedsWire(index)
                name = self.circuit.cells[cell.memory].name
                address = self._index(cell.addr)
                return Expression(f"{name}[{address}]", ATOM, cell.width, cell.width)
        raise UnsupportedCell(f"{type(cell).__name__} in an expression")

    def _index(self, nets: Nets) -> str:
        return self.exact(nets)

    def _operator(
        self, index: int, cell: Any, low: int, high: int, is_definition: bool
    ) -> Expression:
        operator, inputs, width = cell.operator, cell.inputs, high - low
        if operator == "m":
            test, yes, no = inputs
            return self.choice(Choice(((Bit(test[0], True), yes[low:high]),), no[low:high]), width)
        if operator in ("~", "&", "|", "^"):
            return self._bitwise(operator, [value[low:high] for value in inputs])
        if operator in ("+", "-", "*", "<<"):
            if low:
                raise NeedsWire(index)
            return self._arithmetic(index, operator, inputs, high)
        if operator in _REDUCTIONS:
            return self._reduction(index, operator, inputs[0])
        if operator in _FLIPPED:
            return self._comparison(index, operator, *inputs)
        if operator in ("u>>", "s>>", "u//", "u%"):
            if low or (high < cell.width and not is_definition):
                raise NeedsWire(index)
            return self._plain(index, operator, inputs)
        raise UnsupportedCell(f"operator {operator} has no Verilog here")

    def _bitwise(self, operator: str, inputs: list[Nets]) -> Expression:
        width = len(inputs[0])
        if operator == "~":
            if width == 1:
                return self.negated(inputs[0][0])
            inner = self.value(inputs[0])
            return Expression(
                f"~{inner.within(UNARY)}", UNARY, inner.width, width, width, _wraps(inner)
            )
        left, right = (self.value(value) for value in inputs)
        if width == 1 and operator in "&|":
            rank = BOTH if operator == "&" else EITHER
            return _logic(operator * 2, rank, left, right)
        rank = {"&": AND, "|": OR, "^": XOR}[operator]
        text = f"{left.within(rank - 1)} {operator} {_clear(right, rank)}"
        return Expression(
            text,
            rank,
            max(left.width, right.width),
            max(left.low, right.low),
            min(left.high, right.high),
            _wraps(left) and _wraps(right),
        )

    def negated(self, net: int) -> Expression:
        """The opposite of a bit."""
        if net < 2:
            return Expression(literal((1 - net,)), ATOM, 1, 1)
        (chunk,) = self.circuit.chunks((net,))
        if isinstance(chunk, CellBits):
            cell = self.circuit.cells[chunk.cell]
            if isinstance(cell, _nir.Operator):
                if cell.operator == "~":
                    return self.value((cell.inputs[0][chunk.low],))
                if cell.operator in _FLIPPED:
                    return self._comparison(chunk.cell, _FLIPPED[cell.operator], *cell.inputs)
                if cell.operator in ("b", "r|") and len(cell.inputs[0]) > 1:
                    return self._comparison(
                        chunk.cell, "==", cell.inputs[0], (0,) * len(cell.inputs[0])
                    )
        inner = self.chunk(chunk)
        return Expression(f"!{inner.within(UNARY)}", UNARY, 1, 1)

    def _arithmetic(
        self, index: int, operator: str, inputs: tuple[Nets, ...], width: int
    ) -> Expression:
        if len(inputs) == 1:
            inner = self.value(inputs[0][:width])
            text = f"-{inner.within(UNARY)}"
            return Expression(text, UNARY, inner.width, width, width, _wraps(inner))
        if operator == "<<":
            left = self.value(inputs[0][:width])
            amount = inputs[1]
            zeros = _zeros(inputs[0][:width])
            fits = len(amount) < 16 and zeros >= (1 << len(amount)) - 1
            text = f"{left.within(SHIFT - 1)} << {clear_text(self.exact(amount))}"
            return Expression(
                text, SHIFT, left.width, width, left.high if fits else width, _wraps(left)
            )
        terms = []
        for value in inputs:
            self._is_in_sum = operator == "+"
            terms.append(self.value(value[:width]))
        self._is_in_sum = False
        left, right = terms
        rank = TIMES if operator == "*" else PLUS
        spare = [_zeros(value[:width]) for value in inputs]
        high: float = width
        if operator == "+" and min(spare) >= 1:
            high = min(left.high, right.high)
        if operator == "*" and sum(spare) >= width:
            high = min(left.high, right.high)
        is_sum = operator == "+" and all(
            term.is_sum or width - zeros == 1 for term, zeros in zip(terms, spare, strict=True)
        )
        if len(left.text) + len(right.text) > (LONGEST_SUM if is_sum else LONGEST):
            longer = inputs[len(right.text) > len(left.text)][:width]
            raise self._needs_wire(longer)
        # All are added in the same width, in whatever order.
        second = right.text if is_sum and right.is_sum else right.within(rank)
        return Expression(
            f"{_level(left, rank)} {operator} {second}",
            rank,
            max(left.width, right.width),
            width,
            high,
            _wraps(left) and _wraps(right),
            is_sum,
        )

    def _reduction(self, index: int, operator: str, nets: Nets) -> Expression:
        if len(nets) == 1:
            return self.value(nets)
        chunks = self.circuit.chunks(nets)
        if operator in ("b", "r|"):
            if len(chunks) > 1 and len(nets) <= 4 and all(_size(chunk) == 1 for chunk in chunks):
                return self._series("||", EITHER, chunks)
            return self._comparison(index, "!=", nets, (0,) * len(nets))
        few = len(chunks) > 1 and len(nets) <= 4 and all(_size(chunk) == 1 for chunk in chunks)
        if operator == "r&" and few:
            return self._series("&&", BOTH, chunks)
        text = self._masked(chunks) if operator == "r^" else ""
        text = text or self.exact(nets)
        if len(text) > LONGEST:
            raise NeedsWire(nets=nets)
        inner = text if _is_atom(text) else f"({text})"
        return Expression(f"{_REDUCTIONS[operator]}{inner}", UNARY, 1, 1)

    def _masked(self, chunks: Sequence[Chunk]) -> str:
        """Some bits of one variable, with zeros between them; empty if they are of several."""
        slices = [chunk for chunk in chunks if isinstance(chunk, Slice)]
        variable = slices[0].variable if slices else None
        if len(slices) < FEWEST_MASKED or len(slices) < len(chunks) or variable is None:
            return ""
        mask = [0] * variable.width
        for chunk in slices:
            if chunk.variable is not variable or any(mask[chunk.low : chunk.high]):
                return ""
            mask[chunk.low : chunk.high] = [1] * (chunk.high - chunk.low)
        self.read.add(variable.name)
        return f"{variable.name} & {literal(tuple(mask))}"

    def _series(self, operator: str, rank: int, chunks: Sequence[Chunk]) -> Expression:
        found = self.chunk(chunks[0])
        for chunk in chunks[1:]:
            found = _logic(operator, rank, found, self.chunk(chunk))
        return found

    def _comparison(self, index: int, operator: str, left: Nets, right: Nets) -> Expression:
        if operator[0] == "s":
            left, right = _unsigned_start(left), _unsigned_start(right)
            a, b = (f"$signed({self.exact(value)})" for value in (left, right))
            return Expression(f"{a} {operator[1:]} {b}", LESS, 1, 1)
        sign = operator.removeprefix("u")
        state = self._state_comparison(sign, left, right)
        if state is not None:
            return state
        both = [self.value(left), self.value(right)]
        context = max(both[0].width, both[1].width)
        needed = max(both[0].low, both[1].low, context)
        for place, nets in enumerate((left, right)):
            if all(net < 2 for net in nets):
                # As wide as the other side is.
                other = both[1 - place]
                least = max(1, max((k + 1 for k, net in enumerate(nets) if net), default=1))
                size = max(int(other.low), other.width, least)
                both[place] = Expression(literal(nets[:size]), ATOM, size, size)
        context = max(both[0].width, both[1].width)
        needed = max(both[0].low, both[1].low)
        if needed > context:
            for place in (0, 1):
                if both[place].low <= both[place].width:
                    padded = f"{{{int(needed) - both[place].width}'d0, {both[place].text}}}"
                    both[place] = Expression(padded, ATOM, int(needed), needed)
                    break
            context = max(both[0].width, both[1].width)
        for expression, nets in zip(both, (left, right), strict=True):
            if not expression.low <= context <= expression.high:
                raise self._needs_wire(nets)
        rank = EQUAL if sign in ("==", "!=") else LESS
        text = f"{both[0].within(rank)} {sign} {both[1].within(rank)}"
        return Expression(text, rank, 1, 1)

    def _state_comparison(self, sign: str, left: Nets, right: Nets) -> Expression | None:
        if sign not in ("==", "!=") or not all(net < 2 for net in right):
            return None
        width = len(right)
        while (
            left not in self.circuit.states and left and left[-1] == 0 and not right[len(left) - 1]
        ):
            left, width = left[:-1], width - 1
        name = self.state_name(left, right[:width])
        if name is None:
            return None
        return Expression(f"{self.exact(left)} {sign} {name}", EQUAL, 1, 1)

    def state_name(self, variable: Nets, value: Nets) -> str | None:
        """The local parameter of a state machine's state; None if `variable` is no such state."""
        states = self.circuit.states.get(variable)
        if states is None or not all(net < 2 for net in value):
            return None
        number = sum(bit << place for place, bit in enumerate(value))
        if number not in states:
            return None
        (chunk, *_) = self.circuit.chunks(variable)
        if not isinstance(chunk, Slice):
            return None
        name = f"{chunk.variable.name}_{states[number]}".upper()
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
        span = f" [{len(value) - 1}:0]" if len(value) > 1 else ""
        self.localparams[name] = f"localparam{span} {name} = {literal(value)};"
        return name

    def _plain(self, index: int, operator: str, inputs: tuple[Nets, Nets]) -> Expression:
        width = len(inputs[0])
        if operator == "s>>":
            # Beside an unsigned operand the shift would be a logical one.
            inner = f"$signed({self.exact(inputs[0])}) >>> {clear_text(self.exact(inputs[1]))}"
            return Expression(f"$unsigned({inner})", ATOM, width, width)
        left = self.value(inputs[0])
        if operator == "u>>":
            amount = clear_text(self.exact(inputs[1]))
            text = f"{left.within(SHIFT - 1)} >> {amount}"
            wraps = left.high == INFINITE
            return Expression(text, SHIFT, left.width, left.low, left.high, wraps)
        right = self.value(inputs[1])
        if not all(net < 2 for net in inputs[1]):
            raise UnsupportedCell("division by what is not constant")
        text = f"{left.within(TIMES - 1)} {_DIVISIONS[operator]} {right.within(TIMES)}"
        if left.high < INFINITE:
            raise self._needs_wire(inputs[0])
        return Expression(text, TIMES, max(left.width, right.width), width)

    def _part(self, index: int, cell: Any, width: int, is_definition: bool) -> Expression:
        value, offset = cell.value, cell.offset
        if len(offset) > 32:
            raise UnsupportedCell("an offset of more than 32 bits")
        significant = len(offset) - _zeros(offset)
        last = ((1 << significant) - 1) * cell.stride + cell.width
        place = self._times(offset, cell.stride)
        if last <= len(value):
            chunks = self.circuit.chunks(value[:last])
            (first, *others) = chunks
            if others or not isinstance(first, Slice):
                if not others and isinstance(first, CellBits):
                    raise NeedsWire(first.cell)
                raise NeedsWire(nets=value[:last])
            base = f"{first.low} + " if first.low else ""
            name = first.variable.name
            if first.variable.width == 1:
                return Expression(name, ATOM, 1, 1)
            if width == 1:
                return Expression(f"{name}[{base}{place}]", ATOM, 1, 1)
            return Expression(f"{name}[{base}{place} +: {width}]", ATOM, width, width)
        if cell.value_signed:
            raise UnsupportedCell("a signed part that reaches beyond its value")
        if width < len(value) and not is_definition:
            raise NeedsWire(index)
        shifted = self.exact(value)
        text = f"{shifted if _is_atom(shifted) else f'({shifted})'} >> {place}"
        return Expression(text, SHIFT, len(value), len(value))

    def _times(self, offset: Nets, stride: int) -> str:
        """An offset in bits, in as many bits as it takes."""
        if stride == 1:
            return self.exact(offset) if _is_atom(self.exact(offset)) else f"({self.exact(offset)})"
        if stride & (stride - 1) == 0:
            zeros = stride.bit_length() - 1
            return self.exact((*((0,) * zeros), *offset))
        size = len(offset) + stride.bit_length()
        text = self.value(offset).within(TIMES)
        return f"({text} * {size}'d{stride})"

    # Choices

    def choice(self, value: Value, width: int) -> Expression:
        """A value that depends on conditions, as `?:`; of a bit as `&&` and `||` where one can."""
        if isinstance(value, tuple):
            return self.value(value)
        if width == 1:
            logic = self._choice_of_bits(value)
            if logic is not None:
                return logic
        texts = []
        found: list[Expression] = []
        for condition, arm in value.arms:
            expression = self.choice(arm, width)
            found.append(expression)
            test = self.test(condition)
            inner = expression.within(CHOICE) if isinstance(arm, Choice) else expression.within(0)
            texts.append(f"{test.within(CHOICE)} ? {inner} : ")
        last = self.choice(value.otherwise, width)
        found.append(last)
        text = "".join(texts) + last.within(0)
        return Expression(
            text,
            CHOICE,
            max(e.width for e in found),
            max(e.low for e in found),
            min(e.high for e in found),
            all(_wraps(e) for e in found),
        )

    def _choice_of_bits(self, value: Choice) -> Expression | None:
        if len(value.arms) != 1:
            return None
        ((condition, arm),) = value.arms
        otherwise = value.otherwise
        if arm == (1,) and otherwise == (0,):
            return self.test(condition)
        if arm == (0,) and otherwise == (1,):
            return self.opposite(condition)
        if otherwise == (0,):
            return _logic("&&", BOTH, self.test(condition), self.choice(arm, 1))
        if arm == (1,):
            return _logic("||", EITHER, self.test(condition), self.choice(otherwise, 1))
        if arm == (0,):
            return _logic("&&", BOTH, self.opposite(condition), self.choice(otherwise, 1))
        if otherwise == (1,):
            return _logic("||", EITHER, self.opposite(condition), self.choice(arm, 1))
        return None

    def test(self, condition: Condition) -> Expression:
        """A condition of an `if`."""
        if isinstance(condition, Bit):
            if condition.is_one:
                return self.condition(condition.net)
            return self.negated(condition.net)
        return self._any_of(condition, "==", "||", EITHER)

    def opposite(self, condition: Condition) -> Expression:
        if isinstance(condition, Bit):
            return self.test(Bit(condition.net, not condition.is_one))
        return self._any_of(condition, "!=", "&&", BOTH)

    def _any_of(self, match: Match, sign: str, joint: str, rank: int) -> Expression:
        found: Expression | None = None
        for pattern in match.patterns:
            bits = tuple(int(character) for character in reversed(pattern))
            one = self._comparison(-1, sign, match.value, bits)
            found = one if found is None else _logic(joint, rank, found, one)
        assert found is not None
        return found


def sliced(variable: Variable, low: int, high: int) -> str:
    if variable.width == high - low:
        return variable.name
    if high - low == 1:
        return f"{variable.name}[{low}]"
    return f"{variable.name}[{high - 1}:{low}]"


def _size(chunk: Chunk) -> int:
    return len(chunk.bits) if isinstance(chunk, Constant) else chunk.high - chunk.low


def _wraps(expression: Expression) -> bool:
    return expression.wraps or expression.high == INFINITE


def _zeros(nets: Nets) -> int:
    """Zeros at the top."""
    count = 0
    while count < len(nets) and nets[len(nets) - 1 - count] == 0:
        count += 1
    return count


def _unsigned_start(nets: Nets) -> Nets:
    """Without copies of the sign."""
    while len(nets) > 1 and nets[-1] == nets[-2]:
        nets = nets[:-1]
    return nets


def _is_atom(text: str) -> bool:
    return (
        text.replace("_", "").isalnum()
        or (text[0] == "{" and text[-1] == "}")
        or (text[-1] == "]" and text.partition("[")[0].replace("_", "").isalnum())
    )


def clear_text(text: str) -> str:
    """A text in parentheses unless it needs none, whatever is around it."""
    return text if _is_atom(text) or ("'" in text and " " not in text) else f"({text})"


def _level(expression: Expression, rank: int) -> str:
    """The left operand: operators of one level are evaluated from the left."""
    return expression.text if expression.rank >= rank else f"({expression.text})"


def _clear(expression: Expression, rank: int) -> str:
    return expression.within(rank)


def _logic(operator: str, rank: int, left: Expression, right: Expression) -> Expression:
    def side(expression: Expression) -> str:
        # Same operators need no parentheses; of && in || people are not sure.
        return (
            expression.text
            if expression.rank == rank or expression.rank > BOTH
            else (f"({expression.text})")
        )

    return Expression(f"{side(left)} {operator} {side(right)}", rank, 1, 1)
