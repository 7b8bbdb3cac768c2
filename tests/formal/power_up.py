"""Power-up: nothing that a component shows depends on what its registers held before a reset.

Two copies of a component begin with any registers and memories, each with its own, and are reset
for one cycle in which their inputs are anything, too. From then on they get the same inputs, and
must give the same outputs. A payload need only be the same where it counts: while its stream is
valid, and in its bytes that are in use. At inputs that is assumed and at outputs asserted, so the
proofs of components chain.

The induction needs to know which registers agree when. That is found by the machine: of each
register and memory it first claims everything, "the two are the same", "they are while this flag is
set", and so on, and leaves out bit by bit what the reset does not bring about or a cycle does not
keep. What is left is an invariant of all reachable states, whatever it was found by.
"""

import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from cdma.builds.cache import cache_directory, cached, digest
from cdma.hw.emit.fast_conversion import fast_conversion
from tests.formal import netlist_model
from tests.formal.incremental import IncrementalSolver
from tests.formal.netlist_model import Copies, Netlist, NetlistMemory
from tests.formal.smtbmc import (
    PACKAGES,
    PROOF_RESULTS,
    ProofResult,
    RefutedError,
    UndecidedError,
    _without_places,
    find_tools,
    is_kept,
    versions,
)

RELATED_BITS = 4
"""Registers of so many bits are told apart by their values, wider ones by being 0 or not."""


EFFORTS = (1, 2, 3)
"""Efforts, the least first: registers agree under conditions; with pairs of conditions that never
hold at once; with threes."""

REFUTING_CYCLES = 6
"""Cycles after a reset in which a counterexample is looked for."""

WIDE_BITS = 128
"""Registers of more bits are related to others of the same component alone."""


@dataclass(frozen=True)
class PortGroup:
    """Wires of a component that lead one way and count together.

    Attributes
    ----------
    name
        Of the port, as in the component's signature.
    is_input
    bits
    cares
        For each bit: it counts now.
    is_control
        All of them count always.
    """

    name: str
    is_input: bool
    bits: Value
    cares: Value
    is_control: bool


Cares = Callable[[Any], Value]
"""Gives the bits of a port's payload that count while it is valid."""


class OpenPorts:
    """A component whose inputs are the top's, with what counts of each port beside it.

    Parameters
    ----------
    component
        Not elaborated before.
    cares
        For ports of whose payloads not all bits count, and for wires without a valid of their own
        that do not always count: by the name of the port, the bits that do.
    assumes
        Gives what holds of the component's inputs, or of its registers, at any time: others have
        proven it.
    """

    def __init__(
        self,
        component: wiring.Component,
        cares: Mapping[str, Callable[[Any], Value]],
        assumes: Callable[[Any], Sequence[Value]] | None = None,
    ) -> None:
        self.component = component
        self.inputs: list[Signal] = []
        self.groups = list(_groups(component, cares))
        self.shown: dict[str, Signal] = {}
        self.assumed = list(assumes(component)) if assumes else []

    def rtlil(self) -> str:
        """The text of it, with a top called so."""
        m = Module()
        m.submodules.part = self.component
        for number, group in enumerate(self.groups):
            if group.is_input:
                free = Signal(len(group.bits), name=f"free_{number}")
                self.inputs.append(free)
                m.d.comb += group.bits.eq(free)
            self._show(m, f"bits_{number}", group.bits)
            self._show(m, f"cares_{number}", group.cares)
        for number, condition in enumerate(self.assumed):
            self._show(m, f"assumed_{number}", condition.bool())
        with fast_conversion():
            return rtlil.convert(m, name="top", ports=[*self.inputs, *self.shown.values()])

    def _show(self, m: Module, name: str, value: Value) -> None:
        self.shown[name] = wire = Signal(len(value), name=name)
        m.d.comb += wire.eq(value)


def _groups(component: Any, cares: Mapping[str, Cares]) -> Iterator[PortGroup]:
    """The ports of a component, those of a stream together."""
    found = list(_ports(component.signature, component, ""))
    valids = [path for path, *_rest in found if path.endswith("valid") and "." in path]
    of_valid: dict[str, list[Any]] = {path: [] for path in valids}
    by_path = {path: (is_input, wire) for path, is_input, wire in found}
    for path, is_input, wire in found:
        starts = [
            valid
            for valid in valids
            if path != valid
            and path.startswith(valid.removesuffix("valid"))
            and by_path[valid][0] == is_input
        ]
        if starts and len(wire):
            of_valid[max(starts, key=len)].append((path, wire))
        elif len(wire):
            count = cares[path](component) if path in cares else None
            yield _group(path, is_input, wire, count)
    for valid, members in of_valid.items():
        is_input, flag = by_path[valid]
        for path, wire in members:
            count = cares[path](component) if path in cares else _all(wire)
            yield _group(path, is_input, wire, count & flag.replicate(len(wire)))


def _group(path: str, is_input: bool, wire: Value, count: Value | None) -> PortGroup:
    return PortGroup(path, is_input, wire, _all(wire) if count is None else count, count is None)


def _all(wire: Value) -> Value:
    return Cat(1 for _bit in range(len(wire)))


def _ports(
    signature: wiring.Signature, interface: Any, prefix: str
) -> Iterator[tuple[str, bool, Value]]:
    """Path, direction and wires of each port."""
    for name, member in signature.members.items():
        for path, one in _each(getattr(interface, name), prefix + name, member.dimensions):
            if member.is_port:
                yield path, member.flow is In, Value.cast(one)
            else:
                # Amaranth turns the signature of a member that leads in around.
                yield from _ports(member.signature, one, f"{path}.")


def _each(part: Any, path: str, dimensions: Sequence[int]) -> Iterator[tuple[str, Any]]:
    if not dimensions:
        yield path, part
        return
    for place, one in enumerate(part):
        yield from _each(one, f"{path}[{place}]", dimensions[1:])


class Condition:
    """A claim is made while registers of the component have certain values."""

    def text(self, copies: Copies, copy: int, cycle: int, address: str) -> str:
        """A term of the solver; `address` is that of a memory's word, in claims about memories."""
        raise NotImplementedError


@dataclass(frozen=True)
class Always(Condition):
    def text(self, copies: Copies, copy: int, cycle: int, address: str) -> str:
        return "true"


@dataclass(frozen=True)
class HasValue(Condition):
    """A register has a value, or another one than it."""

    register: str
    value: int
    is_other: bool = False

    def text(self, copies: Copies, copy: int, cycle: int, address: str) -> str:
        bits = copies.bits(self.register, copy, cycle)
        value = _constant(self.value, copies.netlist.width(self.register))
        return f"({'distinct' if self.is_other else '='} {bits} {value})"


@dataclass(frozen=True)
class Both(Condition):
    """A condition under which a register is the same in both copies, and a value of that one."""

    one: HasValue
    other: HasValue

    def text(self, copies: Copies, copy: int, cycle: int, address: str) -> str:
        terms = [
            condition.text(copies, copy, cycle, address) for condition in (self.one, self.other)
        ]
        return f"(and {' '.join(terms)})"


@dataclass(frozen=True)
class QueuePlaces:
    """The registers of a `Fifo` that say which words of its memory are in use.

    Attributes
    ----------
    stored
    first, free
        The places of the oldest one and of the next one to come; none if there is one place.
    depth
    """

    stored: str
    first: str | None
    free: str | None
    depth: int

    @property
    def bits(self) -> int:
        """Wide enough for sums of two places."""
        return self.depth.bit_length() + 2

    def wide(self, copies: Copies, key: str | None, copy: int, cycle: int) -> str:
        if key is None:
            return _constant(0, self.bits)
        more = self.bits - copies.netlist.width(key)
        return f"((_ zero_extend {more}) {copies.bits(key, copy, cycle)})"


@dataclass(frozen=True)
class IsQueued(Condition):
    """A word of a queue's memory is in use: one of the `stored` ones from `first` on."""

    places: QueuePlaces
    address_bits: int

    def text(self, copies: Copies, copy: int, cycle: int, address: str) -> str:
        places = self.places
        first, stored = (
            places.wide(copies, key, copy, cycle) for key in (places.first, places.stored)
        )
        depth = _constant(places.depth, places.bits)
        place = f"((_ zero_extend {places.bits - self.address_bits}) {address})"
        ahead = f"(bvsub (ite (bvuge {place} {first}) {place} (bvadd {place} {depth})) {first})"
        return f"(and (bvult {place} {depth}) (bvult {ahead} {stored}))"


def _constant(value: int, width: int) -> str:
    return f"#b{value:0{width}b}"


def _around(module: str) -> str:
    return module.rpartition(".")[0]


class Claim:
    """A property that may hold in every cycle after a reset.

    Attributes
    ----------
    width
        Bits that it is about at first.
    mask
        Those that it is about still: what turns out not to hold of a bit is claimed of it no more.
    """

    width: int
    mask: int

    def violation(self, copies: Copies, cycle: int) -> str | None:
        """A term of the bits for which it does not hold, of those ever claimed; none if none."""
        raise NotImplementedError

    def premises(self, copies: Copies, cycle: int) -> list[str]:
        """Terms that hold if it does."""
        raise NotImplementedError

    def registers(self) -> list[str]:
        """The registers of a claim that is about one copy alone."""
        return []


@dataclass
class Agreement(Claim):
    """Both copies of a register are the same, or both copies of a memory at an address."""

    condition: Condition
    target: str
    width: int
    mask: int
    memory: NetlistMemory | None = None

    def violation(self, copies: Copies, cycle: int) -> str | None:
        address = self._followed(copies)
        one, other = (self._word(copies, copy, cycle, address) for copy in (0, 1))
        if one == other:
            return None
        condition = self.condition.text(copies, 0, cycle, address)
        return f"(ite {condition} (bvxor {one} {other}) {_constant(0, self.width)})"

    def premises(self, copies: Copies, cycle: int) -> list[str]:
        if self.memory is None:
            return [self._premise(copies, cycle, "")]
        read = {copies.bits(key, copy, cycle) for key in self.memory.addresses for copy in (0, 1)}
        followed = self._followed(copies)
        return [self._premise(copies, cycle, address) for address in [followed, *sorted(read)]]

    def _followed(self, copies: Copies) -> str:
        """Any address, which the solver picks: what holds for it holds for all."""
        return (
            copies.free(f"address of {self.target}", self.memory.address_bits)
            if self.memory
            else ""
        )

    def _premise(self, copies: Copies, cycle: int, address: str) -> str:
        one, other = (self._word(copies, copy, cycle, address) for copy in (0, 1))
        if one == other:
            return "true"
        mask = _constant(self.mask, self.width)
        condition = self.condition.text(copies, 0, cycle, address)
        return f"(=> {condition} (= (bvand {one} {mask}) (bvand {other} {mask})))"

    def _word(self, copies: Copies, copy: int, cycle: int, address: str) -> str:
        if self.memory is None:
            return copies.bits(self.target, copy, cycle)
        return f"(select {copies.term(self.target, copy, cycle)} {address})"


@dataclass
class QueueHolds(Claim):
    """The registers of a queue fit together: `free` is `stored` places behind `first`."""

    places: QueuePlaces
    width: int = 1
    mask: int = 1

    def registers(self) -> list[str]:
        places = self.places
        return [key for key in (places.stored, places.first, places.free) if key is not None]

    def violation(self, copies: Copies, cycle: int) -> str | None:
        return f"(ite {self._text(copies, cycle)} #b0 #b1)"

    def premises(self, copies: Copies, cycle: int) -> list[str]:
        return [self._text(copies, cycle)]

    def _text(self, copies: Copies, cycle: int) -> str:
        places = self.places
        depth = _constant(places.depth, places.bits)
        both = []
        for copy in (0, 1):
            stored, first, free = (
                places.wide(copies, key, copy, cycle)
                for key in (places.stored, places.first, places.free)
            )
            end = f"(bvadd {first} {stored})"
            both.append(
                f"(and (bvule {stored} {depth}) (bvult {first} {depth}) (bvult {free} {depth})"
                f" (or (= {free} {end}) (= (bvadd {free} {depth}) {end})))"
            )
        return f"(and {' '.join(dict.fromkeys(both))})"


@dataclass
class Exclusion(Claim):
    """Conditions never hold all at once."""

    conditions: tuple[HasValue, ...]
    width: int = 1
    mask: int = 1

    def registers(self) -> list[str]:
        return [condition.register for condition in self.conditions]

    def violation(self, copies: Copies, cycle: int) -> str | None:
        return f"(ite {self._text(copies, cycle)} #b1 #b0)"

    def premises(self, copies: Copies, cycle: int) -> list[str]:
        return [f"(not {self._text(copies, cycle)})"]

    def _text(self, copies: Copies, cycle: int) -> str:
        terms = [condition.text(copies, 0, cycle, "") for condition in self.conditions]
        return f"(and {' '.join(terms)})"


class Induction:
    """Finds the claims that a reset brings about and every cycle keeps, and what follows of them.

    A claim is looked at with nothing but what its target follows from. A target is looked at again
    when a claim about one of these has been dropped, until none is.

    Parameters
    ----------
    ports, netlist
        The component, and what Yosys has made of it.
    program
        The solver.
    seconds
        What it has for each of its runs.
    reset_cycles
        How long the reset lasts.
    loaded
        Registers that a reset sets, but that are loaded with what does not count.
    """

    def __init__(
        self,
        ports: OpenPorts,
        netlist: Netlist,
        program: str,
        seconds: float,
        reset_cycles: int = 1,
        loaded: Sequence[str] = (),
    ) -> None:
        self._reset_cycles = reset_cycles
        self._loaded = loaded
        self.ports = ports
        self.netlist = netlist
        self._program = program
        self._seconds = seconds
        (self._reset,) = self._leaves("rst")
        self._inputs = {
            number: self._leaves(f"free_{number}")
            for number, group in enumerate(ports.groups)
            if group.is_input
        }
        self._control = {
            leaf
            for number, leaves in self._inputs.items()
            if ports.groups[number].is_control
            for leaf in leaves
        }
        self._contents = {memory.state for memory in netlist.memories.values()}
        self.free: list[str] = []
        self._begun: dict[str, int] = {}
        self._always: dict[str, Agreement] = {}
        self._claims: dict[str, list[Claim]] = {}
        for register in netlist.registers:
            self._claim_always(register, netlist.width(register), None)
        for memory in netlist.memories.values():
            self._claim_always(memory.state, memory.width, memory)

    def _leaves(self, wire: str) -> frozenset[str]:
        return self.netlist.leaves(self.netlist.wires[wire])

    def _claim_always(self, target: str, width: int, memory: NetlistMemory | None) -> None:
        claim = Agreement(Always(), target, width, (1 << width) - 1, memory)
        self._always[target] = claim
        self._claims[target] = [claim]

    def find(self, effort: int) -> list[str]:
        """Leave out claims, and bits of them, until those that are left hold for all time.

        Returns the outputs of which these do not say that they are the same where they count.
        """
        self._look_after_reset()
        self._claim_under_conditions(effort)
        self._look_at_all()
        if differing := self._differing():
            self._claim_under_both(self._shown(differing) if effort == 1 else self._changing())
            self._look_at_all()
            differing = self._differing()
        return [self.ports.groups[number].name for number in differing]

    def _look_after_reset(self) -> None:
        """Find out which registers a reset sets, and to what."""
        copies = self._copies(after_reset=True)
        terms = {}
        for number, (target, (claim,)) in enumerate(self._claims.items()):
            violation = claim.violation(copies, self._reset_cycles)
            word = (
                copies.bits(target, 0, self._reset_cycles)
                if target in self.netlist.registers
                else None
            )
            terms[target] = (f"v{number}", violation, f"r{number}", word)
        with IncrementalSolver(self._program, self._seconds, copies.text) as solver:
            for target, (name, violation, begun, word) in terms.items():
                claim = self._always[target]
                if violation is not None:
                    solver.tell(_definition(name, claim.width, violation))
                    self._drop(solver, {name: claim})
                if self._is_whole(claim) and word is not None:
                    solver.tell(_definition(begun, claim.width, word))
                    # They agree whatever was before, so it is one value.
                    solver.satisfiable()
                    self._begun[target] = solver.values([begun])[begun]
        self.free = [target for target, claim in self._always.items() if not self._is_whole(claim)]

    def _claim_under_conditions(self, effort: int) -> None:
        """Claim of what a reset leaves open that it agrees while something else has a value."""
        flags = [
            condition
            for register in self._begun
            for condition in self._conditions(register, effort)
        ]
        for name, memory in self.netlist.memories.items():
            places = self._queue_places(name, memory)
            if places is not None:
                self._claims[f"queue {name}"] = [QueueHolds(places)]
                self._claim(IsQueued(places, memory.address_bits), self._always[memory.state])
        for target in [*self.free, *self._loaded]:
            for condition in flags:
                if (
                    target in self.netlist.registers
                    and not self._begins(condition)
                    and self._is_near(condition.register, target)
                ):
                    self._claim(condition, self._always[target])
        for size in range(2, effort + 1):
            self._claim_exclusions(flags, size)

    def _changing(self) -> list[str]:
        """The registers of which conditions say when they agree."""
        return [one for one in (*self.free, *self._loaded) if one in self.netlist.registers]

    def _shown(self, outputs: Sequence[int]) -> list[str]:
        """Those of them that outputs follow from."""
        leaves: frozenset[str] = frozenset()
        for number in outputs:
            leaves |= self._leaves(f"bits_{number}") | self._leaves(f"cares_{number}")
        return [one for one in self._changing() if one in leaves]

    def _claim_under_both(self, registers: Sequence[str]) -> None:
        """Claim that others agree while something does that says, by its value, that they count."""
        for register, target in permutations(registers, 2):
            if self._module(register) != self._module(target):
                continue
            for one in self._agrees_while(register):
                for value in self._conditions(register, effort=1):
                    self._claim(Both(one, value), self._always[target])

    def _agrees_while(self, register: str) -> list[HasValue]:
        """The conditions under which all of a register agrees."""
        return [
            claim.condition
            for claim in self._claims[register]
            if isinstance(claim, Agreement)
            and isinstance(claim.condition, HasValue)
            and self._is_whole(claim)
        ]

    def _claim(self, condition: Condition, like: Agreement) -> None:
        whole = (1 << like.width) - 1
        self._claims[like.target].append(replace(like, condition=condition, mask=whole))

    def _claim_exclusions(self, flags: list[HasValue], size: int) -> None:
        """Claim that so many registers of a component never have certain values at once."""
        for chosen in combinations(flags, size):
            registers = {condition.register for condition in chosen}
            if (
                len(registers) == size
                and all(self._is_beside(*pair) for pair in combinations(registers, 2))
                and not all(self._begins(condition) for condition in chosen)
            ):
                self._claims[f"not {chosen}"] = [Exclusion(chosen)]

    def _begins(self, condition: HasValue) -> bool:
        """Tell whether a condition holds right after a reset."""
        return (self._begun[condition.register] == condition.value) != condition.is_other

    def _is_near(self, register: str, target: str) -> bool:
        """Tell whether two are of the same component, or one is of a part of the other's."""
        one, other = self._module(register), self._module(target)
        if self.netlist.width(register) > 1 or self.netlist.width(target) > WIDE_BITS:
            return one == other
        return one in (other, _around(other)) or _around(one) == other

    def _is_beside(self, one: str, other: str) -> bool:
        """Tell whether two are of the same component, or one is a flag in a part of the other's."""
        return self._module(one) == self._module(other) or any(
            self.netlist.width(flag) == 1 and _around(self._module(flag)) == self._module(register)
            for flag, register in ((one, other), (other, one))
        )

    def _module(self, register: str) -> str:
        return _around(self.netlist.registers[register])

    def _conditions(self, register: str, effort: int) -> Iterator[HasValue]:
        width = self.netlist.width(register)
        if width <= (RELATED_BITS if effort else 1):
            yield from (HasValue(register, value) for value in range(1 << width))
        elif effort:
            yield HasValue(register, 0)
            yield HasValue(register, 0, is_other=True)

    def _queue_places(self, name: str, memory: NetlistMemory) -> QueuePlaces | None:
        """The registers of a `Fifo` around a memory."""
        around = name.removesuffix("storage.words")
        stored, first, free = (
            self._register(f"{around}{wire}")
            for wire in ("stored", "read_address", "write_address")
        )
        return None if stored is None else QueuePlaces(stored, first, free, memory.depth)

    def _register(self, wire: str) -> str | None:
        """The register that a wire shows."""
        key = self.netlist.wires.get(wire)
        leaves = self.netlist.leaves(key) if key is not None else frozenset()
        return next(iter(leaves)) if len(leaves) == 1 else None

    def _is_whole(self, claim: Agreement) -> bool:
        return claim.mask == (1 << claim.width) - 1

    def _is_implied(self, claim: Claim) -> bool:
        if not isinstance(claim, Agreement) or claim is self._always[claim.target]:
            return False
        return claim.mask & ~self._always[claim.target].mask == 0

    def _look_at_all(self) -> None:
        """Look at all targets, and again at those whose grounds have changed."""
        grounds: dict[str, frozenset[str]] = {}
        left = dict.fromkeys(self._claims)
        while left:
            # Memories take longest, and are looked at once what is written to them is settled.
            target = next((one for one in left if one not in self._contents), next(iter(left)))
            del left[target]
            dropped, grounds[target] = self._look_at(target, self._cone(target))
            if dropped:
                # What was implied by a claim that is gone has not been looked at.
                left[target] = None
                left |= dict.fromkeys(one for one, cone in grounds.items() if target in cone)

    def _cone(self, target: str) -> frozenset[str]:
        """The leaves that a target follows from, with those that claims about them are about."""
        if target in self._always:
            return self._grounds(self.netlist.leaves(self.netlist.following[target]))
        found = frozenset({target})
        for claim in self._claims[target]:
            for register in claim.registers():
                found |= self._grounds(self.netlist.leaves(self.netlist.following[register]))
        return found

    def _grounds(self, leaves: frozenset[str]) -> frozenset[str]:
        netlist = self.netlist
        found = leaves
        for memory in netlist.memories.values():
            if memory.state in leaves:
                for address in memory.addresses:
                    found |= netlist.leaves(address)
        for number, inputs in self._inputs.items():
            if inputs & leaves:
                found |= self._leaves(f"cares_{number}")
        for number in range(len(self.ports.assumed)):
            if self._leaves(f"assumed_{number}") & leaves:
                found |= self._leaves(f"assumed_{number}")
        return found | {
            name
            for name, claims in self._claims.items()
            if name not in self._always
            for claim in claims
            if not found.isdisjoint(claim.registers())
        }

    def _look_at(self, target: str, cone: frozenset[str]) -> tuple[bool, frozenset[str]]:
        """Drop what does not hold of a target in the next cycle.

        Returns whether there was any, and all that the answer rests on.
        """
        copies = self._copies(after_reset=False)
        claims = {
            f"v{number}": (claim, term)
            for number, claim in enumerate(self._claims[target])
            if not self._is_implied(claim)
            and claim.mask
            and (term := claim.violation(copies, 1)) is not None
        }
        if not claims:
            return False, cone | copies.leaves
        premises = self._premises(copies, cone)
        with IncrementalSolver(self._program, self._seconds, copies.text) as solver:
            solver.tell(*premises)
            for name, (claim, term) in claims.items():
                solver.tell(_definition(name, claim.width, term))
            dropped = self._drop(solver, {name: claim for name, (claim, _term) in claims.items()})
        always = self._always.get(target)
        self._claims[target] = [
            claim for claim in self._claims[target] if claim.mask or claim is always
        ]
        return dropped, cone | copies.leaves

    def _drop(self, solver: IncrementalSolver, claims: dict[str, Claim]) -> bool:
        """Drop the bits of claims for which there are counterexamples; whether any had one."""
        dropped = False
        while left := {name: claim for name, claim in claims.items() if claim.mask}:
            violated = [self._masked(name, claim) for name, claim in left.items()]
            solver.tell("(push 1)", f"(assert (or false {' '.join(violated)}))")
            values = solver.values(left) if solver.satisfiable() else {}
            if values:
                # Few bits differ in what a solver finds, where often all of them could.
                name = next(one for one, claim in left.items() if values[one] & claim.mask)
                solver.tell(f"(assert (= (bvand {name} {_mask(left[name])}) {_mask(left[name])}))")
                if solver.satisfiable():
                    values = solver.values(left)
            solver.tell("(pop 1)")
            if not values:
                break
            dropped = True
            for name, value in values.items():
                left[name].mask &= ~value
        return dropped

    def _masked(self, name: str, claim: Claim) -> str:
        return f"(distinct (bvand {name} {_mask(claim)}) {_constant(0, claim.width)})"

    def _copies(self, *, after_reset: bool) -> Copies:
        if after_reset:
            is_flag = self.netlist.types[self._reset] == "Bool"
            low, high = ("false", "true") if is_flag else ("#b0", "#b1")
            return Copies(
                self.netlist,
                # What others give is the same as soon as they are reset.
                equal=lambda key, cycle: cycle > 0 and key in self._control,
                fixed=lambda key, cycle: (
                    {True: high, False: low}[cycle < self._reset_cycles]
                    if key == self._reset
                    else None
                ),
            )
        return Copies(
            self.netlist,
            equal=lambda key, cycle: self._is_same(key),
            fixed=lambda key, cycle: None,
        )

    def _is_same(self, leaf: str) -> bool:
        if leaf in self.netlist.registers:
            return self._is_whole(self._always[leaf])
        return leaf in self._control or leaf == self._reset

    def _premises(self, copies: Copies, cone: frozenset[str]) -> list[str]:
        """Assertions of all that holds of a part of a state, and of what comes in there."""
        found = [
            premise
            for target in sorted(cone)
            for claim in self._claims.get(target, ())
            if claim.mask and not self._is_implied(claim)
            for premise in claim.premises(copies, 0)
        ]
        found += [
            term
            for number, inputs in self._inputs.items()
            if inputs & cone
            for term in self._taken(copies, number, 0)
        ]
        found += [
            term
            for number in range(len(self.ports.assumed))
            if self._leaves(f"assumed_{number}") & cone
            for term in self._assumed(copies, number, 0)
        ]
        return [f"(assert {premise})" for premise in found if premise != "true"]

    def _taken(self, copies: Copies, number: int, cycle: int) -> list[str]:
        return [f"(not {self._differs(copies, number, cycle)})"]

    def _assumed(self, copies: Copies, number: int, cycle: int) -> list[str]:
        return [
            f"(= {self._wire(copies, f'assumed_{number}', copy, cycle)} #b1)" for copy in (0, 1)
        ]

    def _differs(self, copies: Copies, number: int, cycle: int = 0) -> str:
        """A port is not the same in both copies where it counts, or counts in one only."""
        bits, cares = (
            [self._wire(copies, f"{name}_{number}", copy, cycle) for copy in (0, 1)]
            for name in ("bits", "cares")
        )
        if bits[0] == bits[1] and cares[0] == cares[1]:
            return "false"
        zeros = _constant(0, len(self.ports.groups[number].bits))
        return (
            f"(or (distinct {cares[0]} {cares[1]})"
            f" (distinct (bvand (bvxor {bits[0]} {bits[1]}) {cares[0]}) {zeros}))"
        )

    def _wire(self, copies: Copies, name: str, copy: int, cycle: int = 0) -> str:
        return copies.bits(self.netlist.wires[name], copy, cycle)

    def loaded(self) -> list[str]:
        """The registers that a reset sets and of which the claims do not say that they agree."""
        return [target for target in self._begun if not self._is_whole(self._always[target])]

    def _differing(self) -> list[int]:
        """The outputs of which the claims do not say that they are the same where they count."""
        return [
            number
            for number, group in enumerate(self.ports.groups)
            if not group.is_input and self._may_differ(number)
        ]

    def _may_differ(self, number: int) -> bool:
        copies = self._copies(after_reset=False)
        group = self.ports.groups[number]
        differs = self._differs(copies, number)
        counts = self._wire(copies, f"cares_{number}", 0)
        leaves = self._leaves(f"bits_{number}") | self._leaves(f"cares_{number}")
        premises = self._premises(copies, self._grounds(leaves))
        with IncrementalSolver(self._program, self._seconds, copies.text) as solver:
            solver.tell(*premises)
            solver.tell("(push 1)", f"(assert (distinct {counts} {_constant(0, len(group.bits))}))")
            if not solver.satisfiable():
                raise UndecidedError(f"{group.name} never counts")
            solver.tell("(pop 1)", f"(assert {differs})")
            return solver.satisfiable()

    def refuted(self, cycles: int) -> list[str]:
        """The outputs that do differ at first, so many cycles after the reset at the latest."""
        begin = self._reset_cycles
        copies = self._copies(after_reset=True)
        outputs = {
            number: group.name
            for number, group in enumerate(self.ports.groups)
            if not group.is_input
        }
        terms = {number: f"d{number}" for number in outputs}
        for cycle in range(begin, begin + cycles):
            premises = [
                term
                for past in range(begin, cycle + 1)
                for number in self._inputs
                for term in self._taken(copies, number, past)
            ]
            premises += [
                term
                for past in range(begin, cycle + 1)
                for number in range(len(self.ports.assumed))
                for term in self._assumed(copies, number, past)
            ]
            differs = {number: self._differs(copies, number, cycle) for number in outputs}
            wanted = [term for term in differs.values() if term != "false"]
            with IncrementalSolver(self._program, self._seconds, copies.text) as solver:
                solver.tell(*(f"(assert {premise})" for premise in premises))
                for number, name in terms.items():
                    solver.tell(f"(define-fun {name} () Bool {differs[number]})")
                solver.tell(f"(assert (or false {' '.join(wanted)}))")
                if solver.satisfiable():
                    values = solver.values(terms.values())
                    return [outputs[number] for number, name in terms.items() if values[name]]
        return []


def _definition(name: str, width: int, term: str) -> str:
    return f"(define-fun {name} () (_ BitVec {width}) {term})"


def _mask(claim: Claim) -> str:
    return _constant(claim.mask, claim.width)


def prove_power_up(
    component: wiring.Component,
    folder: Path,
    *,
    cares: Mapping[str, Cares] | None = None,
    assumes: Callable[[Any], Sequence[Value]] | None = None,
    reset_cycles: int = 1,
    timeout_s: int = 600,
) -> None:
    """Prove that nothing a component shows depends on what it held before a reset.

    Parameters
    ----------
    component
        Not elaborated before.
    folder
        Existing folder for the work files.
    cares, assumes
        As of `OpenPorts`.
    reset_cycles
        How long the reset lasts.
    timeout_s
        Limit of each question to the solver, with those that belong to it.

    Raises
    ------
    RefutedError
        If two copies differ within a few cycles.
    UndecidedError
        If they do not, but no invariant was found by which they never do, or time runs out.
    """
    tools = find_tools()
    ports = OpenPorts(component, cares or {}, assumes)
    text = ports.rtlil()
    started = time.monotonic()
    method = [inspect.getsource(module) for module in (netlist_model, sys.modules[__name__])]
    parts = [_without_places(text), *method, str(reset_cycles)]
    claim = digest(*parts)
    if is_kept(claim):
        return
    key = digest(*parts, *(version(name) for name in PACKAGES))
    known = (cache_directory() / f"proof-{key}").is_dir()

    def decide(into: Path) -> None:
        netlist = Netlist.of(text, folder, tools["YOSYS"])
        make = partial(Induction, ports, netlist, tools["YICES"], timeout_s, reset_cycles)
        for effort in EFFORTS:
            induction = make()
            differing = induction.find(effort)
            if differing and (loaded := induction.loaded()):
                induction = make(loaded)
                differing = induction.find(effort)
            if not differing:
                depths = {"power_up": len(induction.free)}
                (into / "proven.json").write_text(json.dumps(depths))
                return
            refuted = induction.refuted(REFUTING_CYCLES) if effort == EFFORTS[0] else []
            if refuted:
                raise RefutedError(f"depends on what registers held: {', '.join(refuted)}")
        raise UndecidedError(f"may depend on what registers held: {', '.join(differing)}")

    found = cached(f"proof-{key}", decide)
    depths = json.loads((found / "proven.json").read_text())
    seconds = time.monotonic() - started
    PROOF_RESULTS.append(ProofResult(depths, known, seconds, claim, versions()))
