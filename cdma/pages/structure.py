"""The engine's blocks and the streams between them as a picture, read from its Verilog.

    python -m cdma.pages.structure > docs/developer/engine.svg

Only the places of the boxes are chosen here. Blocks, their classes and their number are those of
the generated modules, and an arrow is a `valid` that leads from one to the other: through wires and
logic, across the boundaries of the ways out and in, and through queues and registers, which are
left out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from cdma.hw.emit.verilog import generate

OPENED = ("out_path", "in_path")
"""Instances of the engine whose own instances are shown."""

PASSED = frozenset({"Fifo", "PingPongBuffer", "PipelineRegister", "SkidBuffer"})
"""Classes that only hold what passes; what drives them drives what they drive."""

OUTSIDE = {"m_axi_mem": "device memory", "m_axi_host": "host memory", "s_axil": "software"}
"""The surroundings of the engine's ports, by the beginning of their names."""

PLACES: Mapping[str, tuple[float, float]] = {
    "software": (0, 0.1),
    "registers": (1.1, 0.1),
    "device memory": (0, 2.55),
    "memory": (1.1, 2.55),
    "out_path.unit": (2.5, 0.1),
    "out_path.buffer": (3.75, 0.1),
    "out_path.drain": (5, 0.1),
    "out_path.packer": (6.2, 0.1),
    "out_path.writer": (7.4, 0.1),
    "out_path.issuer": (2.5, 1.05),
    "out_path.splitter": (3.75, 1.05),
    "dispatcher": (3.2, 2.1),
    "checker": (4.4, 2.1),
    "fetcher": (6.2, 2.1),
    "retire": (5.3, 3.05),
    "record_writer": (6.5, 3.05),
    "in_path.gather": (3.75, 4.2),
    "in_path.job_splitter": (5, 4.2),
    "in_path.unit": (2.5, 5.15),
    "in_path.splitter": (3.75, 5.15),
    "in_path.receiver": (6.2, 5.15),
    "host": (7.7, 2.55),
    "host memory": (8.8, 2.55),
}
"""Columns and rows of the boxes."""

COLUMN, ROW, WIDTH, HEIGHT = 142, 92, 114, 44
"""Pixels: from a box to the next one, and of a box."""

GROUPS = {
    "out_path.": "the way out, OutPath",
    "in_path.": "the way in, InPath",
}
"""Boxes around the blocks of an instance, with their titles."""

STYLE = """
text { font: 12px ui-monospace, monospace; fill: #24292f; text-anchor: middle }
.kind { font-size: 9.5px; fill: #57606a }
.title { text-anchor: start; fill: #57606a; font-size: 11px }
.block { fill: #e8f1fb; stroke: #0b5cad; stroke-width: 1.2 }
.outside { fill: #fff4dc; stroke: #9a6700; stroke-width: 1.2 }
.group { fill: #f6f8fa; stroke: #d0d7de }
.stream { fill: none; stroke: #57606a; stroke-width: 1.2; marker-end: url(#tip) }
"""


@dataclass(frozen=True)
class Block:
    """A box of the picture.

    Attributes
    ----------
    name : str
        The instance's path in the engine without its number, or what is outside.
    kind : str
        Its class; empty outside.
    numbered : bool
        Whether there are several, as many as units.
    """

    name: str
    kind: str
    numbered: bool


@dataclass(frozen=True)
class _Instance:
    module: str
    ports: Mapping[str, str]


class _Module:
    """A module's text: its class, ports, instances, and what drives each net."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        pattern = r"^  (input|output) (?:wire|reg) (?:\[[^]]*\] )?(\w+)"
        self.ports = {name: direction for direction, name in re.findall(pattern, text, re.M)}
        self.instances = {
            match[2]: _Instance(match[1], dict(re.findall(r"\.(\w+)\((.*?)\)[,\n]", match[3])))
            for match in re.finditer(
                r"^  (\w+) (?:#\(.*?\) )?\\?(\w+) *\(\n(.*?\n)  \);", text, re.M | re.S
            )
        }
        self.assigned = dict(re.findall(r"^  assign (\w+) = (.*?);", text, re.M | re.S))


def _modules(text: str) -> dict[str, _Module]:
    """All modules of a file; the comment above each begins with its class."""
    comment = r"^// (\w+)\. [^\n]*\n(?://[^\n]*\n)*"
    found = re.finditer(rf"{comment}(module (\w+) \(.*?^endmodule)", text, re.M | re.S)
    return {match[3]: _Module(match[1], match[2]) for match in found}


def _unnumbered(name: str) -> str:
    return re.sub(r"_\d+$", "", name)


class BlockDiagram:
    """The blocks of an engine's Verilog, and the streams between them.

    Parameters
    ----------
    text : str
        As `generate` makes it in the style "netlist", its top module the first.

    Attributes
    ----------
    blocks : dict of str to Block
        By name.
    streams : set of (str, str)
        Names of a block and of one that takes what it gives.
    """

    def __init__(self, text: str) -> None:
        self._known = _modules(text)
        self._top = next(iter(self._known))
        shown = {}
        edges = set()
        for path, instance in self._leaves():
            name = ".".join(map(_unnumbered, path))
            kind = self._known[instance.module].kind
            shown[name] = Block(name, kind, name != ".".join(path))
            scope = path[:-1]
            for port, net in instance.ports.items():
                inputs = self._known[instance.module].ports
                if port.endswith("valid") and inputs.get(port) == "input":
                    for source in self._drivers(scope, net):
                        edges.add((source, name))
                elif port.startswith("m_axi") and port.endswith("valid"):
                    edges |= {(name, out) for out in self._outside(scope, net)}
        for outside in OUTSIDE.values():
            shown[outside] = Block(outside, "", False)
        passed = {name for name, block in shown.items() if block.kind in PASSED}
        self.blocks = {name: block for name, block in shown.items() if name not in passed}
        self.streams = _through(edges, passed)
        linked = {name for edge in self.streams for name in edge}
        self.blocks = {name: one for name, one in self.blocks.items() if name in linked}

    def _module(self, scope: tuple[str, ...]) -> _Module:
        module = self._known[self._top]
        for name in scope:
            module = self._known[module.instances[name].module]
        return module

    def _leaves(self) -> list[tuple[tuple[str, ...], _Instance]]:
        found: list[tuple[tuple[str, ...], _Instance]] = []
        for name, instance in self._module(()).instances.items():
            if name in OPENED:
                inner = self._module((name,)).instances.items()
                found += [((name, one), below) for one, below in inner]
            else:
                found.append(((name,), instance))
        return [one for one in found if one[1].module in self._known]

    def _drivers(self, scope: tuple[str, ...], expression: str) -> set[str]:
        """Blocks whose `valid` an expression in a module is made of."""
        found: set[str] = set()
        module = self._module(scope)
        left, done = re.findall(r"\w*valid\b", expression), set[str]()
        while left:
            net = left.pop()
            if net in done:
                continue
            done.add(net)
            source = self._source(scope, module, net)
            if source is not None:
                found |= source
            elif net in module.assigned:
                left += re.findall(r"\w*valid\b", module.assigned[net])
        return found

    def _source(self, scope: tuple[str, ...], module: _Module, net: str) -> set[str] | None:
        """The blocks that drive a net, if a port does; None else."""
        if module.ports.get(net) == "input":
            if not scope:
                return {name for prefix, name in OUTSIDE.items() if net.startswith(prefix)}
            outer = scope[:-1]
            return self._drivers(outer, self._module(outer).instances[scope[-1]].ports[net])
        for name, instance in module.instances.items():
            for port, connected in instance.ports.items():
                if connected == net and self._known[instance.module].ports[port] == "output":
                    if not scope and name in OPENED:
                        return self._drivers((name,), port)
                    return {".".join(map(_unnumbered, (*scope, name)))}
        return None

    def _outside(self, scope: tuple[str, ...], net: str) -> set[str]:
        module = self._module(scope)
        ports = [name for name, value in module.assigned.items() if value == net] + [net]
        return {
            out
            for port in ports
            for prefix, out in OUTSIDE.items()
            if not scope and port.startswith(prefix) and module.ports.get(port) == "output"
        }


def _through(edges: set[tuple[str, str]], passed: set[str]) -> set[tuple[str, str]]:
    """The edges with some of their nodes passed through."""
    edges = set(edges)
    for node in sorted(passed):
        before = {a for a, b in edges if b == node and a != node}
        after = {b for a, b in edges if a == node and b != node}
        edges = {edge for edge in edges if node not in edge}
        edges |= {(a, b) for a in before for b in after}
    return {(a, b) for a, b in edges if a != b}


def drawing(structure: BlockDiagram) -> str:
    """Draw a structure as an SVG.

    Raises
    ------
    ValueError
        A block has no place in `PLACES`, or a place has no block.
    """
    if structure.blocks.keys() != PLACES.keys():
        raise ValueError(
            f"blocks and PLACES differ in {sorted(structure.blocks.keys() ^ PLACES.keys())}; "
            "give each block of the engine a place"
        )
    width = int(max(x for x, _ in PLACES.values()) * COLUMN + WIDTH + 24)
    height = int(max(y for _, y in PLACES.values()) * ROW + HEIGHT + 56)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8Z" fill="#57606a"/></marker></defs>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    parts += [_group(title, prefix) for prefix, title in GROUPS.items()]
    parts += [_arrow(*edge, edge[::-1] in structure.streams) for edge in sorted(structure.streams)]
    for block in structure.blocks.values():
        parts += _box(block)
    return "\n".join([*parts, "</svg>", ""])


def _corner(name: str) -> tuple[float, float]:
    x, y = PLACES[name]
    return 12 + COLUMN * x, 34 + ROW * y


def _group(title: str, prefix: str) -> str:
    corners = [_corner(name) for name in PLACES if name.startswith(prefix)]
    left, top = (min(values) - 8 for values in zip(*corners, strict=True))
    right, bottom = (max(values) + 8 for values in zip(*corners, strict=True))
    return (
        f'<rect class="group" x="{left:.0f}" y="{top - 18:.0f}" rx="6" '
        f'width="{right - left + WIDTH:.0f}" height="{bottom - top + HEIGHT + 18:.0f}"/>'
        f'<text class="title" x="{left + 8:.0f}" y="{top - 4:.0f}">{title}</text>'
    )


def _box(block: Block) -> list[str]:
    x, y = _corner(block.name)
    kind = "block" if block.kind else "outside"
    found = []
    # Several of a kind lie behind each other.
    for behind in (6, 3, 0) if block.numbered else (0,):
        found.append(
            f'<rect class="{kind}" x="{x + behind:.0f}" y="{y - behind:.0f}" rx="4" '
            f'width="{WIDTH}" height="{HEIGHT}"/>'
        )
    name = block.name.rpartition(".")[2]
    middle = x + WIDTH / 2
    found.append(
        f'<text x="{middle:.0f}" y="{y + (19 if block.kind else 27):.0f}">{escape(name)}</text>'
    )
    if block.kind:
        found.append(f'<text class="kind" x="{middle:.0f}" y="{y + 34:.0f}">{block.kind}</text>')
    return found


def _arrow(source: str, target: str, both_ways: bool) -> str:
    """An arrow between the sides of two boxes that face each other.

    Where two boxes give to each other, their arrows are apart.
    """
    (ax, ay), (bx, by) = _corner(source), _corner(target)
    dx, dy = bx - ax, by - ay
    shift = (7 if source < target else -7) if both_ways else 0
    if abs(dx) > WIDTH:
        right = dx > 0
        x, y = ax + (WIDTH if right else 0), ay + HEIGHT / 2 + shift
        end_x, end_y = bx + (0 if right else WIDTH), by + HEIGHT / 2 + shift
        bend = (end_x - x) / 2
        curve = f"C{x + bend:.0f} {y:.0f} {end_x - bend:.0f} {end_y:.0f}"
    else:
        down = dy > 0
        x, y = ax + WIDTH / 2 + shift, ay + (HEIGHT if down else 0)
        end_x, end_y = bx + WIDTH / 2 + shift, by + (0 if down else HEIGHT)
        bend = (end_y - y) / 2
        curve = f"C{x:.0f} {y + bend:.0f} {end_x:.0f} {end_y - bend:.0f}"
    return (
        f'<path class="stream" data-from="{source}" data-to="{target}" '
        f'd="M{x:.0f} {y:.0f}{curve} {end_x:.0f} {end_y:.0f}"/>'
    )


if __name__ == "__main__":
    # The smallest engine has the same blocks as the others.
    print(drawing(BlockDiagram(generate("engine", "tiny", style="netlist").text)), end="")
