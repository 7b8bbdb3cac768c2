"""A block's registers as RTL, built from their map."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import AxiLiteSignature
from cdma.hw.registers.map import (
    PAGE_BYTES,
    WORD_BYTES,
    WRITABLE,
    Field,
    Kind,
    Register,
    RegisterMapError,
    RegisterSource,
    address_bits,
    in_page,
    pages,
    register_map,
)
from cdma.hw.registers.port import RegisterPort

ADDRESS_BITS = (PAGE_BYTES - 1).bit_length()
"""Width of an address where there is one page."""
DATA_BITS = 8 * WORD_BYTES

_INWARD = (Kind.LIVE, Kind.CAPTURED, Kind.MAXIMUM)


class RegisterFile(wiring.Component):
    """All registers of `registers.rdl`, behind an AXI4-Lite port.

    Every access is answered 2 cycles after its request, come what may; one to an address without a
    register with SLVERR, without effect, and a read then returns zeros. So is a write of a register
    that is closed. What a write changes,
    hardware sees in the cycle after it, the one in which BVALID rises. 64-bit counters are read LO
    first, which keeps HI for its read; counters and maxima count what came in a cycle before.

    Latency: 2 cycles from a request to its response. Throughput: a write and a read every 2 cycles.

    Resources: a flip-flop for each bit that is stored, and 97 for each counter.

    Parameters
    ----------
    source : RegisterSource
        It must have an event that interrupts, and fields that clear and freeze the counters.

    Members
    -------
    s_axil : `In(AxiLiteSignature(12, 32))`
        The registers, for software. Further pages take further bits of the address.
    irq : `Out(len(pages))`
        For each page, high while an enabled bit of its IRQ_STATUS is set; a cycle behind it.
    ring_clear, error_capture : `In(1)`
        The signals of the RDL, if it has them, under their names there; those of a page begin with
        its name in lower case.
    setup_closed, windows_closed : `In(1)`
        The same; while such a signal is high, writes of the registers that it closes are refused.

    One more for each register that has something to do with hardware, named after it in lower
    case; LO and HI are one, with fields of up to 64 bits. In it there are, for a field `x`:

    x : `Out(width)`
        What software wrote; a self-clearing bit is high for a cycle. Or an event's state.
    x_set : `In(1)`
        Sets the event. Wins against software.
    written : `Out(1)`
        Software has written a field of which hardware wants to know: high in the first cycle of
        the new value.
    x : `In(width)`
        What software reads; of error registers, while `error_capture` is high; of maxima, the
        largest one.
    increment : `In(step_bits)`
        Added to the counter in each cycle.
    """

    def __init__(self, source: RegisterSource) -> None:
        self.registers = register_map(source)
        self.pages = pages(source)
        self.address_bits = address_bits(source)
        signals: dict[str, Any] = {}
        groups: dict[str, Any] = {}
        for group, registers in groupby(self.registers.values(), lambda r: r.group):
            members = _members(group, [f for r in registers for f in r.fields.values()])
            if members:
                groups[group] = Out(wiring.Signature(members))
        for register in self.registers.values():
            if not register.page and not 0 <= register.offset < PAGE_BYTES:
                raise RegisterMapError(f"{register.name} must lie below {PAGE_BYTES:#x}")
            for field in register.fields.values():
                named = (field.clear, field.capture, field.closed)
                signals |= {name: In(1) for name in named if name}
        super().__init__(
            {
                "s_axil": In(AxiLiteSignature(self.address_bits, DATA_BITS)),
                "irq": Out(len(self.pages)),
                **signals,
                **groups,
            }
        )

    def page(self, name: str) -> "RegisterPage":
        """Return the members that belong to a page of registers."""
        return RegisterPage(self, name)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.port = port = RegisterPort(self.address_bits, DATA_BITS)
        wiring.connect(m, wiring.flipped(self.s_axil), port.axil)
        # What each field reads as and, where it holds something, what holds it.
        states = {
            (register.name, field.name): self._state(register, field)
            for register, field in self._fields()
        }
        self._build_writes(m, port.write, states)
        reads = self._build_reads(m, port.read, states)
        for register, field in self._fields():
            self._build_hardware_side(m, register, field, states[register.name, field.name])
        clear, freeze = (
            next(states[r.name, f.name] for r, f in self._fields() if getattr(f, role))
            for role in ("clears_counters", "freezes_counters")
        )
        for register, field in self._fields():
            state = states[register.name, field.name]
            if field.kind is Kind.MAXIMUM:
                value = self._member(register, field)
                self._build_maximum(m, value, state, clear, freeze)
            elif field.kind is Kind.COUNTER:
                high_name = register.name.removesuffix("LO") + "HI"
                latched = states[high_name, field.name]
                self._build_counter(
                    m, register, state, latched, reads[register.name], clear, freeze
                )
        for irq, page in zip(self.irq, self.pages, strict=True):
            raised = Cat(
                states[register.name, field.name] & states[field.enabled_by]
                for register, field in self._fields()
                if field.enabled_by and register.page == page
            )
            m.d.sync += irq.eq(raised.any())
        return m

    def _fields(self) -> Iterator[tuple[Register, Field]]:
        for register in self.registers.values():
            for field in register.fields.values():
                yield register, field

    def _state(self, register: Register, field: Field) -> Value:
        if field.kind is Kind.CONSTANT:
            return C(field.reset, field.width)
        if field.kind in (*WRITABLE, Kind.LIVE):
            return self._member(register, field)
        name = f"{register.name.lower()}_held"
        if len(register.fields) > 1:
            name = f"{register.name.lower()}_{field.name}_held"
        return Signal(field.width, init=field.reset, name=name)

    def _member(self, register: Register, field: Field) -> Value:
        """The part of the member that is in this register."""
        member = getattr(getattr(self, register.group), field.name)
        if register.name.endswith("_HI"):
            return member[len(member) - field.width :]
        return member[: field.width]

    def _build_writes(self, m: Module, write: Any, states: dict[tuple[str, str], Value]) -> None:
        lanes = Signal(WORD_BYTES, name="write_lanes")
        known = Signal(name="write_known")
        refused = []
        m.d.comb += [
            lanes.eq(Mux(write.valid, write.strobe, 0)),
            known.eq(
                Cat(write.word == r.offset // WORD_BYTES for r in self.registers.values()).any()
            ),
        ]
        for register in self.registers.values():
            writable = [f for f in register.fields.values() if f.kind in WRITABLE]
            if not writable:
                continue
            own_lanes = Signal(WORD_BYTES, name=f"{register.name.lower()}_lanes")
            chosen = write.word == register.offset // WORD_BYTES
            if writable[0].closed:
                closed = getattr(self, writable[0].closed)
                refused.append(chosen & closed)
                chosen = chosen & ~closed
            m.d.comb += own_lanes.eq(Mux(chosen, lanes, 0))
            for field in writable:
                state = states[register.name, field.name]
                if field.kind is Kind.PULSE:
                    m.d.sync += state.eq(0)
                for lane, begin, end in _bytes_of(field):
                    part = state[begin - field.low : end - field.low]
                    data = write.data[begin:end]
                    with m.If(own_lanes[lane]):
                        m.d.sync += part.eq(_written(field.kind, part, data))
                if field.reports_writes:
                    own: Any = getattr(self, register.group)
                    touched = Cat(own_lanes[lane] for lane, _begin, _end in _bytes_of(field))
                    m.d.sync += own.written.eq(touched.any())
        m.d.comb += write.error.eq(~known | Cat(refused).any())

    def _build_reads(
        self, m: Module, read: Any, states: dict[tuple[str, str], Value]
    ) -> dict[str, Signal]:
        """Returns, for each register, that it is read now."""
        reads = {}
        pages: dict[str, Value] = dict.fromkeys(self.pages, C(0, DATA_BITS))
        for register in self.registers.values():
            word = Signal(DATA_BITS, name=f"{register.name.lower()}_word")
            reads[register.name] = chosen = Signal(name=f"reads_{register.name.lower()}")
            m.d.comb += chosen.eq(read.valid & (read.word == register.offset // WORD_BYTES))
            for field in register.fields.values():
                if field.kind is not Kind.PULSE:
                    place = slice(field.low, field.low + field.width)
                    m.d.comb += word[place].eq(states[register.name, field.name])
            pages[register.page] = pages[register.page] | Mux(chosen, word, 0)
        data, *others = pages.values()
        for page, other in zip(self.pages[1:], others, strict=True):
            # Of its own, as all registers in one expression would be too much for one.
            word = Signal(DATA_BITS, name=f"{page.lower()}_data")
            m.d.comb += word.eq(other)
            data = data | word
        m.d.comb += [read.data.eq(data), read.error.eq(~Cat(reads.values()).any())]
        return reads

    def _build_hardware_side(
        self, m: Module, register: Register, field: Field, state: Value
    ) -> None:
        if field.kind is Kind.EVENT:
            with m.If(getattr(getattr(self, register.group), f"{field.name}_set")):
                m.d.sync += state.eq(1)
        if field.clear:
            with m.If(getattr(self, field.clear)):
                m.d.sync += state.eq(0)
        if field.capture:
            with m.If(getattr(self, field.capture)):
                m.d.sync += state.eq(self._member(register, field))

    def _build_maximum(
        self, m: Module, value: Value, largest: Value, clear: Value, freeze: Value
    ) -> None:
        with m.If(~freeze & (value > largest)):
            m.d.sync += largest.eq(value)
        with m.If(clear):
            m.d.sync += largest.eq(0)

    def _build_counter(
        self,
        m: Module,
        register: Register,
        low: Value,
        latched: Value,
        read: Value,
        clear: Value,
        freeze: Value,
    ) -> None:
        increment = getattr(self, register.group).increment
        # The carry is added a cycle late, so that no adder is longer than a half.
        carry = Signal(name=f"{register.group}_carry")
        high = Signal(len(latched), name=f"{register.group}_high")
        high_now = Signal(len(latched), name=f"{register.group}_high_now")
        m.d.comb += high_now.eq(high + carry)
        m.d.sync += [
            Cat(low, carry).eq(low + Mux(freeze, 0, increment)),
            high.eq(high_now),
        ]
        with m.If(read):
            m.d.sync += latched.eq(high_now)
        with m.If(clear):
            m.d.sync += [low.eq(0), carry.eq(0), high.eq(0)]


class RegisterPage:
    """The members of a register file that belong to one of its pages, by their names in it.

    Parameters
    ----------
    registers : RegisterFile
    name : str
        The page's; empty for the map itself.
    """

    def __init__(self, registers: RegisterFile, name: str) -> None:
        self._registers = registers
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registers, in_page(self._name.lower(), name))


def _written(kind: Kind, held: Value, data: Value) -> Value:
    """Return what a field holds once software has written data to it."""
    if kind is Kind.EVENT:
        return held & ~data
    return held | data if kind is Kind.LOCK else data


def _bytes_of(field: Field) -> Iterator[tuple[int, int, int]]:
    """The bytes of the register that hold the field: which one, and from what bit to what."""
    end = field.low + field.width
    for lane in range(field.low // 8, (end - 1) // 8 + 1):
        yield lane, max(field.low, 8 * lane), min(end, 8 * lane + 8)


def _members(group: str, fields: list[Field]) -> dict[str, Any]:
    """The hardware side of the fields of a register, or of a pair."""
    members: dict[str, Any] = {}
    if any(field.reports_writes for field in fields):
        members["written"] = Out(1)
    for name in dict.fromkeys(field.name for field in fields):
        # A pair's halves, LO first.
        parts = [field for field in fields if field.name == name]
        kind = parts[0].kind
        whole = parts if all(part.kind is kind for part in parts) else parts[:1]
        width = sum(part.width for part in whole)
        shift, init = 0, 0
        for part in whole:
            init |= part.reset << shift
            shift += part.width
        if kind in WRITABLE:
            members[name] = Out(width, init=init)
        if kind is Kind.EVENT:
            members[f"{name}_set"] = In(1)
        if kind in _INWARD:
            members[name] = In(width)
        if kind is Kind.COUNTER:
            members["increment"] = In(parts[0].step_bits)
    return members
