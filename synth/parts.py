"""A large component in parts, each to be mapped alone: one of each kind, however many there are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cdma.hw.emit.netlist import ModuleText, instances_in

SMALLEST_PART = 4000
"""Characters of Verilog, with all below it. What is smaller is mapped with what it is in: alone,
its gates could not be merged with those around them."""


@dataclass(frozen=True)
class Part:
    """A module with those below it that are no parts themselves.

    Attributes
    ----------
    name : str
        Of the module.
    verilog : str
        Parts below it are black boxes in it.
    below : tuple of str
        The modules of these.
    """

    name: str
    verilog: str
    below: tuple[str, ...] = ()


def parts_of(modules: Sequence[ModuleText], containers: Sequence[str]) -> list[Part]:
    """Take a component apart.

    Parameters
    ----------
    modules
        The component and all below it, its top first.
    containers
        Modules in which parts are looked for, beside the top: those of at least `SMALLEST_PART`
        characters. A container is a part, too, of what is left of it.

    Returns
    -------
    list of Part
        The top first.
    """
    texts = {module.name: module.text for module in modules}
    children = {name: list(instances_in(text, texts)) for name, text in texts.items()}

    def characters(name: str) -> int:
        return len(texts[name]) + sum(characters(child) for child in children[name])

    inside = [modules[0].name, *containers]
    roots = [modules[0].name] + [
        child
        for name in inside
        for child in children[name]
        if child in inside or characters(child) >= SMALLEST_PART
    ]
    return [_part(root, texts, children, set(roots)) for root in dict.fromkeys(roots)]


def _part(
    root: str, texts: dict[str, str], children: dict[str, list[str]], roots: set[str]
) -> Part:
    whole: dict[str, str] = {}
    boxes: dict[str, str] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop(0)
        if name in roots and name != root:
            boxes[name] = _black_box(texts[name])
        elif name not in whole:
            whole[name] = texts[name]
            waiting += children[name]
    verilog = "".join(f"{text}\n\n" for text in [*boxes.values(), *whole.values()])
    return Part(root, verilog, tuple(boxes))


def _black_box(text: str) -> str:
    header = text.partition(");\n")[0]
    # Without the registers' initial values, which are of what is inside.
    ports = re.sub(
        r"\boutput reg\b(.*?)(?: = [^,\n]*)?(,?)$", r"output wire\1\2", header, flags=re.M
    )
    return f"(* blackbox *)\n{ports});\nendmodule"
