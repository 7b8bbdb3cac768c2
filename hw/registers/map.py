"""A register map as data, from SystemRDL: for the RTL, the documents and the driver."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from systemrdl import RDLCompiler
from systemrdl.node import AddrmapNode, FieldNode, RegfileNode, RegNode
from systemrdl.rdltypes import AccessType, OnWriteType, PrecedenceType

WORD_BYTES = 4
PAGE_BYTES = 4096
"""What a page of registers takes of the address space; so is the map that pages lie in."""
COMMON = Path(__file__).with_name("common.rdl")
"""The properties that the maps of all blocks share."""


@dataclass(frozen=True, kw_only=True)
class RegisterSource:
    """The SystemRDL source of a block's registers.

    Attributes
    ----------
    path : Path
        The RDL; it may include `COMMON`.
    top : str
        The address map in it.
    name : str
        Of the block's top module; names in headers and of documents begin with it.
    parameters : dict of str to int
        What its constants tell of the block's shape, besides the version.
    """

    path: Path
    top: str
    name: str
    parameters: dict[str, int]

    def __hash__(self) -> int:
        return hash((self.path, self.top, self.name, frozenset(self.parameters.items())))


class RegisterMapError(ValueError):
    """The RDL has something that the RTL could not do; the message names the place."""


class Kind(Enum):
    """Behavior of a field, and the SystemRDL that describes it."""

    CONSTANT = "read-only, fixed"
    """`sw=r; hw=na`"""
    STORED = "read-write"
    """`sw=rw; hw=r`; a signal clears it with `hwclr`, and refuses writes with `swwel`."""
    PULSE = "write 1, reads 0"
    """`sw=w; singlepulse`: high for a cycle."""
    EVENT = "write 1 to clear"
    """`sw=rw; onwrite=woclr; hwset; precedence=hw`: hardware sets it, and wins."""
    LOCK = "write 1 to set"
    """`sw=rw; hw=r; onwrite=woset`: stays set until the block is reset."""
    LIVE = "read-only"
    """`sw=r; hw=w`: what hardware shows at the time of the read."""
    CAPTURED = "read-only, captured"
    """`sw=r; hw=w; we=signal`: what hardware showed when the signal was high."""
    COUNTER = "read-only, counter"
    """`sw=r; counter; incrwidth`: the lower half of 64 bits."""
    UPPER_HALF = "read-only, latched"
    """`upper_half`: of a counter, as of the last read of its lower half."""
    MAXIMUM = "read-only, maximum"
    """`keeps_maximum`: the largest value that hardware has shown."""


WRITABLE = (Kind.STORED, Kind.PULSE, Kind.EVENT, Kind.LOCK)
"""Fields that software changes."""


@dataclass(frozen=True)
class Meaning:
    """One of the values of a field that is an enumeration."""

    name: str
    value: int
    description: str


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a register.

    Attributes
    ----------
    name : str
    low, width : int
        Its place: bits `low` to `low + width - 1`.
    kind : Kind
    reset : int
        0 for what hardware shows.
    title, description : str
    meanings : tuple of Meaning
        Empty if it is a plain number.
    clear, capture : str or None
        The signal that sets it to 0; the signal that takes hardware's value over.
    closed : str or None
        STORED: the signal that refuses software's writes while it is high.
    step_bits : int
        COUNTER: width of what is added per cycle.
    enabled_by : (str, str) or None
        EVENT: register and field that let it raise the interrupt.
    reports_writes : bool
        Hardware sees a pulse when software writes it.
    clears_counters, freezes_counters : bool
    """

    name: str
    low: int
    width: int
    kind: Kind
    reset: int
    title: str
    description: str
    meanings: tuple[Meaning, ...]
    clear: str | None
    capture: str | None
    closed: str | None
    step_bits: int
    enabled_by: tuple[str, str] | None
    reports_writes: bool
    clears_counters: bool
    freezes_counters: bool

    @property
    def mask(self) -> int:
        """Its bits in the register."""
        return ((1 << self.width) - 1) << self.low

    def get(self, word: int) -> int:
        """Its value in a register's."""
        return (word & self.mask) >> self.low

    def put(self, value: int) -> int:
        """The register's value with this in the field and zeros around it.

        Raises
        ------
        ValueError
            If it does not fit.
        """
        if not 0 <= value < 1 << self.width:
            raise ValueError(f"{self.name} must have {self.width} bits, not {value:#x}")
        return value << self.low


@dataclass(frozen=True, kw_only=True)
class Register:
    """A 32-bit register.

    Attributes
    ----------
    name : str
        As `RING_BASE_LO`; `RING1_RING_BASE_LO` in the page `RING1`.
    group : str
        As `ring_base`: halves of a 64-bit value share it; it names the member of `RegisterFile`.
        In a page it begins with the page's name, too.
    page : str
        Its page, an address map in the map; empty if it lies in the map itself.
    offset : int
        In bytes from the block's base address.
    title, description : str
    fields : dict of str to Field
        From the lowest bit on.
    """

    name: str
    group: str
    page: str
    offset: int
    title: str
    description: str
    fields: dict[str, Field]

    @property
    def reset(self) -> int:
        return sum(field.reset << field.low for field in self.fields.values())

    def values(self, word: int) -> dict[str, int]:
        """The fields of a value that was read."""
        return {name: field.get(word) for name, field in self.fields.items()}


@cache
def register_map(source: RegisterSource) -> dict[str, Register]:
    """All registers by name, in the order of their offsets. Not to be changed.

    Raises
    ------
    RegisterMapError
        If the RDL has something that the RTL could not do.
    """
    top = elaborated(source)
    registers = {register.name: register for register in _registers(top, "")}
    for child in top.children():
        if isinstance(child, AddrmapNode):
            name = child.inst_name
            if child.absolute_address % PAGE_BYTES or child.size > PAGE_BYTES:
                raise RegisterMapError(f"{name} must be a page of {PAGE_BYTES} bytes")
            registers |= {register.name: register for register in _registers(child, name)}
    for register in registers.values():
        if len({f.closed for f in register.fields.values() if f.kind in WRITABLE}) > 1:
            raise RegisterMapError(f"{register.name} must be refused as a whole or not at all")
    return registers


def _registers(parent: AddrmapNode, page: str) -> Iterator[Register]:
    """Registers of the map itself, or of one of its pages."""
    for child in parent.children():
        if isinstance(child, RegNode):
            yield _register(child, child.inst_name, child.inst_name, page)
        elif isinstance(child, RegfileNode):
            halves = list(child.registers())
            if [(half.inst_name, half.address_offset) for half in halves] != [("LO", 0), ("HI", 4)]:
                raise RegisterMapError(f"{child.inst_name} must be a pair of LO and HI")
            for half in halves:
                name = f"{child.inst_name}_{half.inst_name}"
                yield _register(half, name, child.inst_name, page)


def pages(source: RegisterSource) -> list[str]:
    """The map's pages in their order: empty for the map itself, then those that lie in it."""
    return list(dict.fromkeys(register.page for register in register_map(source).values()))


def address_bits(source: RegisterSource) -> int:
    """Width of an address that tells all registers of all pages apart."""
    last = max(register.offset for register in register_map(source).values())
    return max(PAGE_BYTES - 1, last).bit_length()


def in_page(page: str, name: str) -> str:
    """The name that what is so named in a page has among all pages."""
    return f"{page}_{name}" if page else name


@cache
def elaborated(source: RegisterSource) -> AddrmapNode:
    """The RDL with the block's constants, as `systemrdl-compiler` has it."""
    compiler = RDLCompiler()
    compiler.compile_file(str(source.path), incl_search_paths=[str(COMMON.parent)])
    release = re.match(r"(\d+)\.(\d+)\.(\d+)", version("cdma-rtl"))
    assert release, "the package has no version of three numbers"
    numbers = zip(("MAJOR", "MINOR", "PATCH"), map(int, release.groups()), strict=True)
    return compiler.elaborate(
        source.top,
        inst_name=source.name,
        parameters={
            **source.parameters,
            **{f"VERSION_{name}": number for name, number in numbers},
        },
    ).top


def _register(node: RegNode, name: str, group: str, page: str) -> Register:
    # A half's own name means nothing without the pair's.
    pair = f"{node.parent.get_property('name')}, " if group != name else ""
    title = node.get_property("name")
    about = [_text(node.parent), _text(node)] if pair else [_text(node)]
    return Register(
        name=in_page(page, name),
        group=in_page(page, group).lower(),
        page=page,
        offset=node.absolute_address,
        title=f"{pair}{title[0].lower()}{title[1:]}" if pair else title,
        description=" ".join(about),
        fields={field.inst_name: _field(field, name, page) for field in node.fields()},
    )


def _field(node: FieldNode, register: str, page: str) -> Field:
    encode = node.get_property("encode")
    reset: Any = node.get_property("reset")
    enable: Any = node.get_property("enable")
    kind = _kind(node, register)
    return Field(
        name=node.inst_name,
        low=node.low,
        width=node.width,
        kind=kind,
        reset=reset or 0,
        title=node.get_property("name"),
        description=_text(node),
        meanings=tuple(
            Meaning(member.name, member.value, " ".join((member.rdl_desc or "").split()))
            for member in encode or ()
        ),
        clear=_signal(node, "hwclr", register, page),
        capture=_signal(node, "we", register, page),
        closed=_signal(node, "swwel", register, page),
        step_bits=node.get_property("incrwidth") or 1 if kind is Kind.COUNTER else 0,
        enabled_by=(in_page(page, enable.parent.inst_name), enable.inst_name) if enable else None,
        reports_writes=node.get_property("swmod"),
        clears_counters=node.get_property("clears_counters"),
        freezes_counters=node.get_property("freezes_counters"),
    )


def _kind(node: FieldNode, register: str) -> Kind:
    """The kind that the properties add up to; others are refused, never half obeyed."""
    sw, hw = node.get_property("sw"), node.get_property("hw")
    named = {
        Kind.COUNTER: node.get_property("counter"),
        Kind.UPPER_HALF: node.get_property("upper_half"),
        Kind.MAXIMUM: node.get_property("keeps_maximum"),
        Kind.PULSE: node.get_property("singlepulse"),
        Kind.EVENT: node.get_property("onwrite") == OnWriteType.woclr,
        Kind.LOCK: node.get_property("onwrite") == OnWriteType.woset,
        Kind.CAPTURED: bool(node.get_property("we")),
    }
    kinds = [kind for kind, is_it in named.items() if is_it]
    accesses = {
        (AccessType.r, AccessType.na): [Kind.CONSTANT, Kind.COUNTER],
        (AccessType.r, AccessType.w): [Kind.LIVE, Kind.CAPTURED, Kind.UPPER_HALF, Kind.MAXIMUM],
        (AccessType.w, AccessType.r): [Kind.PULSE],
        (AccessType.rw, AccessType.r): [Kind.STORED, Kind.EVENT, Kind.LOCK],
    }.get((sw, hw), [])
    kinds = kinds or accesses[:1]
    hardware_wins = node.get_property("precedence") == PrecedenceType.hw
    sets = bool(node.get_property("hwset"))
    clears = bool(node.get_property("hwclr"))
    sound = (
        len(kinds) == 1
        and kinds[0] in accesses
        and sets == (kinds[0] is Kind.EVENT)
        and (not (sets or clears) or hardware_wins)
        and (node.width == 1 or kinds[0] not in (Kind.PULSE, Kind.EVENT, Kind.LOCK))
        and (kinds[0] is Kind.STORED or not (clears or node.get_property("swwel")))
        and not node.get_property("swwe")
    )
    if not sound:
        raise RegisterMapError(f"{register}.{node.inst_name} is of no kind that the RTL knows")
    return kinds[0]


def _signal(node: FieldNode, property_name: str, register: str, page: str) -> str | None:
    value: Any = node.get_property(property_name)
    if not value:
        return None
    if value is True:
        raise RegisterMapError(f"{register}.{node.inst_name} needs a signal for {property_name}")
    return in_page(page.lower(), value.inst_name)


def _text(node: Any) -> str:
    """A description on one line."""
    return " ".join((node.get_property("desc") or "").split())
