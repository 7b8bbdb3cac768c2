"""The environment of a proof: free inputs that keep a port's rules, and watches that assert them.

Everything runs in the component's own clock domain, with a reset that may come at any time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

# Amaranth 0.5 implements the solver's free values, but does not export them.
from amaranth.hdl import (
    Assert,
    Assume,
    Cat,
    Const,
    Cover,
    Elaboratable,
    Fragment,
    Module,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.hdl._ast import AnySeq, Assign, Property, Statement, Switch
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.tracer import get_src_loc

Condition = tuple[Value, Value]
"""A rule: whenever the first holds, the second does."""

Rules = Callable[["Bench", "Port"], Sequence[Condition]]
"""States the rules of what a port carries; they are looked at while `valid` is high.

If it has an `interface`, as a `Contract` does, the bench records on which side it is stated.
"""


@dataclass(frozen=True)
class Contract:
    """Rules of the payloads at an interface.

    The proof of its source asserts them, and that of its sink assumes them.

    Attributes
    ----------
    interface : str
        The name under which both sides are recorded (`Bench.sides`).
    rules : Rules
    """

    interface: str
    rules: Rules

    def __call__(self, bench: "Bench", port: "Port") -> Sequence[Condition]:
        return self.rules(bench, port)


@dataclass(frozen=True)
class Port:
    """A ready/valid port, whatever its wires are called.

    Attributes
    ----------
    valid, ready : Value
    payload : Any
        As the rules want to see it.
    moves : Value
        A transfer happens now.
    waiting : Signal
        A transfer was offered in the cycle before, and not taken.
    unchanged : Value
        The payload is that of the cycle before.
    """

    valid: Value
    ready: Value
    payload: Any
    moves: Value
    waiting: Signal
    unchanged: Value


def anything(stream: Any) -> list[Assign]:
    """Let a stream that nothing else drives offer whatever it likes, whenever it likes."""
    payload = Value.cast(stream.payload)
    return [stream.valid.eq(AnySeq(1)), payload.eq(AnySeq(len(payload)))]


def anything_at(component: wiring.Component, flow: wiring.Flow) -> list[Assign]:
    """Let all of a component's ports that lead one way be whatever they like, at any time."""
    wires = [
        Value.cast(value)
        for _path, member, value in component.signature.flatten(component)
        if member.flow is flow
    ]
    return [wire.eq(AnySeq(len(wire))) for wire in wires]


def channel(axi: Any, name: str, *fields: str) -> tuple[SimpleNamespace, list[str]]:
    """One channel of an AXI port as a record of its handshake and fields, and the fields' names.

    `Bench.drive_record` and `Bench.watch_record` take the two.
    """
    members = {field: getattr(axi, f"{name}{field}") for field in ("valid", "ready", *fields)}
    return SimpleNamespace(**members), list(fields)


class Inside(Elaboratable):
    """A component whose registers and wires the proof can name, for invariants.

    `inside["trimmer.left"]` is the signal `left` of the submodule `trimmer`.

    Parameters
    ----------
    component
        Not elaborated before.
    ignored
        Leave its own assertions out, so that nothing rests on them.
    """

    def __init__(self, component: Elaboratable, *, ignored: bool = False) -> None:
        self.fragment = Fragment.get(component, None)
        self.signals: dict[str, Signal] = {}
        self._ignored = ignored
        self._collect(self.fragment, "")

    def _collect(self, fragment: Fragment, prefix: str) -> None:
        for statements in fragment.statements.values():
            if self._ignored:
                _remove_assertions(statements)
            for statement in statements:
                for signal in statement._lhs_signals():
                    self.signals.setdefault(prefix + signal.name, signal)
        for subfragment, name, _src_loc in fragment.subfragments:
            self._collect(subfragment, f"{prefix}{name}.")

    def __getitem__(self, name: str) -> Signal:
        return self.signals[name]

    def component(self, path: str) -> Any:
        """A component inside, for its streams; by the names of submodules, as for signals."""
        return self._subfragment(path.split(".")).origins[0]

    def register(self, path: str) -> Signal:
        """A register, where a port or a wire of the same component has the same name."""
        *parts, name = path.split(".")
        fragment = self._subfragment(parts)
        found = {
            id(signal): signal
            for statement in fragment.statements.get("sync", ())
            for signal in statement._lhs_signals()
            if signal.name == name
        }
        (register,) = found.values()
        return register

    def _subfragment(self, parts: Sequence[str]) -> Fragment:
        fragment = self.fragment
        for part in parts:
            fragment = next(
                subfragment for subfragment, name, _ in fragment.subfragments if name == part
            )
        return fragment

    def elaborate(self, platform) -> Fragment:
        return self.fragment


def _remove_assertions(statements: list[Statement]) -> None:
    statements[:] = [
        statement
        for statement in statements
        if not (isinstance(statement, Property) and statement.kind is Property.Kind.Assert)
    ]
    for statement in statements:
        if isinstance(statement, Switch):
            for _patterns, inner, _src_loc in statement.cases:
                _remove_assertions(inner)


class CutOut(wiring.Component):
    """Stands for a component of a block in a proof: its ports, and any outputs at all.

    What is proven of the block then holds whatever the component does.

    Parameters
    ----------
    component
        Not elaborated before.
    """

    def __init__(self, component: wiring.Component) -> None:
        super().__init__(component.signature)
        # It will not be.
        component._MustUse__used = True

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += anything_at(self, Out)
        return m


class Bench(Elaboratable):
    """Collects a component, what drives it and what must hold.

    Parameters
    ----------
    relies
        What `require` and `implies` state has been proven of the same bench without this: here it
        is assumed, so that only the contracts are left to assert. Neither is `cover` said again,
        but that each port with a contract is reached.

    Attributes
    ----------
    m : Module
        To add ghost state to.
    sides : set of tuple of str
        Contracts that are stated here: the component's name, the interface's, and "asserted" (at
        its output) or "assumed" (at its input).
    children : set of tuple of str
        Those of components inside, which stand for anything that keeps its contracts: the
        component's name, the interface's, and "In" (asserted here) or "Out" (assumed here).
    """

    def __init__(self, *, relies: bool = False) -> None:
        self.m = Module()
        self.relies = relies
        self.sides: set[tuple[str, str, str]] = set()
        self.children: set[tuple[str, str, str]] = set()
        self.subject = ""
        self._names = 0

    def elaborate(self, platform) -> Module:
        return self.m

    def add(self, component: Elaboratable, *, ignored: bool = False) -> Inside:
        """Put a component in; its insides can then be named. The first one is whose proof it is."""
        self.subject = self.subject or type(component).__name__
        inside = Inside(component, ignored=ignored)
        self.m.submodules += inside
        return inside

    def require(self, *conditions: Value) -> None:
        """Assert that they always hold. A failure names the line of the condition."""
        if self.relies:
            self.assume(*conditions)
        else:
            self.claim(*conditions)

    def claim(self, *conditions: Value) -> None:
        """Assert that they always hold, whatever is relied on."""
        for condition in conditions:
            statement = Assert(condition)
            statement.src_loc = condition.src_loc
            self.m.d.comb += statement

    def implies(self, premise: Value, *conclusions: Value, by: Sequence[Value] = ()) -> None:
        """Assert the conclusions whenever the premise holds.

        `by` are steps on the way, each of which follows from those before it in the same cycle. A
        proof in pieces asserts them, too (`PartBench`); no other needs them.
        """
        for conclusion in conclusions:
            condition = ~Value.cast(premise).bool() | Value.cast(conclusion).bool()
            condition.src_loc = conclusion.src_loc
            self.require(condition)

    def assume(self, *conditions: Value) -> None:
        """Leave out of sight whatever does not keep to them."""
        for condition in conditions:
            self.m.d.comb += Assume(condition)

    def cover(self, *conditions: Value) -> None:
        """Demand that each can happen."""
        if not self.relies:
            self.reach(*conditions)

    def reach(self, *conditions: Value) -> None:
        """Demand it, whatever is relied on."""
        for condition in conditions:
            statement = Cover(condition)
            statement.src_loc = condition.src_loc
            self.m.d.comb += statement

    def drive(self, stream: Any, rules: Rules | None = None) -> Port:
        """Let anything come in at a stream that keeps the rules."""
        port = self._port(stream.valid, stream.ready, stream.payload)
        self.m.d.comb += anything(stream)
        return self._driven(port, rules)

    def watch(self, stream: Any, rules: Rules | None = None) -> Port:
        """Take from a stream at any time, and assert that it keeps the rules."""
        self.m.d.comb += stream.ready.eq(AnySeq(1))
        return self.monitor(self._port(stream.valid, stream.ready, stream.payload), rules)

    def drive_axis(self, axis: Any, rules: Rules | None = None) -> Port:
        port = self._port(axis.tvalid, axis.tready, axis, Cat(axis.tdata, axis.tkeep, axis.tlast))
        for wire in (axis.tvalid, axis.tdata, axis.tkeep, axis.tlast):
            self.m.d.comb += wire.eq(AnySeq(len(wire)))
        return self._driven(port, rules)

    def watch_axis(self, axis: Any, rules: Rules | None = None) -> Port:
        self.m.d.comb += axis.tready.eq(AnySeq(1))
        bits = Cat(axis.tdata, axis.tkeep, axis.tlast)
        # AMBA wants VALID low in reset, from its first cycle on.
        self.require(~(ResetSignal() & axis.tvalid))
        return self.monitor(self._port(axis.tvalid, axis.tready, axis, bits), rules)

    def drive_record(self, record: Any, fields: Sequence[str]) -> Port:
        wires = [getattr(record, field) for field in fields]
        for wire in (record.valid, *wires):
            self.m.d.comb += wire.eq(AnySeq(len(wire)))
        return self._driven(self._port(record.valid, record.ready, record, Cat(*wires)), None)

    def watch_record(self, record: Any, fields: Sequence[str]) -> Port:
        self.m.d.comb += record.ready.eq(AnySeq(1))
        self.require(~(ResetSignal() & record.valid))
        bits = Cat(getattr(record, field) for field in fields)
        return self.monitor(self._port(record.valid, record.ready, record, bits), None)

    def progress(self, willing: Value, moves: Value, *, cycles: int) -> Signal:
        """Assert that something moves within that many cycles in which all outside are willing.

        Returns how many it has been so far.
        """
        waited = Signal(range(cycles + 2), name="waited")
        with self.m.If(willing & ~moves):
            self.m.d.sync += waited.eq(waited + 1)
        with self.m.Else():
            self.m.d.sync += waited.eq(0)
        self.require(waited <= cycles)
        return waited

    def trust(self, stream: Any, rules: Rules, bits: Value | None = None) -> Port:
        """Assume the rules of a stream inside, which the proof of its source has asserted.

        `bits` are what is known not to change while it waits; the whole payload if not given.
        """
        port = self._port(stream.valid, stream.ready, stream.payload, bits)
        self._state(port, rules, self.assume)
        self.cover(port.moves)
        return port

    def observe(self, stream: Any, payload: Any, rules: Rules) -> Port:
        """Assert the rules of a stream inside; `payload` is how they want to see its payload."""
        bits = Value.cast(stream.payload)
        return self.monitor(self._port(stream.valid, stream.ready, payload, bits), rules)

    def hold(self, there: Value, item: Any, rules: Rules) -> None:
        """Assert the rules of what a register or a queue holds: it is given to a port later."""
        self._state_rules(self._item(there, item), rules, self.claim)

    def assert_item(self, there: Value, item: Any, contract: Contract) -> None:
        """Assert a contract where a component makes an item, be it given at once or later."""
        self._record(contract, self.claim)
        self.hold(there, item, contract)
        self.reach(there)

    def assume_item(self, there: Value, item: Any, contract: Contract) -> None:
        """Assume a contract where a component gets an item."""
        self._record(contract, self.assume)
        self._state_rules(self._item(there, item), contract, self.assume)

    def child(self, name: str, is_input: bool, there: Value, item: Any, contract: Contract) -> None:
        """State the contract at a port of a component inside: asserted at an input."""
        self.children.add((name, contract.interface, "In" if is_input else "Out"))
        state = self.claim if is_input else self.assume
        self._state_rules(self._item(there, item), contract, state)
        if is_input:
            self.reach(there)

    def monitor(self, port: Port, rules: Rules | None) -> Port:
        """Assert the rules at a port."""
        self._state(port, rules, self.require)
        self.cover(port.moves & port.waiting)
        return port

    def _driven(self, port: Port, rules: Rules | None) -> Port:
        self._state(port, rules, self.assume)
        self.cover(port.moves)
        return port

    def _port(self, valid: Value, ready: Value, payload: Any, bits: Value | None = None) -> Port:
        self._names += 1
        bits = Value.cast(payload) if bits is None else bits
        waiting = Signal(name=f"waiting_{self._names}")
        offered = Signal(len(bits), name=f"offered_{self._names}", reset_less=True)
        self.m.d.sync += [waiting.eq(valid & ~ready), offered.eq(bits)]
        unchanged = bits == offered
        # A failure of the stream rules names the line that attached the port.
        unchanged.src_loc = get_src_loc(1)
        return Port(valid, ready, payload, valid & ready, waiting, unchanged)

    def _state(self, port: Port, rules: Rules | None, state: Callable[..., None]) -> None:
        # Once valid, neither withdraw nor change the payload, unless there is a reset.
        stays = ~port.waiting | (port.valid & port.unchanged) | ResetSignal()
        stays.src_loc = port.unchanged.src_loc
        state(stays)
        self._record(rules, state)
        self._state_rules(port, rules, state)

    def _item(self, there: Value, item: Any) -> Port:
        """An item as a port that gives it in the same cycle."""
        return Port(there, Const(1), item, there, Signal(name="no_waiting"), Const(1))

    def _record(self, rules: Rules | None, state: Callable[..., None]) -> None:
        interface = getattr(rules, "interface", None)
        if interface is not None:
            side = "assumed" if state == self.assume else "asserted"
            self.sides.add((self.subject, interface, side))

    def _state_rules(self, port: Port, rules: Rules | None, state: Callable[..., None]) -> None:
        for premise, conclusion in rules(self, port) if rules else ():
            condition = ~(port.valid & Value.cast(premise).bool()) | Value.cast(conclusion).bool()
            condition.src_loc = conclusion.src_loc
            state(condition)
