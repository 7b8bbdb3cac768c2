"""Statements as the source had them: `if` and `case` trees of Amaranth's assignment lists.

An `AssignmentList` has conditions that are outputs of `PriorityMatch` cells, one for each `If` or
`Switch` of the source. Their nesting is the source's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cdma.hw.emit.writer.circuit import Circuit, Nets

MOST_VALUES = 4
"""Values that one expression chooses from; with more it is a statement."""


@dataclass(frozen=True)
class Bit:
    """A net that has to be 1, or 0."""

    net: int
    is_one: bool


@dataclass(frozen=True)
class Match:
    """A value that has to be as one of the patterns, which have '-' where any bit does."""

    value: Nets
    patterns: tuple[str, ...]


Condition = Bit | Match


@dataclass(frozen=True)
class Assign:
    """Bits of a list's output, from `start` up, get a value."""

    cell: int
    start: int
    value: Nets
    line: object = None


@dataclass
class Decision:
    """An `if` or a `case`: the statements of the first branch whose condition holds.

    A condition of None always holds.
    """

    cell: int
    branches: list[tuple[Condition | None, list["Statement"]]] = field(default_factory=list)


Statement = Assign | Decision


@dataclass(frozen=True)
class Choice:
    """An expression: the value of the first condition that holds, or the last."""

    arms: tuple[tuple[Condition, "Value"], ...]
    otherwise: "Value"


Value = Nets | Choice


def statements_of(circuit: Circuit, index: int) -> list[Statement]:
    """The statements of an assignment list, in order; they follow its default."""
    cell = circuit.cells[index]
    found: list[Statement] = []
    for assignment in cell.assignments:
        body = _branch(circuit, assignment.cond, found)
        body.append(Assign(index, assignment.start, assignment.value, assignment.src_loc))
    return found


def _branch(circuit: Circuit, condition: int, top: list[Statement]) -> list[Statement]:
    """The open statements under a condition's net, which are last in those around them."""
    if condition == 1:
        return top
    cell = circuit.cells[condition >> 16]
    around = _branch(circuit, cell.en, top)
    last = around[-1] if around else None
    bit = condition & 0xFFFF
    if not isinstance(last, Decision) or last.cell != condition >> 16 or _later(last, bit):
        last = Decision(
            condition >> 16, [(condition, []) for condition in _conditions(circuit, cell)]
        )
        around.append(last)
    return last.branches[bit][1]


def _later(decision: Decision, bit: int) -> bool:
    """Return whether a later branch has statements: branches are entered in their order."""
    return any(statements for _, statements in decision.branches[bit + 1 :])


def _conditions(circuit: Circuit, cell: object) -> list[Condition | None]:
    """A condition for each branch; bits if all are, as of an `If`."""
    matches: list[Condition | None] = []
    for net in cell.inputs:  # type: ignore[attr-defined]
        if net == 1:
            matches.append(None)
        else:
            test = circuit.cells[net >> 16]
            holds = any(not pattern.strip("-") for pattern in test.patterns)
            matches.append(None if holds else Match(test.value, test.patterns))
    as_bits = [_as_bit(match) if isinstance(match, Match) else None for match in matches]
    if all(b is not None or m is None for b, m in zip(as_bits, matches, strict=True)):
        return [*as_bits]
    return matches


def _as_bit(match: Match) -> Bit | None:
    if len(match.patterns) != 1:
        return None
    (pattern,) = match.patterns
    if len(pattern) - pattern.count("-") != 1:
        return None
    # A pattern's first character is the highest bit.
    place = next(k for k, character in enumerate(reversed(pattern)) if character != "-")
    return Bit(match.value[place], pattern[len(pattern) - 1 - place] == "1")


def value_of(
    circuit: Circuit, index: int, low: int, high: int, most: int = MOST_VALUES
) -> Value | None:
    """Bits of an assignment list's output as an expression; None if it is too long for one."""
    try:
        value = _after(
            statements_of(circuit, index), tuple(circuit.cells[index].default[low:high]), low, high
        )
    except _NoExpression:
        return None
    return value if _leaves(value) <= most else None


class _NoExpression(Exception):
    """Too many values, or bits of one that are not chosen together."""


def _leaves(value: Value) -> int:
    if isinstance(value, tuple):
        return 1
    return sum(_leaves(arm) for _, arm in value.arms) + _leaves(value.otherwise)


def _after(statements: Sequence[Statement], value: Value, low: int, high: int) -> Value:
    """Return what bits are after statements, if they were `value` before."""
    for statement in statements:
        if isinstance(statement, Assign):
            first, end = statement.start, statement.start + len(statement.value)
            if first >= high or end <= low:
                continue
            if first <= low and end >= high:
                value = statement.value[low - first : high - first]
            elif isinstance(value, tuple):
                bits = list(value)
                for bit in range(max(first, low), min(end, high)):
                    bits[bit - low] = statement.value[bit - first]
                value = tuple(bits)
            else:
                raise _NoExpression
        else:
            value = _chosen(statement, value, low, high)
        if _leaves(value) > 2 * MOST_VALUES:
            raise _NoExpression
    return value


def _chosen(decision: Decision, value: Value, low: int, high: int) -> Value:
    arms: list[tuple[Condition, Value]] = []
    otherwise = value
    for condition, statements in decision.branches:
        after = _after(statements, value, low, high)
        if condition is None:
            otherwise = after
            break
        if isinstance(condition, Match) and not condition.patterns:
            continue
        if isinstance(condition, Match) and any("-" in p for p in condition.patterns):
            raise _NoExpression
        arms.append((condition, after))
    while arms and arms[-1][1] == otherwise:
        arms.pop()
    if isinstance(otherwise, Choice) and arms:
        return Choice((*arms, *otherwise.arms), otherwise.otherwise)
    return Choice(tuple(arms), otherwise) if arms else otherwise
