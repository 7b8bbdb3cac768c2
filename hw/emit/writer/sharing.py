"""One module with parameters for those that are alike but for sizes, as FIFOs are.

Modules of one class whose texts differ in numbers only share a text, if each number that differs
follows from a width of a port or from an integer attribute of the component: it is that, or one
less, or the bits of a counter up to it. Where one does not, the modules stay as they are.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

FEWEST = 2
"""Modules that share one."""

_NUMBER = re.compile(r"(\d+'[bdh][0-9a-f]+|\{\d+\{1'b1\}\}|(?<![\w'])\d+(?!['\w]))")
_INSTANCE = re.compile(r"^  (\w+) (\w+) \($", re.M)
_REMARK = re.compile(r"(?<=[,\w])  //.*$", re.M)


@dataclass(frozen=True)
class Text:
    """A module's text and what its sizes may follow from.

    Attributes
    ----------
    name, text : str
        Of the module.
    kind : str
        The component's class.
    sizes : mapping of str to int
        Integers by the names that parameters of them would have.
    """

    name: str
    text: str
    kind: str
    sizes: Mapping[str, int] = field(default_factory=dict)


def share(texts: Sequence[Text], prefix: str) -> list[Text]:
    """Replace modules that are alike by one with parameters, and their instances.

    Parameters
    ----------
    texts
        Of all modules of a design, the top first, which stays as it is.
    prefix
        What the names of all modules begin with.

    Returns
    -------
    list of Text
        Those behind the top in their order, one that is shared at the place of the first it is for.
    """
    found = list(texts)
    taken = {text.name for text in found}
    while True:
        groups: dict[tuple[str, str], list[Text]] = defaultdict(list)
        for text in found[1:]:
            groups[text.kind, _NUMBER.sub("0", _bare(text))].append(text)
        instances: dict[str, str] = {}
        shared: dict[str, Text] = {}
        forms = [
            (group, made)
            for group in groups.values()
            if len(group) >= FEWEST and (made := _shared(group)) is not None
        ]
        changing = {text.name for group, _ in forms for text in group}
        for group, made in forms:
            # Those below first: what has instances of them may then be alike to more.
            if any(kind in changing for text in group for kind, _ in _INSTANCE.findall(text.text)):
                continue
            head, body, arguments = made
            name = _unique(f"{prefix}_{_snake(group[0].kind)}", taken)
            # One without parameters may be alike to others but for sizes.
            shared[group[0].name] = replace(
                group[0],
                name=name,
                text=f"module {name} {head}(\n{body}",
                sizes={} if head else group[0].sizes,
            )
            for text, argument in zip(group, arguments, strict=True):
                instances[text.name] = f"{name} {argument}"
        if not instances:
            return found
        kept = [shared.get(t.name, t) for t in found if t.name in shared or t.name not in instances]
        found = [replace(text, text=_with_instances(text.text, instances)) for text in kept]


def _with_instances(text: str, types: Mapping[str, str]) -> str:
    """A text with other modules' names, and parameters, where it has instances of some."""
    return _INSTANCE.sub(lambda m: f"  {types[m[1]]}{m[2]} (" if m[1] in types else m[0], text)


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


def _unique(name: str, taken: set[str]) -> str:
    chosen = next(n for n in chain([name], (f"{name}_{k}" for k in count(1))) if n not in taken)
    taken.add(chosen)
    return chosen


def _body(text: Text) -> str:
    """All behind the name and the opening parenthesis."""
    return text.text.partition("(\n")[2]


def _bare(text: Text) -> str:
    """The body without comments."""
    lines = _REMARK.sub("", _body(text)).split("\n")
    return "\n".join(line for line in lines if line.strip() and line.lstrip()[:2] != "//")


def _shared(group: Sequence[Text]) -> tuple[str, str, list[str]] | None:
    """The parameters and body of a shared module, and the parameters of each; None if none can be.

    A module that has parameters already takes no part: it is its group's only one.
    """
    if any(" #(\n" in text.text.partition("\n")[0] + "\n" for text in group):
        return None
    bodies = [_NUMBER.split(_bare(text)) for text in group]
    expressions = _Expressions(group)
    parts: list[str] = []
    for place, column in enumerate(zip(*bodies, strict=True)):
        if len(set(column)) == 1:
            parts.append(column[0])
            continue
        expression = expressions.of(column, "".join(bodies[0][max(0, place - 3) : place]))
        if expression is None:
            return None
        parts.append(expression)
    used = expressions.used
    if not used:
        # Comments, too, as all are the same; but for what fields there are.
        alike = len({_body(text) for text in group}) == 1
        body = _body(group[0]) if alike else _commented(group[0], "".join(parts))
        return "", body, ["" for _ in group]
    defaults = (f"  parameter {name} = {group[0].sizes[name]}" for name in used)
    head = "#(\n" + ",\n".join(defaults) + "\n) "
    arguments = [
        "#(" + ", ".join(f".{name}({text.sizes[name]})" for name in used) + ") " for text in group
    ]
    return head, _commented(group[0], "".join(parts)), arguments


def _commented(text: Text, bare: str) -> str:
    """A body without comments, with those of a module between its lines; not those on fields."""
    lines = iter(bare.split("\n"))
    return "\n".join(
        line if not line.strip() or line.startswith("  // hw/") else next(lines)
        for line in _body(text).split("\n")
        if not line.lstrip().startswith("//") or line.startswith("  // hw/")
    )


class _Expressions:
    """Expressions that give the numbers of several modules."""

    def __init__(self, group: Sequence[Text]) -> None:
        self.used: list[str] = []
        names = [name for name in group[0].sizes if all(name in text.sizes for text in group)]
        self._forms: dict[tuple[int, ...], tuple[str, str]] = {}
        for name in names:
            for form, value in _FORMS.items():
                values = tuple(value(text.sizes[name]) for text in group)
                if len(set(values)) > 1:
                    self._forms.setdefault(values, (name, form.replace("P", name)))

    def of(self, column: Sequence[str], before: str) -> str | None:
        """A text for numbers behind the text `before`; None if there is none."""
        if all(text.isdigit() for text in column):
            return self._form([int(text) for text in column])
        widths, values = zip(*map(_literal, column), strict=True)
        if not any(values):
            width = self._form(widths)
            return width and f"{{{width}{{1'b0}}}}"
        if all(value == (1 << width) - 1 > 1 for width, value in zip(widths, values, strict=True)):
            width = self._form(widths)
            return width and f"{{{width}{{1'b1}}}}"
        if set(values) == {1}:
            # A sum is as wide as its other operand.
            return "1'b1" if before.endswith(("+ ", "- ")) else None
        return self._form(values) if re.search(r"\w (==|!=) $", before) else None

    def _form(self, values: Sequence[int]) -> str | None:
        found = self._forms.get(tuple(values))
        if found is None:
            return str(values[0]) if len(set(values)) == 1 else None
        name, form = found
        if name not in self.used:
            self.used.append(name)
        return form


_FORMS = {
    "P": lambda size: size,
    "P-1": lambda size: size - 1,
    "$clog2(P)": lambda size: (size - 1).bit_length(),
    "$clog2(P)-1": lambda size: (size - 1).bit_length() - 1,
    "$clog2(P+1)": lambda size: size.bit_length(),
    "$clog2(P+1)-1": lambda size: size.bit_length() - 1,
}


def _literal(text: str) -> tuple[int, int]:
    """Width and value of a constant."""
    ones = re.fullmatch(r"\{(\d+)\{1'b1\}\}", text)
    if ones:
        return int(ones[1]), (1 << int(ones[1])) - 1
    width, sign, digits = text.partition("'")
    if not sign:
        return 32, int(text)
    return int(width), int(digits[1:], {"b": 2, "d": 10, "h": 16}[digits[0]])
