"""Modules with an output that tells which branches were taken, and what there is to cover.

A branch is a way that a decision of the source can go: an arm of `m.If`, `m.Switch` or `m.FSM`,
none of the arms, or either side of a `Mux`. It is taken when its condition holds at a clock edge
outside of reset. Amaranth's netlist knows each decision's line, whatever the Verilog looks like.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import _nir
from amaranth.hdl._ast import SignalDict

from tests.coverage.constants import ModuleConstants
from tests.lib.paths import ROOT

TAKEN = "coverage_taken"
"""The output: a bit for each branch."""

DECISIONS = ("If", "Elif", "Else", "Switch", "Case", "Default", "FSM", "State")

SOURCES = ("hw", "tests/coverage")
"""Folders whose decisions are looked at: not those of Amaranth's own library."""


@dataclass(frozen=True)
class Branch:
    """A way that a decision can go.

    Attributes
    ----------
    path : str
        The source file, from the repository's root.
    line : int
    kind : str
        "If", "Case" and so on; "no branch" if a decision's arms are all passed by; "Mux 1" and
        "Mux 0". In tables they are numbered where a line makes several, as in a loop.
    """

    path: str
    line: int
    kind: str


@dataclass(frozen=True)
class Statement:
    """A line that assigns, and the numbers of the branches in which it does; none if always."""

    path: str
    line: int
    branches: tuple[int, ...]


@dataclass(frozen=True)
class Instrumented:
    """A module as RTLIL, with what there is to cover in it.

    Attributes
    ----------
    rtlil : str
        The module; wires that are no ports have no names.
    branches : tuple of Branch
        In the order of the bits of the output `TAKEN`.
    statements : tuple of Statement
    """

    rtlil: str
    branches: tuple[Branch, ...]
    statements: tuple[Statement, ...]


@cache
def decisions_of(path: str) -> dict[int, str]:
    """The control statements of a source, by the lines of their heads."""
    found = {}
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        for item in node.items if isinstance(node, ast.With) else ():
            call = item.context_expr
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in DECISIONS
            ):
                lines = range(item.context_expr.lineno, (call.end_lineno or call.lineno) + 1)
                found |= dict.fromkeys(lines, call.func.attr)
    return found


@cache
def place_of(src_loc: tuple[str, int] | None) -> tuple[str, int] | None:
    """Path and line of a place in the RTL's sources; None of any other place."""
    if src_loc is None:
        return None
    path = Path(src_loc[0]).resolve()
    if not any(path.is_relative_to(ROOT / folder) for folder in SOURCES):
        return None
    return path.relative_to(ROOT).as_posix(), src_loc[1]


class _Nameless(rtlil.Module):
    """A module whose ports have names, and no other wire or memory."""

    def wire(self, width: int, *, name: str | None = None, **options: Any) -> Any:
        is_port = options.get("port_kind") is not None
        return super().wire(width, name=name if is_port else None, **options)

    def cell(self, kind: str, name: str | None = None, **options: Any) -> Any:
        # Modules that nothing else reads than the output for coverage.
        if kind.startswith("\\"):
            options["attrs"] = {**(options.get("attrs") or {}), "keep": 1}
        return super().cell(kind, name, **options)

    def memory(self, width: int, depth: int, name: str | None = None, **options: Any) -> Any:
        return super().memory(width, depth, **options)


def instrumented(netlist: Any, name: str, constants: ModuleConstants) -> Instrumented:
    """Add the output to a module's netlist, which is changed by that, and convert it to RTLIL.

    Parameters
    ----------
    netlist
        Amaranth's, of one module whose submodules are instances.
    name
        Of the module.
    constants
        What is known of its bits: branches whose condition is constant are left out.
    """
    found = list(_branches(netlist, constants))
    numbers = {own: number for number, (_, _, own) in enumerate(found) if own is not None}
    statements = tuple(_statements(netlist, constants, numbers))
    if found:
        _add_output(netlist, [net for _, net, _ in found])
    empty = rtlil.EmptyModuleChecker(netlist)
    (module,) = netlist.modules
    builder = _Nameless(name, emit_src=False)
    # A module without cells would be taken for one that is described elsewhere.
    if not empty.is_empty(0):
        rtlil.ModuleEmitter(builder, netlist, module, SignalDict(), empty_checker=empty).emit()
    design = rtlil.Design(emit_src=False)
    design.modules[name] = builder
    return Instrumented(str(design), tuple(branch for branch, _, _ in found), statements)


def _branches(netlist: Any, constants: ModuleConstants) -> Iterator[tuple[Branch, int, int | None]]:
    """Branches, each with a net that is high while it is taken, and the decision's own for that."""
    arms = _Arms(netlist)
    for index, cell in list(enumerate(netlist.cells)):
        is_decision = isinstance(cell, _nir.PriorityMatch | _nir.Operator)
        at = place_of(cell.src_loc) if is_decision else None
        if at is None:
            continue
        path, line = at
        if isinstance(cell, _nir.PriorityMatch):
            kind = decisions_of(path).get(line)
            if kind is None:
                # The index of an array and the like: data, no decision.
                continue
            own = _outputs(index, len(cell.inputs))
            reachable = constants.bits(own)
            for net, match, can_be in zip(own, cell.inputs, reachable, strict=True):
                arm = place_of(netlist.cells[match >> 16].src_loc) if match > 1 else None
                its_line = arm[1] if arm else line
                its_kind = decisions_of(path).get(its_line, kind) if arm else f"else of {kind}"
                if can_be not in (0, 1):
                    yield Branch(path, its_line, its_kind), arms.taken(net), net
            may_pass = kind != "FSM" and not _is_full(netlist, cell)
            if may_pass and constants.none_chosen(cell) not in (0, 1):
                yield Branch(path, line, f"no branch of {kind}"), arms.none(index), None
        elif cell.operator == "m":
            (selected,) = cell.inputs[0]
            if constants.bit(selected) not in (0, 1):
                yield Branch(path, line, "Mux 1"), selected, None
                yield Branch(path, line, "Mux 0"), arms.inverse(selected), None


def _outputs(index: int, width: int) -> list[Any]:
    return [_nir.Net.from_cell(index, bit) for bit in range(width)]


class _Arms:
    """Logic that tells which arms of decisions are taken, added where it is asked for.

    Amaranth writes decisions as processes, in which their outputs are no signals.
    """

    def __init__(self, netlist: Any) -> None:
        self.netlist = netlist
        self._taken: dict[int, Any] = {}
        self._none: dict[int, Any] = {}

    def taken(self, net: Any) -> Any:
        """A net with the value of a decision's output; of any other net, itself."""
        if net < 2 or not isinstance(self.netlist.cells[net >> 16], _nir.PriorityMatch):
            return net
        if net not in self._taken:
            self._add(net >> 16)
        return self._taken[net]

    def none(self, index: int) -> Any:
        """A net that is high where a decision is met and none of its arms is taken."""
        if index not in self._none:
            self._add(index)
        return self._none[index]

    def inverse(self, net: Any) -> Any:
        """A net with the opposite value."""
        return self._operator("~", [net])

    def _add(self, index: int) -> None:
        cell = self.netlist.cells[index]
        left = self.taken(cell.en)
        for net, match in zip(_outputs(index, len(cell.inputs)), cell.inputs, strict=True):
            matched = self._match(match)
            self._taken[net] = self._operator("&", [left], [matched])
            left = self._operator("&", [left], [self.inverse(matched)])
        self._none[index] = left

    def _match(self, net: Any) -> Any:
        if net < 2:
            return net
        cell = self.netlist.cells[net >> 16]
        found = []
        for pattern in cell.patterns:
            wanted = [
                (bit, int(digit))
                for bit, digit in zip(cell.value, reversed(pattern), strict=True)
                if digit != "-"
            ]
            if wanted:
                constant = [_nir.Net.from_const(digit) for _, digit in wanted]
                found.append(self._operator("==", [bit for bit, _ in wanted], constant))
            else:
                found.append(_nir.Net.from_const(1))
        return self._operator("r|", found) if found else _nir.Net.from_const(0)

    def _operator(self, operator: str, *inputs: Sequence[Any]) -> Any:
        values = [_nir.Value(nets) for nets in inputs]
        cell = _nir.Operator(0, operator=operator, inputs=values, src_loc=None)
        return self.netlist.add_value_cell(1, cell)[0]


def _is_full(netlist: Any, cell: Any) -> bool:
    """True if one of a decision's arms is always taken: the last one, or one for each value."""
    if any(net == 1 for net in cell.inputs):
        return True
    cells = [netlist.cells[net >> 16] for net in cell.inputs if net > 1]
    patterns = {pattern for matches in cells for pattern in matches.patterns}
    return bool(cells) and len({p for p in patterns if "-" not in p}) == 1 << len(cells[0].value)


def _statements(
    netlist: Any, constants: ModuleConstants, numbers: dict[Any, int]
) -> Iterator[Statement]:
    """Lines that assign. Of those below expressions, the decision around is taken."""
    found: dict[tuple[str, int], set[int] | None] = {}
    for cell in netlist.cells:
        for assignment in cell.assignments if isinstance(cell, _nir.AssignmentList) else ():
            at = place_of(assignment.src_loc)
            if at is None or constants.bit(assignment.cond) == 0:
                continue
            number = _enclosing(netlist, assignment.cond, numbers)
            branches = found.setdefault(at, set())
            if number is None:
                found[at] = None
            elif branches is not None:
                branches.add(number)
    for path, line in sorted(found):
        yield Statement(path, line, tuple(sorted(found[path, line] or ())))


def _enclosing(netlist: Any, net: Any, numbers: dict[Any, int]) -> int | None:
    """The branch that a condition is, or the one around it; None if there is none."""
    while net > 1:
        if net in numbers:
            return numbers[net]
        net = netlist.cells[net >> 16].en
    return None


def _add_output(netlist: Any, nets: Sequence[Any]) -> None:
    """A register of these nets, but in reset, as an output; without a single clock, the nets."""
    value = _nir.Value(nets)
    width = len(value)
    pins = {name: _nir.Net.from_cell(0, start) for name, (start, _) in netlist.top.ports_i.items()}
    clocks = [name for name in pins if name == "clk" or name.endswith("_clk")]
    if len(clocks) == 1:
        reset = pins.get(clocks[0][: -len("clk")] + "rst")
        if reset is not None:
            inverse = _nir.Operator(0, operator="~", inputs=[_nir.Value(reset)], src_loc=None)
            (running,) = netlist.add_value_cell(1, inverse)
            both = [value, _nir.Value([running] * width)]
            gated = _nir.Operator(0, operator="&", inputs=both, src_loc=None)
            value = netlist.add_value_cell(width, gated)
        register = _nir.FlipFlop(
            0,
            data=value,
            init=0,
            clk=pins[clocks[0]],
            clk_edge="pos",
            arst=_nir.Net.from_const(0),
            attributes={},
            src_loc=None,
        )
        value = netlist.add_value_cell(width, register)
    netlist.top.ports_o[TAKEN] = value
    netlist.modules[0].ports[TAKEN] = (value, _nir.ModuleNetFlow.Output)


def numbered(branches: Sequence[Branch]) -> list[Branch]:
    """Branches told apart by number where a line makes several alike, as in a loop."""
    count: Counter[Branch] = Counter(branches)
    seen: Counter[Branch] = Counter()
    found = []
    for branch in branches:
        seen[branch] += 1
        kind = branch.kind if count[branch] == 1 else f"{branch.kind} #{seen[branch]}"
        found.append(Branch(branch.path, branch.line, kind))
    return found
