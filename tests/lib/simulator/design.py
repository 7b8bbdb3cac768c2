"""A design as Python functions, in the order in which they must run.

The statements of each fragment and clock domain fall into groups that share no output. A group of
combinational statements becomes a function that computes its outputs and, where one has changed,
marks all functions that read it. The functions are numbered so that, without combinational loops
between groups, each reads only what those before it compute.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from amaranth.hdl import Fragment, MemoryData, Shape, Signal
from amaranth.hdl._ast import Assign, SignalDict
from amaranth.hdl._mem import MemoryInstance
from amaranth.hdl._xfrm import LHSMaskCollector

from tests.lib.simulator.python_code import HELPERS, MARK, Body, granular, has_properties, ones


class Group:
    """Statements that are computed together, and what they read and drive."""

    def __init__(self, design: "Design", fragment: Fragment, domain: str) -> None:
        self.domain = domain
        self.body = Body(design.index_of, fragment.domains)
        self.masks: dict[int, int] = {}
        self.memories: set[int] = set()
        """Memories that are read combinationally."""
        self.always = False
        """Whether it runs at every edge, even if nothing it reads has changed."""


class Design:
    """The state of a design and the functions on it.

    Members
    -------
    values, initial
        Of each signal, now and after reset.
    rows, initial_rows
        Of each memory.
    dirty, dirty_checks, dirty_edges
        Flags of the functions that must run: `settle`, `checks` and, by domain, `edges`.
    readers
        Of each signal: flags to set when it changes, as pairs of flags and index.
    """

    def __init__(self, fragment: Fragment) -> None:
        self.values: list[int] = []
        self.initial: list[int] = []
        self.combinational: set[int] = set()
        self._indices: dict[int, int] = {}
        self._signals: list[Signal] = []
        self.rows: list[list[int]] = []
        self.initial_rows: list[list[int]] = []
        self._memories: dict[int, int] = {}
        self._memory_data: list[MemoryData] = []
        self.aliases: set[int] = set()
        self._find_aliases(fragment)
        groups = list(self._groups(fragment))
        self._compile(groups)

    def index_of(self, signal: Signal) -> int:
        index = self._indices.get(id(signal))
        if index is None:
            index = self._indices[id(signal)] = len(self.values)
            # Keeps it alive, so that its id stays its own.
            self._signals.append(signal)
            self.values.append(signal.init)
            self.initial.append(signal.init)
        return index

    def drives(self, signal: Signal) -> bool:
        """Return True if combinational logic drives the signal."""
        return id(signal) in self.aliases or self._indices.get(id(signal)) in self.combinational

    def memory_of(self, memory: MemoryData) -> int:
        index = self._memories.get(id(memory))
        if index is None:
            index = self._memories[id(memory)] = len(self.rows)
            self._memory_data.append(memory)
            self.rows.append(list(memory._init._raw))
            self.initial_rows.append(list(memory._init._raw))
        return index

    def reset(self) -> None:
        self.values[:] = self.initial
        for rows, initial in zip(self.rows, self.initial_rows, strict=True):
            rows[:] = initial
        self.updates.clear()
        self.writes.clear()
        for flags in (self.dirty, self.dirty_checks, *self.dirty_edges.values()):
            flags[:] = b"\1" * len(flags)

    def settle(self) -> None:
        """Compute what depends on what has changed."""
        dirty, functions = self.dirty, self.functions
        left = 100 * len(functions) + 1000
        at = dirty.find(1)
        while at >= 0:
            dirty[at] = 0
            functions[at]()
            # A loop between groups marks an earlier one.
            at = dirty.find(1)
            left -= 1
            if not left:
                raise RuntimeError("combinational logic does not settle")
        checks = self.dirty_checks
        at = checks.find(1)
        while at >= 0:
            checks[at] = 0
            self.checks[at]()
            at = checks.find(1, at + 1)

    def edge(self, domains: Iterable[str]) -> None:
        """Rising edges, at once: registers and memories take their next values."""
        for domain in domains:
            dirty, functions = self.dirty_edges[domain], self.edges[domain]
            at = dirty.find(1)
            while at >= 0:
                dirty[at] = 0
                functions[at]()
                at = dirty.find(1, at + 1)
            for function in self.always[domain]:
                function()
        values, readers = self.values, self.readers
        for index, value, mask in self.updates:
            if mask is not None:
                value = values[index] & ~mask | value & mask
            if values[index] != value:
                values[index] = value
                for flags, reader in readers[index]:
                    flags[reader] = 1
        self.updates.clear()
        for memory, row, value, mask in self.writes:
            self.write(memory, row, self.rows[memory][row] & ~mask | value & mask)
        self.writes.clear()

    def update(self, index: int, value: int) -> None:
        """Change a signal from outside."""
        if self.values[index] != value:
            self.values[index] = value
            # A signal that is unknown to the design is read by nobody.
            for flags, reader in self.readers.get(index, ()):
                flags[reader] = 1
            for flags, driver in self.drivers.get(index, ()):
                flags[driver] = 1

    def write(self, memory: int, row: int, value: int) -> None:
        if self.rows[memory][row] != value:
            self.rows[memory][row] = value
            for flags, reader in self.memory_readers[memory]:
                flags[reader] = 1

    # Groups.

    def _find_aliases(self, fragment: Fragment) -> None:
        """A signal that is always another one is the same one; `connect` makes hundreds."""
        drivers: Counter[int] = Counter()
        copies: dict[int, tuple[Signal, Signal]] = {}
        fragments = [fragment]
        for part in fragments:
            fragments += [inner for inner, _, _ in part.subfragments]
            for domain, statements in part.statements.items():
                for statement in statements:
                    drivers.update(id(signal) for signal in statement._lhs_signals())
                    if domain == "comb" and (copy := _copied(statement)):
                        copies[id(copy[0])] = copy
            if isinstance(part, MemoryInstance):
                for port in part._read_ports:
                    drivers.update(id(signal) for signal in port._data._lhs_signals())
        copies = {key: copy for key, copy in copies.items() if drivers[key] == 1}
        for key, (copy, original) in copies.items():
            seen = {key}
            while id(original) in copies and id(original) not in seen:
                seen.add(id(original))
                original = copies[id(original)][1]
            if id(original) not in seen:
                self._indices[key] = self.index_of(original)
                self._signals.append(copy)
                self.aliases.add(key)

    def _groups(self, fragment: Fragment) -> Iterator[Group]:
        for domain, statements in fragment.statements.items():
            if domain == "comb":
                statements = [each for each in statements if not self._is_alias(each)]
            for group in _independent(statements):
                yield from self._group(fragment, domain, group)
        if isinstance(fragment, MemoryInstance):
            yield from self._memory_groups(fragment)
        for inner, _, _ in fragment.subfragments:
            yield from self._groups(inner)

    def _is_alias(self, statement: Any) -> bool:
        copy = _copied(statement)
        return copy is not None and id(copy[0]) in self.aliases

    def _group(self, fragment: Fragment, domain: str, statements: list[Any]) -> Iterator[Group]:
        assigned = LHSMaskCollector()
        assigned.visit_stmt(statements)
        checked = [statement for statement in statements if has_properties(statement)]
        if domain != "comb":
            group = Group(self, fragment, domain)
            for signal, _ in assigned.masks():
                index = self.index_of(signal)
                group.body.line(f"n{index} = {MARK}{index}{MARK}")
            for statement in statements:
                group.body.statement(statement, assigns=True, properties=True)
            group.always = bool(checked)
            self._reset(fragment, group, [signal for signal, _ in assigned.masks()])
            self._drive(group, assigned.lhs)
            yield group
            return
        if assigned.lhs:
            group = Group(self, fragment, "comb")
            for signal, _ in assigned.masks():
                index = self.index_of(signal)
                self.combinational.add(index)
                group.body.line(f"n{index} = {signal.init}")
            for statement in statements:
                if statement._lhs_signals():
                    group.body.statement(statement, assigns=True, properties=False)
            self._drive(group, assigned.lhs)
            yield group
        if checked:
            group = Group(self, fragment, "comb")
            for statement in checked:
                group.body.statement(statement, assigns=False, properties=True)
            yield group

    def _drive(self, group: Group, masks: SignalDict) -> None:
        for signal, mask in masks.items():
            if signal.shape().signed and mask >> (len(signal) - 1) & 1:
                mask |= -1 << len(signal)
            group.masks[self.index_of(signal)] = mask

    def _reset(self, fragment: Fragment, group: Group, signals: list[Signal]) -> None:
        domain = fragment.domains[group.domain]
        if domain.clk_edge != "pos" or domain.async_reset:
            raise NotImplementedError("only rising edges and synchronous resets are simulated")
        signals = [signal for signal in signals if not signal.reset_less]
        if domain.rst is None or not signals:
            return
        group.body.line(f"if {group.body.read(domain.rst)[0]}:")
        with group.body.indented():
            for signal in signals:
                group.body.line(f"n{self.index_of(signal)} = {signal.init}")

    def _memory_groups(self, fragment: MemoryInstance) -> Iterator[Group]:
        memory = self.memory_of(fragment._data)
        if getattr(fragment._data.shape, "signed", False):
            raise NotImplementedError("memories of signed values are not simulated")
        depth = fragment._data.depth
        domains = {port._domain for port in [*fragment._read_ports, *fragment._write_ports]}
        for domain in domains:
            group = Group(self, fragment, domain)
            group.always = domain != "comb"
            body = group.body
            driven = LHSMaskCollector()
            written = {}
            for port in fragment._read_ports:
                if port._domain == domain:
                    driven.visit_value(port._data, ~0)
            for signal, _ in driven.masks():
                index = self.index_of(signal)
                if domain == "comb":
                    self.combinational.add(index)
                kept = signal.init if domain == "comb" else f"{MARK}{index}{MARK}"
                body.line(f"n{index} = {kept}")
            if domain != "comb":
                # As in Amaranth's simulator: an enabled read comes after the reset.
                self._reset(fragment, group, [signal for signal, _ in driven.masks()])
            for k, port in enumerate(fragment._write_ports):
                if port._domain == domain:
                    written[k] = self._write_port(body, port, memory, depth)
            for port in fragment._read_ports:
                if port._domain == domain:
                    self._read_port(body, port, memory, depth, written)
            if domain == "comb":
                group.memories.add(memory)
            self._drive(group, driven.lhs)
            yield group

    @staticmethod
    def _write_port(body: Body, port: Any, memory: int, depth: int) -> tuple[str, str, str]:
        address = body.variable(body.unsigned(port._addr))
        value = body.variable(body.unsigned(port._data))
        if len(port._en) == 1:
            enable = body.variable(f"{ones(len(port._data))} if {body.unsigned(port._en)} else 0")
        else:
            enable = body.variable(body.unsigned(granular(port._en, port._granularity)))
        body.line(f"if {enable} and {address} < {depth}:")
        with body.indented():
            body.line(f"w.append(({memory}, {address}, {value}, {enable}))")
        return address, value, enable

    @staticmethod
    def _read_port(body: Body, port: Any, memory: int, depth: int, written: dict) -> None:
        width = len(port._data)
        if port._domain == "comb":
            address = body.variable(body.unsigned(port._addr))
            code = body.variable(f"r[{memory}][{address}] if {address} < {depth} else 0")
            body.assign(port._data, code, width, False)
            return
        body.line(f"if {body.unsigned(port._en)}:")
        with body.indented():
            address = body.variable(body.unsigned(port._addr))
            code = body.variable(f"r[{memory}][{address}] if {address} < {depth} else 0")
            for k in port._transparent_for:
                at, value, enable = written[k]
                body.line(f"if {address} == {at}:")
                with body.indented():
                    body.line(f"{code} = {code} & ~{enable} | {value} & {enable}")
            body.assign(port._data, code, width, False)

    # Functions.

    def _compile(self, groups: list[Group]) -> None:
        combinational = _ordered([g for g in groups if g.domain == "comb" and g.masks])
        checks = [g for g in groups if g.domain == "comb" and not g.masks]
        domains = list(dict.fromkeys(g.domain for g in groups if g.domain != "comb"))
        on_change = {d: [g for g in groups if g.domain == d and not g.always] for d in domains}
        at_edge = {d: [g for g in groups if g.domain == d and g.always] for d in domains}

        self.dirty = bytearray(len(combinational))
        self.dirty_checks = bytearray(len(checks))
        self.dirty_edges = {d: bytearray(len(g)) for d, g in on_change.items()}
        self.updates: list[tuple[int, int, int | None]] = []
        self.writes: list[tuple[int, int, int, int]] = []

        names = {"v": self.values, "r": self.rows, "u": self.updates, "w": self.writes}
        flagged = [("d", self.dirty, combinational), ("c", self.dirty_checks, checks)]
        flagged += [(f"e{k}", self.dirty_edges[d], on_change[d]) for k, d in enumerate(domains)]
        readers: dict[int, list[tuple[str, int]]] = {}
        memory_readers: dict[int, list[tuple[str, int]]] = {}
        drivers: dict[int, list[tuple[str, int]]] = {}
        for name, flags, members in flagged:
            names[name] = flags
            for k, group in enumerate(members):
                for index in group.body.inputs:
                    readers.setdefault(index, []).append((name, k))
                for memory in group.memories:
                    memory_readers.setdefault(memory, []).append((name, k))
                if name != "d":
                    for index in group.masks:
                        drivers.setdefault(index, []).append((name, k))
        self.readers = _resolved(readers, names, range(len(self.values)))
        self.memory_readers = _resolved(memory_readers, names, range(len(self.rows)))
        self.drivers = _resolved(drivers, names, drivers)

        shared = Counter(index for group in groups for index in group.masks)
        source: list[str] = []
        functions: dict[int, str] = {}
        arguments = ", ".join(f"{name}={name}" for name in names)
        for number, group in enumerate(groups):
            functions[id(group)] = f"f{number}"
            source.append(f"def f{number}({arguments}):")
            source += _function(group, shared, readers)
        namespace = {**HELPERS, **names}
        exec(compile("\n".join(source), "<design>", "exec"), namespace)

        def compiled(members: list[Group]) -> list[Any]:
            return [namespace[functions[id(group)]] for group in members]

        self.functions = compiled(combinational)
        self.checks = compiled(checks)
        self.edges = {d: compiled(members) for d, members in on_change.items()}
        self.always = {d: compiled(members) for d, members in at_edge.items()}
        self.reset()


def _copied(statement: Any) -> tuple[Signal, Signal] | None:
    """The copy and the original, of an assignment that is no more than that."""
    if type(statement) is not Assign:
        return None
    copy, original = statement.lhs, statement.rhs
    if type(copy) is not Signal or type(original) is not Signal:
        return None
    same = Shape.cast(copy.shape()) == Shape.cast(original.shape())
    return (copy, original) if same and copy is not original else None


def _resolved(marks: dict[int, list[tuple[str, int]]], names: dict, keys: Iterable[int]) -> dict:
    return {key: [(names[name], k) for name, k in marks.get(key, ())] for key in keys}


def _function(group: Group, shared: Counter[int], readers: dict) -> list[str]:
    lines = list(group.body.lines)
    for index, mask in group.masks.items():
        old = f"{MARK}{index}{MARK}"
        if group.domain != "comb":
            kept = mask if shared[index] > 1 else None
            lines += [f" if n{index} != {old}: u.append(({index}, n{index}, {kept}))"]
            continue
        if shared[index] > 1:
            lines.append(f" n{index} = v[{index}] & {~mask} | n{index} & {mask}")
        marks = "".join(f"{name}[{k}] = " for name, k in readers.get(index, ()))
        lines.append(f" if n{index} != v[{index}]:")
        lines.append(f"  v[{index}] = n{index}")
        if marks:
            lines.append(f"  {marks}1")
    text = "\n".join(lines) or " pass"
    # What is read more than once is read once.
    pieces = text.split(MARK)
    uses = Counter(pieces[1::2])
    pieces[1::2] = [f"s{k}" if uses[k] > 1 else f"v[{k}]" for k in pieces[1::2]]
    return [*(f" s{k} = v[{k}]" for k, count in uses.items() if count > 1), "".join(pieces)]


def _independent(statements: Iterable[Any]) -> list[list[Any]]:
    """Statements by what they drive: two groups drive no common signal."""
    group_of: dict[int, list[Any]] = {}
    members: dict[int, list[int]] = {}
    groups: list[list[tuple[int, Any]]] = []
    for order, statement in enumerate(statements):
        keys = [id(signal) for signal in statement._lhs_signals()]
        found = []
        for key in keys:
            group = group_of.get(key)
            if group is not None and not any(group is other for other in found):
                found.append(group)
        merged = found[0] if found else []
        if not found:
            groups.append(merged)
            members[id(merged)] = []
        for other in found[1:]:
            merged += other
            for key in members[id(other)]:
                group_of[key] = merged
            members[id(merged)] += members.pop(id(other))
            groups = [group for group in groups if group is not other]
        merged.append((order, statement))
        for key in keys:
            group_of[key] = merged
        members[id(merged)] += keys
    return [
        [statement for _, statement in sorted(group, key=lambda item: item[0])] for group in groups
    ]


def _ordered(groups: list[Group]) -> list[Group]:
    """Each after those it reads from, except in loops (Tarjan's components, in order)."""
    driven_by: dict[int, list[int]] = {}
    for k, group in enumerate(groups):
        for index in group.masks:
            driven_by.setdefault(index, []).append(k)
    sources = [
        sorted({k for index in group.body.inputs for k in driven_by.get(index, ())})
        for group in groups
    ]
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    waiting: set[int] = set()
    result: list[Group] = []
    for root in range(len(groups)):
        if root in number:
            continue
        path = [(root, iter(sources[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        waiting.add(root)
        while path:
            node, rest = path[-1]
            for source in rest:
                if source not in number:
                    number[source] = low[source] = len(number)
                    stack.append(source)
                    waiting.add(source)
                    path.append((source, iter(sources[source])))
                    break
                if source in waiting:
                    low[node] = min(low[node], number[source])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == number[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        waiting.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    result += [groups[member] for member in reversed(component)]
    return result
