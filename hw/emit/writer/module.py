"""The text of a module: ports, declarations, wires, blocks, instances."""

import textwrap
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import _nir

from cdma.hw.emit.attributes import attributes
from cdma.hw.emit.reset import reset_beside
from cdma.hw.emit.writer.blocks import (
    Block,
    BlockWriter,
    Target,
    grouped,
    is_one_if,
    split_reset,
    under,
)
from cdma.hw.emit.writer.circuit import Circuit, Nets, UnsupportedCell, Variable, bits_of
from cdma.hw.emit.writer.decisions import Decision, value_of
from cdma.hw.emit.writer.expressions import (
    BOTH,
    EQUAL,
    NeedsWire,
    Printer,
    clear_text,
    literal,
    sliced,
)
from cdma.hw.emit.writer.series import FEWEST, find_series
from cdma.hw.emit.writer.usage import Usage, list_of

WIDTH = 100

CLOCKING = ("clk", "rst")
"""Pins that are on a line with the first interface."""


@dataclass(frozen=True)
class Written:
    """A module's text, and what is called otherwise in it than in the netlist.

    `instances` are instances and memories, `signals` all others.
    """

    text: str
    instances: dict[str, str]
    signals: dict[str, str]


def write_module(
    netlist: Any,
    name: str,
    ports: Sequence[tuple[str, str, int]],
    *,
    remarks: Mapping[str, str] | None = None,
    has_assertions: bool = False,
) -> Written:
    """A module as Verilog-2005; with assertions, SystemVerilog.

    Parameters
    ----------
    netlist
        Amaranth's, of one module whose submodules are instances.
    name
        Of the module.
    ports
        Name, direction and width of each port, in order.
    remarks
        Comments on ports, by their names.
    has_assertions
        Keep them.

    Raises
    ------
    UnsupportedCell
        The netlist has something that this cannot write.
    """
    inputs = {port: width for port, direction, width in ports if direction == "input"}
    outputs = {port: width for port, direction, width in ports if direction == "output"}
    circuit = Circuit(netlist, inputs, outputs, has_assertions)
    while True:
        before = circuit.named_values
        usage = Usage(circuit)
        usage.add_roots()
        named = usage.to_name()
        for index in named:
            usage.name_cell(index)
        missing: list[NeedsWire] = []
        if not named:
            writer = _ModuleWriter(circuit, usage, name, ports, remarks or {})
            text = writer.text()
            missing = writer.missing
            if not missing:
                return Written(text, circuit.instances, circuit.renamed)
        for needed in missing:
            if needed.cell is not None:
                home = circuit.home(bits_of(needed.cell, 0, 1)[0])
                if home is None or home.width < circuit.width_of(needed.cell):
                    usage.name_cell(needed.cell)
            else:
                usage.name_value(needed.nets, "value")
        if circuit.named_values == before:
            raise UnsupportedCell(f"{name} needs wires that it has: {named or missing!r}")


class _ModuleWriter:
    def __init__(
        self,
        circuit: Circuit,
        usage: Usage,
        name: str,
        ports: Sequence[tuple[str, str, int]],
        remarks: Mapping[str, str],
    ) -> None:
        self.circuit = circuit
        self.usage = usage
        self.name = name
        self.ports = ports
        self.remarks = remarks
        self.missing: list[NeedsWire] = []
        self.printer = Printer(circuit)
        self.found_attributes = attributes(circuit.netlist)
        self.registers: set[str] = set()
        self.initial: dict[str, str] = {}
        self.attributes: dict[str, str] = {}
        self.index = ""
        self.begun = ""

    def text(self) -> str:
        # In the source's order, as far as Amaranth has it.
        variables = sorted(self.usage.variables.values(), key=lambda v: v.nets[-1])
        wires: list[Variable] = []
        held: list[Variable] = []
        processes: list[Variable] = []
        for variable in variables:
            if variable.port == "input":
                continue
            cell = None if variable.cell is None else self.circuit.cells[variable.cell]
            if isinstance(cell, _nir.FlipFlop | _nir.SyncReadPort):
                held.append(variable)
                known = self.found_attributes.get(variable.nets)
                if known:
                    self.attributes[variable.name] = f"{known} "
                self.registers.add(variable.name)
            elif isinstance(cell, _nir.Instance):
                pass
            elif isinstance(cell, _nir.AssignmentList) and (
                value_of(self.circuit, variable.cell or 0, 0, variable.width) is None
            ):
                processes.append(variable)
                self.registers.add(variable.name)
            else:
                wires.append(variable)
        memories, writes = self._memories()
        sequential = self._sequential(held)
        combinational = self._combinational(processes)
        instances = self._instances()
        properties = self._properties()
        wire_lines = self._wires(wires)
        declared = [self._declaration(v) for v in self._plain(variables, wires)]
        body = [
            *sorted(self.printer.localparams.values()),
            *memories,
            *([f"genvar {self.index};"] if self.index else []),
            *declared,
            *self._beginning(),
            *wire_lines,
            *combinational,
            *sequential,
            *writes,
            *instances,
            *properties,
        ]
        lines = [f"  {part}" if part else "" for line in body for part in _wrapped(line)]
        return "\n".join([self._head(), *lines, "endmodule"])

    def _guarded(self, write: Any, *arguments: Any) -> Any:
        """Return what a function returns; or nothing, if a wire is needed first."""
        try:
            return write(*arguments)
        except NeedsWire as needed:
            self.missing.append(needed)
            return None

    # Declarations

    def _head(self) -> str:
        lines = [f"module {self.name} ("]
        for place, (name, direction, width) in enumerate(self.ports):
            span = f" [{width - 1}:0]" if width > 1 else ""
            kind = "reg" if name in self.registers else "wire"
            comma = "," if place < len(self.ports) - 1 else ""
            known = self.attributes.get(name, "")
            line = f"  {known}{direction} {kind}{span} {name}{self.initial.get(name, '')}{comma}"
            remark = self.remarks.get(name, "")
            if remark and len(line) + len(remark) + 5 <= WIDTH:
                line = f"{line}  // {remark}"
            elif remark:
                lines += [f"  // {part}" for part in textwrap.wrap(remark, WIDTH - 5)]
            lines.append(line)
        return "\n".join([*lines, ");"])

    def _plain(self, variables: list[Variable], wires: list[Variable]) -> list[Variable]:
        """Those that are declared before they get a value."""
        others = set(map(id, wires))
        return [v for v in variables if not v.port and id(v) not in others]

    def _declaration(self, variable: Variable) -> str:
        kind = "reg" if variable.name in self.registers else "wire"
        span = f" [{variable.width - 1}:0]" if variable.width > 1 else ""
        known = self.attributes.get(variable.name, "")
        return f"{known}{kind}{span} {variable.name}{self.initial.get(variable.name, '')};"

    def _wires(self, wires: list[Variable]) -> list[str]:
        """Each with its expression, behind those that it reads."""
        texts: dict[str, str] = {}
        reads: dict[str, set[str]] = {}
        for variable in wires:
            self.printer.read = set()
            text = self._guarded(self._definition, variable)
            texts[variable.name] = text or ""
            reads[variable.name] = self.printer.read & {v.name for v in wires if not v.port}
        order: list[str] = []
        early: list[str] = []
        state: dict[str, int] = {}
        by_name = {variable.name: variable for variable in wires}

        def visit(name: str) -> None:
            stack = [(name, iter(sorted(reads[name])))]
            state[name] = 1
            while stack:
                current, left = stack[-1]
                for other in left:
                    if other not in state:
                        state[other] = 1
                        stack.append((other, iter(sorted(reads[other]))))
                        break
                    if state[other] == 1 and other not in early:
                        early.append(other)
                else:
                    state[current] = 2
                    order.append(current)
                    stack.pop()

        for variable in wires:
            if variable.name not in state:
                visit(variable.name)
        lines = [self._declaration(by_name[name]) for name in early if not by_name[name].port]
        for name in order:
            variable = by_name[name]
            loop = self._guarded(self._loop, variable) if variable.cell is None else None
            if loop:
                is_declared = variable.port or name in early
                lines += [*([] if is_declared else [self._declaration(variable)]), *loop]
            elif variable.port or name in early:
                lines.append(f"assign {name} = {texts[name]};")
            else:
                lines.append(self._declaration(variable)[:-1] + f" = {texts[name]};")
        return lines

    def _definition(self, variable: Variable) -> str:
        if variable.cell is None and variable.port:
            # Others may have its value, and its name.
            return self.printer.assigned(variable.nets, variable)
        return self.printer.definition(variable)

    def _loop(self, variable: Variable) -> list[str] | None:
        """The parts of a value, in a loop where many are alike; None where not."""
        if len(self.circuit.chunks(variable.nets, variable)) < FEWEST:
            return None
        parts = self.printer.parts(variable.nets, variable)
        index = self.circuit.free_name("k")
        series = find_series([(width, text) for _, width, text in parts], index)
        if series is None:
            return None
        size = parts[series.first][1]
        start = parts[series.first][0]
        place = f"{index}" if size == 1 else f"{size}*{index}"
        place += f" + {start}" if start else ""
        place = f"[{place}]" if size == 1 else f"[{place} +: {size}]"
        count = series.end - series.first
        label = self.circuit.free_name(f"{variable.name}_parts")
        lines = [
            f"for ({index} = 0; {index} < {count}; {index} = {index} + 1) begin : {label}",
            f"  assign {variable.name}{place} = {series.text};",
            "end",
        ]
        self.index = index
        end = start + count * size
        for low, high in ((0, start), (end, variable.width)):
            if low < high:
                value = self.printer.assigned(variable.nets[low:high], variable)
                lines.append(f"assign {sliced(variable, low, high)} = {value};")
        return lines

    # Blocks

    def _clock(self, net: int) -> str:
        return self.printer.exact((net,))

    def _sequential(self, held: list[Variable]) -> list[str]:
        by_clock: dict[tuple[int, str, int], list[Variable]] = defaultdict(list)
        for variable in held:
            assert variable.cell is not None
            cell = self.circuit.cells[variable.cell]
            by_clock[cell.clk, cell.clk_edge, getattr(cell, "arst", 0)].append(variable)
        lines: list[str] = []
        for (clock, edge, reset), variables in by_clock.items():
            at_once = f" or posedge {self._clock(reset)}" if reset else ""
            head = f"always @({edge}edge {self._clock(clock)}{at_once})"
            targets = [self._target(v) for v in variables]
            with_reset = [t for t in targets if t.reset is not None]
            without = [t for t in targets if t.reset is None]
            for some in (with_reset, without):
                plain = [t for t in some if not t.statements]
                others = [t for t in some if t.statements]
                blocks = grouped(others, lambda _block, _target: True)
                if plain:
                    blocks.insert(0, Block(plain))
                for block in blocks:
                    lines += self._guarded(self._clocked, head, block, clock) or []
        return lines

    def _target(self, variable: Variable) -> Target:
        assert variable.cell is not None
        cell = self.circuit.cells[variable.cell]
        if isinstance(cell, _nir.SyncReadPort):
            return Target(variable, variable.cell, None, [])
        own = bits_of(variable.cell, 0, variable.width)
        initial = _bits(cell.init, variable.width)
        self.initial[variable.name] = f" = {literal(initial)}"
        reset = initial if cell.arst else None
        index = list_of(self.circuit, cell.data)
        if index is None:
            return Target(variable, variable.cell, cell.data, [], reset)
        default = self.circuit.cells[index].default
        target = Target(
            variable, index, None if default == own else default, self.usage.processes[index], reset
        )
        if reset is None:
            found = self.circuit.cells[0].ports_i.get(self._reset(cell.clk))
            split_reset(target, bits_of(0, found[0], found[0] + 1)[0] if found else None)
        return target

    def _reset(self, clock: int) -> str:
        """The name of the reset that belongs to a clock."""
        return reset_beside(self._clock(clock))

    def _clocked(self, head: str, block: Block, clock: int) -> list[str]:
        writer = BlockWriter(self.printer, {t.cell: t.variable for t in block.targets}, "<=")
        lines = []
        for target in block.targets:
            cell = self.circuit.cells[target.variable.cell or 0]
            if isinstance(cell, _nir.SyncReadPort):
                lines += self._read(target.variable, cell)
            elif target.default is not None:
                lines.append(writer.assignment(target.variable, 0, target.default))
        lines += writer.lines(block.statements)
        resets = [
            writer.assignment(target.variable, 0, target.reset)
            for target in block.targets
            if target.reset is not None
        ]
        if resets:
            tail = under("else", lines) if lines else []
            if lines and is_one_if(lines):
                tail = [f"else {lines[0]}", *lines[1:]]
            start = under(f"if ({self._reset(clock)})", resets)
            if start[-1] == "end" and tail:
                start[-1] = f"end {tail.pop(0)}"
            lines = [*start, *tail]
        return ["", *self._place(block), *_under(head, lines)]

    def _read(self, variable: Variable, cell: Any) -> list[str]:
        name = self.circuit.cells[cell.memory].name
        address = self.printer.value(cell.addr)
        lines = [f"{variable.name} <= {name}[{self.printer.exact(cell.addr)}];"]
        for index in cell.transparent_for:
            # What is written in the same cycle is read.
            port = self.circuit.cells[index]
            same = f"{clear_text(self.printer.exact(port.addr))} == {address.within(EQUAL)}"
            for start, end in _runs(port.en):
                value = self.printer.assigned(port.data[start:end])
                line = f"{sliced(variable, start, end)} <= {value};"
                enable = self.printer.condition(port.en[start]).within(BOTH - 1)
                lines += under(f"if ({enable} && {same})", [line])
        if cell.en == 1:
            return lines
        return under(f"if ({self.printer.condition(cell.en).text})", lines)

    def _combinational(self, processes: list[Variable]) -> list[str]:
        reads = {v.name: self._sources(v) for v in processes}
        targets = []
        for variable in processes:
            assert variable.cell is not None
            default = self.circuit.cells[variable.cell].default
            statements = self.usage.processes[variable.cell]
            targets.append(Target(variable, variable.cell, default, statements))

        placed: dict[str, Block] = {}

        def may_join(block: Block, target: Target) -> bool:
            # Not if there is a way from one to the other: a block does not see its own writes.
            names = {t.variable.name for t in block.targets} | {target.variable.name}
            pending = [source for name in names for source in reads[name]]
            seen: set[str] = set()
            while pending:
                name = pending.pop()
                if name in names:
                    return False
                if name not in seen:
                    seen.add(name)
                    group = placed.get(name)
                    same = [t.variable.name for t in group.targets] if group else [name]
                    pending += [source for n in same for source in reads[n]]
            return True

        blocks: list[Block] = []
        for target in targets:
            own = {s.cell for s in target.statements if isinstance(s, Decision)}
            found = next((b for b in blocks if own & b.decisions and may_join(b, target)), None)
            if found is None:
                found = Block()
                blocks.append(found)
            found.targets.append(target)
            placed[target.variable.name] = found
        lines: list[str] = []
        for block in blocks:
            lines += self._guarded(self._always, block) or []
        return lines

    def _sources(self, variable: Variable) -> set[str]:
        """Processes' variables that one reads, through wires too."""
        found: set[str] = set()
        seen: set[int] = set()
        circuit = self.circuit
        pending = [variable.cell or 0]
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            cell = circuit.cells[index]
            if isinstance(cell, _nir.FlipFlop | _nir.SyncReadPort | _nir.Instance | _nir.Top):
                continue
            for net in cell.input_nets():
                if net < 2:
                    continue
                home = circuit.home(net)
                is_held = home is not None and home.name in self.registers
                driver = circuit.cells[home.cell] if home is not None and home.cell else None
                if home is not None and is_held and isinstance(driver, _nir.AssignmentList):
                    found.add(home.name)
                else:
                    pending.append(net >> 16)
        if variable.name in found:
            raise UnsupportedCell(f"{variable.name} depends on itself")
        return found

    def _beginning(self) -> list[str]:
        """Lines that make `always @*` run at time 0.

        Registers that are declared with a value do not change then: in SystemVerilog, a block that
        reads nothing else would leave its outputs unknown until one of them does.
        """
        if not self.begun:
            return []
        return [
            "",
            "// Rises at time 0, behind all else, so that each always @* runs once.",
            f"reg {self.begun};",
            f"initial {self.begun} <= 1'b1;",
            "",
        ]

    def _always(self, block: Block) -> list[str]:
        self.begun = self.circuit.free_name("begun")
        writer = BlockWriter(self.printer, {t.cell: t.variable for t in block.targets}, "=")
        lines = [f"if ({self.begun}) begin end"]
        lines += [
            writer.assignment(target.variable, 0, target.default)
            for target in block.targets
            if target.default is not None
        ]
        lines += writer.lines(block.statements)
        return ["", *self._place(block), *_under("always @*", lines)]

    def _place(self, block: Block) -> list[str]:
        """Return a comment on where the source has it."""
        found = [
            self.circuit.cells[statement.cell].src_loc
            for statement in block.statements
            if isinstance(statement, Decision)
        ]
        found += [self.circuit.cells[t.variable.cell or 0].src_loc for t in block.targets]
        places = sorted({_place(location) for location in found if location} - {""})
        return [f"// {places[0]}"] if places else []

    # Memories, instances, properties

    def _memories(self) -> tuple[list[str], list[str]]:
        declared: list[str] = []
        written: list[str] = []
        read = self.usage._memories()
        for index in sorted(read):
            cell = self.circuit.cells[index]
            span = f" [{cell.width - 1}:0]" if cell.width > 1 else ""
            declared.append(f"reg{span} {cell.name} [0:{cell.depth - 1}];")
            for port in self.circuit.cells:
                if isinstance(port, _nir.SyncWritePort) and port.memory == index:
                    written += self._guarded(self._write, cell.name, port) or []
        return declared, written

    def _write(self, name: str, port: Any) -> list[str]:
        word = f"{name}[{self.printer.exact(port.addr)}]"
        lines: list[str] = []
        for start, end in _runs(port.en):
            span = "" if end - start == len(port.en) else f"[{end - 1}:{start}]"
            line = f"{word}{span} <= {self.printer.assigned(port.data[start:end])};"
            if port.en[start] == 1:
                lines.append(line)
            elif port.en[start] != 0:
                lines += under(f"if ({self.printer.condition(port.en[start]).text})", [line])
        head = f"always @({port.clk_edge}edge {self._clock(port.clk)})"
        return ["", *_under(head, lines)]

    def _instances(self) -> list[str]:
        lines: list[str] = []
        for index, cell in enumerate(self.circuit.cells):
            if isinstance(cell, _nir.Instance):
                lines += self._guarded(self._instance, index, cell) or []
        return lines

    def _instance(self, index: int, cell: Any) -> list[str]:
        # A handshake's wires together, whichever way they go.
        pins: dict[str, list[tuple[str, str]]] = {}
        interfaces = {_stem(port) for port in (*cell.ports_i, *cell.ports_o)}
        for port, nets in cell.ports_i.items():
            if nets:
                pins.setdefault(_stem(port, interfaces), []).append((port, self._pin(nets)))
        for port, (start, width) in cell.ports_o.items():
            if width:
                variable = self.circuit.home(bits_of(index, start, start + 1)[0])
                used = variable is not None and variable.name in self.usage.variables
                text = variable.name if used and variable else ""
                pins.setdefault(_stem(port, interfaces), []).append((port, text))
        lines = ["", f"{cell.type} {self.circuit.instances[cell.name]} ("]
        alone = pins.pop("", [])
        clocking = " ".join(f".{port}({text})," for port, text in alone if port in CLOCKING)
        others = [pin for pin in alone if pin[0] not in CLOCKING]
        pins = {"": others, **pins} if others else pins
        for stem in pins.values():
            texts = [f".{port}({text})," for port, text in stem]
            whole = " ".join([*([clocking] if clocking else []), *texts])
            if clocking and len(whole) > WIDTH - 6:
                lines.append(f"  {clocking}")
            elif clocking:
                texts = [whole]
            line = clocking = ""
            for text in texts:
                if line and len(line) + len(text) > WIDTH - 6:
                    lines.append(f"  {line}")
                    line = ""
                line = f"{line} {text}".strip()
            lines.append(f"  {line}")
        lines += [f"  {clocking}"] if clocking else []
        lines[-1] = lines[-1].removesuffix(",") + ");"
        return lines

    def _pin(self, nets: Nets) -> str:
        """What is connected to an instance's input."""
        text = self.printer.exact(nets)
        chunks = self.circuit.chunks(nets)
        if len(chunks) >= FEWEST and len(text) > WIDTH and nets in self.circuit.pin_names:
            parts = [(width, part) for _, width, part in self.printer.parts(nets)]
            if find_series(parts, self.circuit.free_name("k")):
                # A loop needs a variable.
                raise NeedsWire(nets=nets)
        return text

    def _properties(self) -> list[str]:
        lines: list[str] = []
        for cell in self.circuit.cells if self.circuit.has_assertions else ():
            if isinstance(cell, _nir.SyncProperty | _nir.AsyncProperty):
                lines += self._guarded(self._property, cell) or []
        return lines

    def _property(self, cell: Any) -> list[str]:
        check = f"{cell.kind} ({self.printer.condition(cell.test).text});"
        enable = self.printer.condition(cell.en).text
        body = [check] if cell.en == 1 else under(f"if ({enable})", [check])
        if isinstance(cell, _nir.SyncProperty):
            return ["", *_under(f"always @({cell.clk_edge}edge {self._clock(cell.clk)})", body)]
        return ["", *_under("always @*", body)]


def _bits(value: int, width: int) -> Nets:
    return tuple((value >> bit) & 1 for bit in range(width))


def _runs(nets: Nets) -> list[tuple[int, int]]:
    """Begin and end of runs of the same net."""
    starts = [k for k, net in enumerate(nets) if k == 0 or nets[k - 1] != net]
    return list(zip(starts, [*starts[1:], len(nets)], strict=True))


def _stem(port: str, interfaces: Collection[str] = ()) -> str:
    """The interface that a port is of; a field may have a name of several words."""
    for last in ("_valid", "_ready", "_payload"):
        if port.endswith(last):
            return port[: -len(last)]
    stem = port.rpartition("_")[0]
    wider = [other for other in interfaces if other and stem.startswith(f"{other}_")]
    return min([stem, *wider], key=len)


def _under(head: str, lines: list[str]) -> list[str]:
    """Statements under `always`; an `if` needs no `begin` there."""
    if len(lines) == 1 and len(head) + len(lines[0]) < WIDTH - 6:
        return [f"{head} {lines[0]}"]
    if lines and is_one_if(lines):
        return [head, *("  " + line for line in lines)]
    return under(head, lines)


def _place(location: Any) -> str:
    """File and line as seen from the package."""
    path = str(location[0]).replace("\\", "/")
    _, found, below = path.rpartition("/hw/")
    return f"hw/{below}:{location[1]}" if found else ""


def _wrapped(line: str) -> list[str]:
    """A line in as many as it takes, broken behind commas and where it is nested least."""
    if len(line) <= WIDTH - 2 or line.lstrip().startswith("//"):
        return [line]
    words = line.split()
    indent = " " * (len(line) - len(line.lstrip()))
    spans = [WIDTH - 2 - len(indent), WIDTH - 6 - len(indent)]
    # Behind each word: what a break costs there, where a line is 1.
    depth, costs = 0, []
    for word in words:
        depth += sum(word.count(c) for c in "([{") - sum(word.count(c) for c in ")]}")
        costs.append(0.05 * min(depth, 4) + (0.0 if word.endswith(",") else 0.15))
    # The least cost of the first words, and where the last line of them begins.
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, len(words) + 1):
        found, length = (float("inf"), 0), -1
        for start in range(end - 1, -1, -1):
            length += len(words[start]) + 1
            if length > spans[start > 0] and start < end - 1:
                break
            cost = best[start][0] + 1 + (costs[start - 1] if start else 0.0)
            if cost < found[0] - 1e-9:
                found = (cost, start)
        best.append(found)
    lines: list[str] = []
    end = len(words)
    while end:
        start = best[end][1]
        lines.append(" ".join(words[start:end]))
        end = start
    lines.reverse()
    return [indent + lines[0], *(f"{indent}    {text}" for text in lines[1:])]
