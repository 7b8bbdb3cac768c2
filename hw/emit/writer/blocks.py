"""`always` blocks: registers and decisions, merged as the source had them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cdma.hw.emit.writer.circuit import Circuit, Nets, Variable
from cdma.hw.emit.writer.decisions import Assign, Bit, Condition, Decision, Match, Statement
from cdma.hw.emit.writer.expressions import EITHER, Expression, Printer, sliced

WIDEST = 84
"""Characters of what is written on one line, but for its indentation."""

LONGEST_TEST = 72
"""Characters of a condition that joins those of an `if` inside another."""

FEWEST_CASES = 3
"""Branches with statements from which on there is a `case`."""


@dataclass
class Target:
    """A variable that statements assign, with what it is before them (None: what it was)."""

    variable: Variable
    cell: int
    default: Nets | None
    statements: list[Statement]
    reset: Nets | None = None


@dataclass
class Block:
    """Targets whose statements are merged."""

    targets: list[Target] = field(default_factory=list)

    @property
    def decisions(self) -> set[int]:
        return {
            statement.cell
            for target in self.targets
            for statement in target.statements
            if isinstance(statement, Decision)
        }

    @property
    def statements(self) -> list[Statement]:
        found: list[Statement] = []
        for target in self.targets:
            merge(found, target.statements)
        return found


def merge(into: list[Statement], statements: Sequence[Statement]) -> None:
    """Put statements of another target among those there are, in their order."""
    position = 0
    for statement in statements:
        if isinstance(statement, Assign):
            into.insert(position, statement)
            position += 1
            continue
        for place in range(position, len(into)):
            other = into[place]
            if isinstance(other, Decision) and other.cell == statement.cell:
                for mine, theirs in zip(other.branches, statement.branches, strict=True):
                    merge(mine[1], theirs[1])
                position = place + 1
                break
        else:
            # Cells are made in the source's order.
            place = position
            while place < len(into):
                other = into[place]
                if isinstance(other, Decision) and other.cell > statement.cell:
                    break
                place += 1
            into.insert(place, copied(statement))
            position = place + 1


def copied(decision: Decision) -> Decision:
    """Branches of its own, so that merging leaves the original alone."""
    return Decision(
        decision.cell,
        [
            (condition, [s if isinstance(s, Assign) else copied(s) for s in statements])
            for condition, statements in decision.branches
        ],
    )


class BlockWriter:
    """The lines of statements."""

    def __init__(self, printer: Printer, variables: dict[int, Variable], sign: str) -> None:
        self.printer = printer
        self.variables = variables
        self.sign = sign

    @property
    def circuit(self) -> Circuit:
        return self.printer.circuit

    def assignment(self, variable: Variable, low: int, value: Nets) -> str:
        """`x <= y;`, or `=`."""
        target = sliced(variable, low, low + len(value))
        text = None
        if low == 0 and len(value) == variable.width:
            text = self.printer.state_name(variable.nets, value)
        return f"{target} {self.sign} {text or self.printer.assigned(value)};"

    def lines(self, statements: Iterable[Statement]) -> list[str]:
        found = []
        for statement in statements:
            if isinstance(statement, Assign):
                variable = self.variables[statement.cell]
                found.append(self.assignment(variable, statement.start, statement.value))
            else:
                found += self._decision(statement)
        return found

    def _decision(self, decision: Decision) -> list[str]:
        branches = [(condition, body) for condition, body in decision.branches]
        while branches and not branches[-1][1]:
            branches.pop()
        matches = [c for c, _ in branches if isinstance(c, Match)]
        nested = self._nested(decision)
        if nested is not None:
            return self._if(*nested)
        filled = sum(bool(body) for _, body in branches)
        if matches and (
            filled >= FEWEST_CASES or any("-" in p for m in matches for p in m.patterns)
        ):
            return self._case(branches, matches[0].value)
        return self._chain(branches)

    def _chain(self, branches: list[tuple[Condition | None, list[Statement]]]) -> list[str]:
        """`if`, `else if`, `else`."""
        lines: list[str] = []
        skipped: list[Expression] = []
        for place, (condition, body) in enumerate(branches):
            if isinstance(condition, Match) and not condition.patterns:
                continue
            if not body:
                if condition is not None:
                    skipped.append(self.printer.opposite(condition))
                continue
            if skipped:
                # None of those without statements holds.
                opening = f"if ({_all_of(skipped)})"
                inner = self._chain(branches[place:])
            elif condition is not None:
                opening, inner = f"if ({self.printer.test(condition).text})", self.lines(body)
            else:
                opening, inner = "", self.lines(body)
            if lines:
                opening = f"else {opening}".strip()
            if opening == "else" and is_one_if(inner):
                part = [f"else {inner[0]}", *inner[1:]]
            else:
                part = under(opening, inner) if opening else inner
            if lines and lines[-1] == "end":
                part[0] = f"{lines.pop()} {part[0]}"
            lines += part
            if condition is None or skipped:
                break
        return lines

    def _nested(self, decision: Decision) -> tuple[list[Expression], list[Statement]] | None:
        """The statements of a decision with one branch that has some, and when they are met.

        None if several branches have statements, or a pattern leaves bits open.
        """
        filled = [place for place, (_, body) in enumerate(decision.branches) if body]
        if len(filled) != 1:
            return None
        (place,) = filled
        condition, body = decision.branches[place]
        met: list[Expression] = []
        for other, _ in decision.branches[: place + 1]:
            if isinstance(other, Match) and any("-" in pattern for pattern in other.patterns):
                return None
            if other is condition:
                met += [] if condition is None else [self.printer.test(condition)]
            elif other is None:
                return None
            elif not _excludes(condition, other):
                met.append(self.printer.opposite(other))
        return met, body

    def _if(self, met: list[Expression], body: list[Statement]) -> list[str]:
        """One `if` for those that are inside each other, as far as a line takes them."""
        while len(body) == 1 and isinstance(body[0], Decision):
            inner = self._nested(body[0])
            if inner is None or len(_all_of([*met, *inner[0]])) > LONGEST_TEST:
                break
            met, body = [*met, *inner[0]], inner[1]
        lines = self.lines(body)
        return under(f"if ({_all_of(met)})", lines) if met else lines

    def _case(
        self, branches: list[tuple[Condition | None, list[Statement]]], value: Nets
    ) -> list[str]:
        patterns = [p for c, _ in branches if isinstance(c, Match) for p in c.patterns]
        word = "casez" if any("-" in pattern for pattern in patterns) else "case"
        lines = [f"{word} ({self.printer.exact(value)})"]
        labels: list[str] = []
        bodies: list[list[str]] = []
        default: list[str] = []
        for condition, body in branches:
            inner = self.lines(body)
            if condition is None:
                default = inner
                break
            assert isinstance(condition, Match)
            if not condition.patterns:
                continue
            label = ", ".join(self._label(value, p) for p in condition.patterns)
            # Where one pattern at most matches, the order is of no account.
            if inner in bodies and word == "case" and len(set(patterns)) == len(patterns):
                labels[bodies.index(inner)] += f", {label}"
            else:
                labels.append(label)
                bodies.append(inner)
        for label, inner in zip([*labels, "default"], [*bodies, default], strict=True):
            if not inner:
                lines.append(f"  {label}: ;")
            else:
                is_short = len(inner) == 1 and (len(label) + len(inner[0]) < 84 or "," in label)
                if is_short or is_one_if(inner):
                    # An `if` with its branches is one statement, too.
                    part = [f"{label}: {inner[0]}", *inner[1:]]
                else:
                    part = under(f"{label}:", inner)
                lines += ["  " + line for line in part]
        return [*lines, "endcase"]

    def _label(self, value: Nets, pattern: str) -> str:
        width = len(pattern)
        if "-" in pattern:
            return f"{width}'b{pattern.replace('-', '?')}"
        bits = tuple(int(character) for character in reversed(pattern))
        name = self.printer.state_name(value, bits)
        return name or f"{width}'d{int(pattern, 2)}"


def under(head: str, lines: list[str]) -> list[str]:
    """Statements under an `if`, an `else` or a label."""
    # An `else` behind it would be that of an inner `if`.
    if len(lines) == 1 and not lines[0].startswith("if "):
        if len(head) + len(lines[0]) < WIDEST:
            return [f"{head} {lines[0]}"]
        return [head, "  " + lines[0]]
    if lines and lines[0].startswith("case") and lines.index("endcase") == len(lines) - 1:
        return [head, *("  " + line for line in lines)]
    return [f"{head} begin", *("  " + line for line in lines), "end"]


def is_one_if(lines: list[str]) -> bool:
    """Return whether lines are one `if` with its branches."""
    return lines[0].startswith("if ") and all(
        line.startswith(("  ", "end", "else")) for line in lines[1:]
    )


def _excludes(condition: Condition | None, other: Condition) -> bool:
    """Return whether one never holds together with the other."""
    if not isinstance(condition, Match) or not isinstance(other, Match):
        return isinstance(other, Match) and not other.patterns
    return condition.value == other.value and not set(condition.patterns) & set(other.patterns)


def _all_of(conditions: list[Expression]) -> str:
    if len(conditions) == 1:
        return conditions[0].text
    return " && ".join(condition.within(EITHER) for condition in conditions)


def split_reset(target: Target, reset: int | None) -> None:
    """Take the reset, which is the last statement, out of a register's statements."""
    if not target.statements or reset is None:
        return
    last = target.statements[-1]
    if not isinstance(last, Decision) or len(last.branches) != 1:
        return
    condition, body = last.branches[0]
    if condition == Bit(reset, True) and len(body) == 1 and isinstance(body[0], Assign):
        value = body[0].value
        if len(value) == target.variable.width and all(net < 2 for net in value):
            target.reset = value
            target.statements = target.statements[:-1]


def grouped(targets: Iterable[Target], may_join: Callable[[Block, Target], bool]) -> list[Block]:
    """Blocks of targets that share a decision, where they may."""
    blocks: list[Block] = []
    for target in targets:
        own = {s.cell for s in target.statements if isinstance(s, Decision)}
        fitting = [b for b in blocks if own & b.decisions and may_join(b, target)]
        if fitting:
            fitting[0].targets.append(target)
            if len(fitting) > 1:
                for other in fitting[1:]:
                    joined = Block([*fitting[0].targets, *other.targets])
                    if all(may_join(Block(fitting[0].targets), t) for t in other.targets):
                        fitting[0].targets = joined.targets
                        blocks.remove(other)
        else:
            blocks.append(Block([target]))
    return blocks
