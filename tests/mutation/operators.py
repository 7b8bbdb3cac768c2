"""Small faults of a module's source: each as a text with one expression or statement changed.

Sources of RTL are programs that build it, so a changed operator is another gate, and an assignment
that is left out is a register that never loads. Nothing is changed in docstrings, annotations,
decorators and imports, in messages, or in `raise` and `assert`.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
"""Equality against its contrary, the others against their neighbors, off by one."""

BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}

CONDITIONS = ("If", "Elif")
"""Amaranth's; Python's own `if` is a statement."""


@dataclass(frozen=True)
class Mutation:
    """A fault of a source.

    Attributes
    ----------
    line : int
        From 1.
    kind : str
    before, after : str
        The expression or statement; `after` is empty if it is left out.
    text : str
        The whole source with the fault.
    """

    line: int
    kind: str
    before: str
    after: str
    text: str


def mutations(source: str) -> Iterator[Mutation]:
    """All faults of a source, in the order of its lines."""
    tree = ast.parse(source)
    found = list(_Faults(source).of(tree))
    return iter(sorted(found, key=lambda one: one.line))


class _Faults:
    """Finds nodes and replaces their text."""

    def __init__(self, source: str) -> None:
        self.source = source.encode()
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

        # More bits than are needed do no harm, and no test can tell; nor does a reset that nothing
        # needs.
        self.widths: set[ast.expr] = set()

    def of(self, node: ast.AST) -> Iterator[Mutation]:
        self.widths |= set(_widths(node))
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
            return
        yield from self._here(node)
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            if isinstance(node, ast.keyword) and node.arg == "reset_less":
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.of(child)

    def _here(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
                changed = ast.Compare(node.left, [COMPARISONS[type(operator)]()], node.comparators)
                yield self._made("comparison", node, changed)
            case ast.BinOp(op=operator) if type(operator) in BINARY and not _is_text(node):
                changed_too = ast.BinOp(node.left, BINARY[type(operator)](), node.right)
                yield self._made("operator", node, changed_too)
            case ast.BoolOp(op=operator):
                other = ast.Or() if isinstance(operator, ast.And) else ast.And()
                yield self._made("operator", node, ast.BoolOp(other, node.values))
            case ast.UnaryOp(op=ast.Invert() | ast.Not()):
                yield self._made("inversion", node, node.operand)
            case ast.Constant(value=bool() as value):
                yield self._made("constant", node, ast.Constant(not value))
            case ast.Constant(value=int() as value) if node not in self.widths:
                yield self._made("constant", node, ast.Constant(value + 1))
            case ast.Constant(value=int() as value) if value > 1:
                yield self._made("width", node, ast.Constant(value - 1))
            case ast.IfExp():
                yield self._made("choice", node, ast.IfExp(node.test, node.orelse, node.body))
            case ast.If():
                yield self._made("condition", node.test, ast.UnaryOp(ast.Not(), node.test))
            case ast.Call(func=ast.Attribute(attr=name), args=[test]) if name in CONDITIONS:
                zero = ast.Compare(test, [ast.Eq()], [ast.Constant(0)])
                yield self._made("condition", test, zero)
            case ast.Call(func=ast.Name(id="Mux"), args=[test, one, other]):
                swapped = ast.Call(node.func, [test, other, one], node.keywords)
                yield self._made("choice", node, swapped)
            case ast.List(elts=assignments) if any(map(_is_assignment, assignments)):
                for one in filter(_is_assignment, assignments):
                    yield self._made("assignment", one, ast.List([], ast.Load()), spread=True)
            case ast.AugAssign(value=assignment) if _is_assignment(assignment):
                yield self._made("assignment", assignment, ast.List([], ast.Load()))
            case ast.Expr(value=ast.Call()):
                yield self._made("call", node, ast.Pass())

    def _made(
        self, kind: str, node: ast.expr | ast.stmt, changed: ast.AST, *, spread: bool = False
    ) -> Mutation:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        after = ast.unparse(ast.fix_missing_locations(changed))
        if spread:
            after = f"*{after}"
        elif isinstance(node, ast.expr):
            after = f"({after})"
        text = self.source[:start] + after.encode() + self.source[end:]
        is_left_out = kind in ("assignment", "call")
        before = " ".join(self.source[start:end].decode().split())
        return Mutation(node.lineno, kind, before, "" if is_left_out else after, text.decode())


def _is_assignment(node: ast.expr) -> bool:
    """Return True for one of Amaranth's: `signal.eq(value)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "eq"
    )


def _widths(node: ast.AST) -> Sequence[ast.expr]:
    """The numbers of bits that a signal has, or the fields of a layout."""
    match node:
        case ast.Call(func=ast.Name(id="Signal" | "unsigned" | "signed" | "In" | "Out")):
            return node.args[:1]
        case ast.Dict(keys=[ast.Constant(value=str()), *_]):
            return node.values
    return []


def _is_text(node: ast.BinOp) -> bool:
    """Return True if a literal says that texts are put together."""
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in (node.left, node.right)
    )
