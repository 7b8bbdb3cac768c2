"""Amaranth's values and statements as Python source.

Every expression gives an integer within the range of its value's shape, so that only an assignment
to fewer bits needs a mask. A signal's state is `v[index]`; in the source it stands between marks
(`MARK`), as long as it is not known how often a process reads it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, ResetSignal, Signal, Value
from amaranth.hdl._ast import (
    Assign,
    Concat,
    Operator,
    Part,
    Print,
    Property,
    Slice,
    Switch,
    SwitchValue,
)
from amaranth.hdl._cd import DomainError
from amaranth.sim._pyeval import value_to_string
from amaranth.sim._pyrtl import pin_blame

MARK = "\0"
SPLIT_AT = 1000
"""Longer expressions get a variable: Python's parser has a limit, and they may be used twice."""
INFINITE = 1 << 30
"""The width of what must be masked when it is assigned."""

KINDS = {Property.Kind.Assert: "Assertion", Property.Kind.Assume: "Assumption"}

Expression = tuple[str, int, bool]
"""Source, width, signedness."""
Handler = Callable[[Any], None]


def ones(width: int) -> int:
    return (1 << width) - 1


HELPERS = {
    "divide": lambda a, b: a // b if b else 0,
    "modulo": lambda a, b: a % b if b else 0,
    "value_to_string": value_to_string,
    "pin_blame": pin_blame,
}


def unified(shapes: Sequence[tuple[int, bool]]) -> tuple[int, bool]:
    """As `Shape._unify`."""
    signed = any(sign for _, sign in shapes)
    return max((width + (signed and not sign) for width, sign in shapes), default=0), signed


def wire(value: Value) -> tuple[Signal, int] | None:
    """The signal and the first bit that a slice of a slice ... stands for."""
    start = 0
    while type(value) is Slice:
        start += value.start
        value = value.value
    return (value, start) if type(value) is Signal else None


def only_bit(pattern: str) -> int | None:
    """Position of the only bit that a pattern of one 1 and don't-cares looks at, else None."""
    if pattern.count("1") == 1 and pattern.count("-") == len(pattern) - 1:
        return len(pattern) - 1 - pattern.index("1")
    return None


def condition(test: str, patterns: tuple[str, ...]) -> str:
    """That a test matches one of the patterns."""
    checks = []
    for pattern in patterns:
        mask = int("0" + "".join("0" if bit == "-" else "1" for bit in pattern), 2)
        value = int("0" + pattern.replace("-", "0"), 2)
        if "-" in pattern:
            checks.append(f"{test} & {mask} == {value}")
        else:
            checks.append(f"{test} == {value}")
    return " or ".join(checks) or "False"


class Body:
    """The source of one process, as it grows."""

    def __init__(
        self, index_of: Callable[[Signal], int], domains: Mapping[str, ClockDomain]
    ) -> None:
        self.index_of = index_of
        self.domains = domains
        self.inputs: set[int] = set()
        self.lines: list[str] = []
        self._indent = " "
        self._names = 0
        self._known: dict[int, Expression] = {}

    def line(self, text: str) -> None:
        self.lines.append(self._indent + text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._indent += " "
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._indent = self._indent[:-1]

    def variable(self, code: str) -> str:
        self._names += 1
        self.line(f"t{self._names} = {code}")
        return f"t{self._names}"

    # Right-hand sides.

    def read(self, value: Value) -> Expression:
        known = self._known.get(id(value))
        if known is not None:
            return known
        lines = len(self.lines)
        code, width, signed = self._READERS[type(value)](self, value)
        if len(code) > SPLIT_AT:
            code = self.variable(code)
        if len(self.lines) == lines:
            # It needs no variable, which might be set in another branch only.
            self._known[id(value)] = code, width, signed
        return code, width, signed

    def unsigned(self, value: Value) -> str:
        code, width, signed = self.read(value)
        return f"({code} & {ones(width)})" if signed else code

    def _const(self, value: Const) -> Expression:
        shape = value.shape()
        code = str(value.value) if value.value >= 0 else f"({value.value})"
        return code, shape.width, shape.signed

    def _signal(self, value: Signal) -> Expression:
        index = self.index_of(value)
        self.inputs.add(index)
        shape = value.shape()
        return f"{MARK}{index}{MARK}", len(value), bool(getattr(shape, "signed", False))

    def _clock(self, value: ClockSignal) -> Expression:
        return self.read(self.domains[value.domain].clk)

    def _reset(self, value: ResetSignal) -> Expression:
        reset = self.domains[value.domain].rst
        if reset is None and not value.allow_reset_less:
            raise DomainError(f"{value!r} refers to reset of a reset-less domain")
        return ("0", 1, False) if reset is None else self.read(reset)

    def _slice(self, value: Slice) -> Expression:
        found = wire(value)
        width = value.stop - value.start
        code, inner, signed = self.read(value.value if found is None else found[0])
        start = value.start if found is None else found[1]
        if width == 0:
            return "0", 0, False
        whole = start + width == inner and not signed
        shifted = f"{code} >> {start}" if start else code
        if whole:
            return f"({shifted})" if start else code, width, False
        return f"({shifted} & {ones(width)})", width, False

    def _part(self, value: Part) -> Expression:
        inner, _, _ = self.read(value.value)
        return f"({inner} >> {self._offset(value)} & {ones(value.width)})", value.width, False

    def _offset(self, value: Part) -> str:
        offset = self.unsigned(value.offset)
        return offset if value.stride == 1 else f"({offset} * {value.stride})"

    def _concat(self, value: Concat) -> Expression:
        parts = value.parts
        width = sum(len(part) for part in parts)
        if len(parts) > 1 and all(part is parts[0] for part in parts):
            step = len(parts[0])
            times = sum(1 << step * k for k in range(len(parts)))
            return f"({self.unsigned(parts[0])} * {times})", width, False
        codes = []
        offset = 0
        for part in parts:
            code = self.unsigned(part)
            if code != "0":
                codes.append(f"{code} << {offset}" if offset else code)
            offset += len(part)
        return f"({' | '.join(codes)})" if codes else "0", width, False

    def _switch_value(self, value: SwitchValue) -> Expression:
        shapes = [value.shape()]
        width, signed = shapes[0].width, shapes[0].signed
        cases = value.cases
        table = self._table(value)
        if table is not None:
            return f"{table}[{self.unsigned(value.test)}]", width, signed
        if len(cases) <= 8:
            test = self.unsigned(value.test)
            checks = [patterns for patterns, _ in cases if patterns is not None]
            if len(test) > 12 and len(checks) > 1:
                test = self.variable(test)
            # Cases after one that always holds are never reached.
            parts, otherwise = [], "0"
            for patterns, element in cases:
                code = self.read(element)[0]
                if patterns is None:
                    otherwise = code
                    break
                parts.append(f"{code} if {self._condition(value.test, test, patterns)} else ")
            return f"({''.join(parts)}{otherwise})", width, signed
        result = self.variable("0")
        self._switch(
            value.test,
            [(patterns, element) for patterns, element in cases],
            lambda element: self.line(f"{result} = {self.read(element)[0]}"),
        )
        return result, width, signed

    @staticmethod
    def _table(value: SwitchValue) -> str | None:
        """A choice among constants, as a tuple."""
        if len(value.test) > 10 or len(value.cases) < 4:
            return None
        entries: list[int | None] = [None] * (1 << len(value.test))
        for patterns, element in value.cases:
            if type(element) is not Const:
                return None
            if patterns is None:
                entries = [element.value if entry is None else entry for entry in entries]
                continue
            for pattern in patterns:
                if "-" in pattern:
                    return None
                index = int("0" + pattern, 2)
                if entries[index] is None:
                    entries[index] = element.value
        return f"({', '.join(str(entry or 0) for entry in entries)},)"

    @staticmethod
    def _condition(test: Value, code: str, patterns: tuple[str, ...]) -> str:
        if len(test) == 1 and len(patterns) == 1 and patterns[0] in ("0", "1"):
            return code if patterns[0] == "1" else f"not {code}"
        return f"({condition(code, patterns)})"

    def _operator(self, value: Operator) -> Expression:
        operands = value.operands
        operator = value.operator
        if len(operands) == 1:
            return self._unary(operator, operands[0])
        a, a_width, a_signed = self.read(operands[0])
        b, b_width, b_signed = self.read(operands[1])
        both_width, both_signed = unified([(a_width, a_signed), (b_width, b_signed)])
        if operator in ("//", "%"):
            name = "divide" if operator == "//" else "modulo"
            if operator == "//":
                return f"{name}({a}, {b})", a_width + b_signed, a_signed or b_signed
            return f"{name}({a}, {b})", b_width, b_signed
        code = f"({a} {operator} {b})"
        match operator:
            case "+":
                return code, both_width + 1, both_signed
            case "-":
                return code, both_width + 1, True
            case "*":
                return code, a_width + b_width, a_signed or b_signed
            case "<" | "<=" | "==" | "!=" | ">" | ">=":
                return code, 1, False
            case "&" | "|" | "^":
                return code, both_width, both_signed
            case "<<":
                return code, a_width + ones(b_width), a_signed
            case ">>":
                return code, a_width, a_signed
        raise NotImplementedError(operator)

    def _unary(self, operator: str, operand: Value) -> Expression:
        if operator == "r^":
            return self._parity(operand), 1, False
        code, width, signed = self.read(operand)
        match operator:
            case "+":
                return code, width, signed
            case "~":
                return (f"(~{code})" if signed else f"({code} ^ {ones(width)})"), width, signed
            case "-":
                return f"(-{code})", width + 1, True
            case "b" | "r|":
                return (code if (width, signed) == (1, False) else f"({code} != 0)"), 1, False
            case "r&":
                return f"({code} == {-1 if signed and width else ones(width)})", 1, False
            case "u":
                return (f"({code} & {ones(width)})" if signed else code), width, False
            case "s":
                if signed or not width:
                    return code, width, True
                top = 1 << (width - 1)
                return f"(({code} ^ {top}) - {top})", width, True
        raise NotImplementedError(operator)

    def _parity(self, value: Value) -> str:
        """Bits of one signal are masked together: a checksum has thousands of them."""
        if type(value) is not Concat:
            return f"(({self.unsigned(value)}).bit_count() & 1)"
        masks: dict[int, tuple[Signal, int]] = {}
        codes = []
        for part in value.parts:
            found = wire(part)
            if found is None:
                codes.append(f"({self.unsigned(part)}).bit_count()")
            else:
                signal, start = found
                _, mask = masks.get(id(signal), (signal, 0))
                masks[id(signal)] = signal, mask ^ (ones(len(part)) << start)
        for signal, mask in masks.values():
            codes.append(f"({self.read(signal)[0]} & {mask}).bit_count()")
        return f"({' + '.join(codes)} & 1)" if codes else "0"

    _READERS = {
        Const: _const,
        Signal: _signal,
        Slice: _slice,
        Part: _part,
        Concat: _concat,
        SwitchValue: _switch_value,
        Operator: _operator,
        ClockSignal: _clock,
        ResetSignal: _reset,
    }

    # Left-hand sides. What a process assigns to signal k is n<k>.

    def _read_next(self, target: Value) -> str:
        """The value that the process has assigned so far, as bits."""
        kind = type(target)
        if kind is Signal:
            return f"n{self.index_of(target)}"
        if kind is Operator:
            return self._read_next(target.operands[0])
        if kind is Slice:
            mask = ones(target.stop - target.start)
            return f"({self._read_next(target.value)} >> {target.start} & {mask})"
        if kind is Part:
            inner = self._read_next(target.value)
            return f"({inner} >> {self._offset(target)} & {ones(target.width)})"
        if kind is Concat:
            codes, offset = [], 0
            for part in target.parts:
                codes.append(f"({self._read_next(part)} & {ones(len(part))}) << {offset}")
                offset += len(part)
            return f"({' | '.join(codes) or 0})"
        if kind is SwitchValue:
            result = self.variable("0")
            self._switch(
                target.test,
                list(target.cases),
                lambda element: self.line(f"{result} = {self._read_next(element)}"),
            )
            return result
        raise TypeError(f"{target!r} cannot be assigned")

    def assign(self, target: Value, code: str, width: int, signed: bool) -> None:
        kind = type(target)
        if kind is Signal:
            self._assign_signal(target, code, width, signed)
        elif kind is Operator:
            self.assign(target.operands[0], code, INFINITE, True)
        elif kind is Slice:
            size = target.stop - target.start
            new = code if not signed and width <= size else f"({code} & {ones(size)})"
            kept = f"{self._read_next(target.value)} & {~(ones(size) << target.start)}"
            inner = target.value
            exact = type(inner) in (Slice, Part, Concat) or (
                type(inner) is Signal and not inner.shape().signed
            )
            shape = (len(inner), False) if exact else (INFINITE, True)
            self.assign(inner, f"({kept} | {new} << {target.start})", *shape)
        elif kind is Part:
            offset = self.variable(self._offset(target))
            kept = f"{self._read_next(target.value)} & ~({ones(target.width)} << {offset})"
            new = f"({code} & {ones(target.width)}) << {offset}"
            self.assign(target.value, f"({kept} | {new})", INFINITE, True)
        elif kind is Concat:
            whole = self.variable(code)
            offset = 0
            for part in target.parts:
                self.assign(part, f"({whole} >> {offset} & {ones(len(part))})", len(part), False)
                offset += len(part)
        elif kind is SwitchValue:
            whole = self.variable(code)
            self._switch(
                target.test,
                list(target.cases),
                lambda element: self.assign(element, whole, width, signed),
            )
        else:
            raise TypeError(f"{target!r} cannot be assigned")

    def _assign_signal(self, target: Signal, code: str, width: int, signed: bool) -> None:
        size = len(target)
        if target.shape().signed:
            if not (width <= size if signed else width < size):
                top = 1 << size >> 1
                code = f"(({code} & {ones(size)}) ^ {top}) - {top}"
        elif signed or width > size:
            code = f"{code} & {ones(size)}"
        self.line(f"n{self.index_of(target)} = {code}")

    # Statements.

    def statement(self, statement: Any, *, assigns: bool, properties: bool) -> None:
        """One statement, or of it only what assigns or only what is checked or printed."""
        kind = type(statement)
        if kind is Assign:
            if assigns:
                self.assign(statement.lhs, *self.read(statement.rhs))
        elif kind is Switch:
            self._switch(
                statement.test,
                [(patterns, inner) for patterns, inner, _ in statement.cases],
                lambda inner: self._statements(inner, assigns, properties),
            )
        elif kind is Property:
            if properties:
                self._property(statement)
        elif kind is Print:
            if properties:
                self.line(f"print({self._format(statement.message)}, end='')")
        else:
            raise NotImplementedError(f"{statement!r}")

    def _statements(self, statements: Any, assigns: bool, properties: bool) -> None:
        for inner in statements:
            if (assigns and inner._lhs_signals()) or (properties and has_properties(inner)):
                self.statement(inner, assigns=assigns, properties=properties)

    def _switch(self, test: Value, cases: list[tuple[Any, Any]], handle: Handler) -> None:
        if not cases:
            return
        if cases[0][0] is None:
            handle(cases[0][1])
            return
        bits = self._tested_bits(test, cases)
        if bits is not None:
            checks = bits
        else:
            code = self.unsigned(test)
            if len(cases) > 1 and not code.isidentifier():
                code = self.variable(code)
            checks = [
                "" if patterns is None else self._condition(test, code, patterns)
                for patterns, _ in cases
            ]
        for k, (patterns, inner) in enumerate(cases):
            if patterns is None:
                self.line("else:")
            else:
                self.line(f"{'elif' if k else 'if'} {checks[k]}:")
            with self.indented():
                handle(inner)
            if patterns is None:
                return

    def _tested_bits(self, test: Value, cases: list[tuple[Any, Any]]) -> list[str] | None:
        """The conditions of `If` and `Elif`, each of which is one part of the test."""
        if type(test) is not Concat or any(len(part) != 1 for part in test.parts):
            return None
        checks = []
        for patterns, _ in cases:
            if patterns is None:
                checks.append("")
                continue
            bit = only_bit(patterns[0]) if len(patterns) == 1 else None
            if bit is None:
                return None
            checks.append(self.unsigned(test.parts[bit]))
        return checks

    def _format(self, message: Any) -> str:
        text, arguments = [], []
        for chunk in message._chunks:
            if isinstance(chunk, str):
                text.append(chunk.replace("{", "{{").replace("}", "}}"))
                continue
            value, spec = chunk
            code = self.read(value)[0]
            if spec.endswith("s"):
                spec, code = spec[:-1], f"value_to_string({code})"
            text.append(f"{{:{spec}}}")
            arguments.append(code)
        return f"{''.join(text)!r}.format({', '.join(arguments)})"

    def _property(self, statement: Property) -> None:
        if statement.kind == Property.Kind.Cover:
            return
        self.line(f"if not {self.read(statement.test)[0]}:")
        with self.indented():
            text = repr(f"{KINDS[statement.kind]} violated")
            if statement.message is not None:
                text = f"{text} + ': ' + {self._format(statement.message)}"
            self.line(f"pin_blame({statement.src_loc!r}, AssertionError({text}))")


def has_properties(statement: Any) -> bool:
    if type(statement) is Switch:
        return any(has_properties(inner) for _, body, _ in statement.cases for inner in body)
    return type(statement) in (Property, Print)


def granular(enable: Value, granularity: int) -> Value:
    """A bit of a write's enable for each bit of its data."""
    return Cat(bit.replicate(granularity) for bit in enable)
