"""A flat netlist as terms of SMT-LIB, of which any number of copies and cycles may be written.

Yosys translates a design once, without the initial values of its registers and memories. Copies of
it are made here, as text: what does not depend on anything in which two copies differ is written
once for both, so that the solver sees nothing but the differences.
"""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.formal.smtbmc import ProofError

SCRIPT = """\
read_rtlil top.il
delete t:$meminit t:$meminit_v2 t:$check t:$print
setattr -unset init a:init
proc -norom
flatten
opt_expr -keepdc
opt_clean
memory_collect
memory_nordff
dffunmap
splitcells
opt_clean
setundef -undriven -anyseq
opt_clean
write_smt2 -wires top.smt2
"""
"""Yosys' commands.

Nothing here merges registers, or takes what a register begins with for what it always holds.
"""

_DECLARED = re.compile(r"\(declare-fun \|([^|]+)\| \(\|top_s\|\) (.*)\)(?: ; (.*))?$")
_DEFINED = re.compile(r"\(define-fun \|([^|]+)\| \(\(state \|top_s\|\)\) (.*)$")
_USED = re.compile(r"\(\|([^|]+)\| state\)")
_NEXT = re.compile(r"  \(= (.*) \(\|([^|]+)\| next_state\)\) ; ")


@dataclass(frozen=True)
class NetlistMemory:
    """A memory of the netlist.

    Attributes
    ----------
    state
        The leaf that is its content.
    addresses
        Terms of the addresses that are read.
    address_bits, width, depth
    """

    state: str
    addresses: list[str]
    address_bits: int
    width: int
    depth: int


@dataclass
class Netlist:
    """A design's terms, each under a key.

    Attributes
    ----------
    types
        Of each term: "Bool", "(_ BitVec n)" or an array.
    bodies
        Of each term that follows from others in the same cycle.
    uses
        The terms that a body names.
    following
        For each register and memory: the term that it is in the next cycle.
    wires
        Terms by the names of wires, with the path of their module.
    registers
        The names of registers, by their keys.
    memories
        By their names.
    """

    types: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    uses: dict[str, list[str]] = field(default_factory=dict)
    following: dict[str, str] = field(default_factory=dict)
    wires: dict[str, str] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    memories: dict[str, NetlistMemory] = field(default_factory=dict)
    _cones: dict[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, rtlil: str, folder: Path, yosys: str) -> "Netlist":
        """Translate a design, whose top is called so."""
        (folder / "top.il").write_text(rtlil)
        (folder / "top.ys").write_text(SCRIPT)
        done = subprocess.run(
            [yosys, "-q", "top.ys"], cwd=folder, text=True, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise ProofError(f"Yosys: {done.stderr[-2000:]}; work files in {folder}")
        return cls.parse((folder / "top.smt2").read_text())

    @classmethod
    def parse(cls, text: str) -> "Netlist":
        netlist = cls()
        shapes: dict[str, tuple[int, int]] = {}
        depths: dict[str, int] = {}
        names: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("; yosys-smt2-memory "):
                name, address_bits, width, *_ = line.split()[2:]
                shapes[name] = int(address_bits), int(width)
            elif line.startswith("; yosys-smt2-witness "):
                told = json.loads(line.split(maxsplit=2)[2])
                if told["type"] == "mem":
                    depths[told["smtname"]] = told["size"]
            elif match := _DECLARED.match(line):
                key, netlist.types[key], name = match[1], match[2], match[3]
                names[key] = (name or "").removeprefix("\\")
            elif match := _DEFINED.match(line):
                netlist._define(match[1], match[2])
            elif match := _NEXT.match(line):
                netlist._follow(match[2], match[1])
            elif line.startswith("  (= "):
                raise ProofError(f"this is no register of its own: {line}")
        for name, (address_bits, width) in shapes.items():
            state = netlist.uses[f"top_m {name}"][0]
            addresses = [
                key
                for key in netlist.bodies
                if re.fullmatch(rf"top_m:R\d+A {re.escape(name)}", key)
            ]
            netlist.memories[name] = NetlistMemory(
                state, addresses, address_bits, width, depths[name]
            )
        contents = {memory.state for memory in netlist.memories.values()}
        netlist.registers = {key: names[key] for key in netlist.following if key not in contents}
        return netlist

    def _define(self, key: str, rest: str) -> None:
        kind = rest[: rest.index(")") + 1] if rest.startswith("(_") else rest.split()[0]
        if rest.startswith("(Array"):
            kind = rest[: rest.index("))") + 2]
        body = re.sub(r"\) ; .*$", ")", rest[len(kind) :].strip())
        self.types[key] = kind
        # The last parenthesis is that of the definition.
        self.bodies[key] = body[:-1]
        self.uses[key] = _USED.findall(body)
        if key.startswith("top_n "):
            self.wires[key.removeprefix("top_n ")] = key

    def _follow(self, leaf: str, body: str) -> None:
        key = f"next {leaf}"
        self.types[key] = self.types[leaf]
        self.bodies[key] = body
        self.uses[key] = _USED.findall(body)
        self.following[leaf] = key

    def width(self, key: str) -> int:
        """Bits of a term that is no memory."""
        kind = self.types[key]
        return 1 if kind == "Bool" else int(kind.split()[2].rstrip(")"))

    def leaves(self, key: str) -> frozenset[str]:
        """The registers, memories and inputs that a term follows from."""
        if not self._cones:
            # A term comes behind those that it uses.
            for term in self.types:
                self._cones[term] = (
                    frozenset().union(*(self._cones[used] for used in self.uses[term]))
                    if term in self.bodies
                    else frozenset({term})
                )
        return self._cones[key]


class Copies:
    """Terms of two copies of a netlist over cycles, written as they are asked for.

    Parameters
    ----------
    netlist
    equal
        Whether a leaf is the same one in both copies, by its key and its cycle. Registers and
        memories are leaves in cycle 0 alone.
    fixed
        Texts of leaves that are given.
    """

    def __init__(
        self,
        netlist: Netlist,
        equal: Callable[[str, int], bool],
        fixed: Callable[[str, int], str | None],
    ) -> None:
        self.netlist = netlist
        self.text: list[str] = []
        self._equal = equal
        self._fixed = fixed
        self._written: dict[tuple[str, int, int], str] = {}
        self._free: dict[str, str] = {}

    def term(self, key: str, copy: int, cycle: int) -> str:
        """The name of a term in copy 0 or 1."""
        left = [(key, copy, cycle)]
        while left:
            wanted = left[-1]
            if wanted in self._written:
                left.pop()
                continue
            before = self._before(*wanted)
            missing = [one for one in before if one not in self._written]
            if missing:
                left += missing
                continue
            self._written[wanted] = self._write(*wanted)
            left.pop()
        return self._written[key, copy, cycle]

    def bits(self, key: str, copy: int, cycle: int) -> str:
        """A term as a vector of bits."""
        name = self.term(key, copy, cycle)
        return f"(ite {name} #b1 #b0)" if self.netlist.types[key] == "Bool" else name

    @property
    def leaves(self) -> frozenset[str]:
        """Registers, memories and inputs that terms so far follow from."""
        return frozenset(key for key, _copy, _cycle in self._written) - self.netlist.bodies.keys()

    def free(self, name: str, width: int) -> str:
        """A vector of bits that the solver picks, the same one under the same name."""
        if name not in self._free:
            self._free[name] = f"f{len(self._free)}"
            self.text.append(f"(declare-fun {self._free[name]} () (_ BitVec {width}))")
        return self._free[name]

    def _before(self, key: str, copy: int, cycle: int) -> list[tuple[str, int, int]]:
        """The terms that must be written first; copy 0 always is before copy 1."""
        first = [(key, 0, cycle)] if copy else []
        if key in self.netlist.bodies:
            return [*first, *((used, copy, cycle) for used in self.netlist.uses[key])]
        if cycle > 0 and key in self.netlist.following:
            return [*first, (self.netlist.following[key], copy, cycle - 1)]
        return first

    def _write(self, key: str, copy: int, cycle: int) -> str:
        netlist, written = self.netlist, self._written
        if key in netlist.bodies:
            used = netlist.uses[key]
            if copy and all(written[one, 0, cycle] == written[one, 1, cycle] for one in used):
                return written[key, 0, cycle]
            body = _USED.sub(lambda match: written[match[1], copy, cycle], netlist.bodies[key])
            name = f"t{len(written)}"
            self.text.append(f"(define-fun {name} () {netlist.types[key]} {body})")
            return name
        if cycle > 0 and key in netlist.following:
            return written[netlist.following[key], copy, cycle - 1]
        fixed = self._fixed(key, cycle)
        if fixed is not None:
            return fixed
        if copy and self._equal(key, cycle):
            return written[key, 0, cycle]
        name = f"t{len(written)}"
        self.text.append(f"(declare-fun {name} () {netlist.types[key]})")
        return name
