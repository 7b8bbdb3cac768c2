"""The AXI4-Lite port of the registers: AMBA's rules, one answer to each request and none unasked,
within a bound; and that a counter's halves are of one moment."""

from typing import Any

import pytest
from amaranth.hdl import C, Cat, Signal, Value
from amaranth.hdl._ast import AnySeq

from cdma.hw.bus.axi import AxiResponse
from cdma.hw.config import MAX_RINGS, EngineConfig
from cdma.hw.dma.control.registers import Registers, register_map, register_source
from cdma.hw.registers.file import ADDRESS_BITS, DATA_BITS
from cdma.hw.registers.map import WORD_BYTES, address_bits
from cdma.hw.registers.port import RegisterPort
from tests.formal.bench import Bench, Inside, channel
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

MAP = register_map(EngineConfig())
WIDTHS = {
    **{
        f"{rings}-rings": (address_bits(register_source(EngineConfig(rings=rings))), DATA_BITS)
        for rings in range(1, MAX_RINGS + 1)
    },
    "buddy": (ADDRESS_BITS, DATA_BITS),
    **{
        f"{address}x{data}": (address, data)
        for address in (8, ADDRESS_BITS, 16, 20, 32)
        for data in (32, 64)
    },
}
"""Bits of an address and of the data: as shipped, by the engine's rings, and others."""
ANSWER_CYCLES = 1
"""Between the cycle in which a request stands as a whole and that of its answer."""


class Accesses:
    """Any accesses of a master that keeps the rules; those for the target are asserted.

    Attributes
    ----------
    aw, w, b, ar, r : Port
    """

    def __init__(self, bench: Bench, axil: Any, inside: Inside, path: str = "") -> None:
        self.aw = bench.drive_record(*channel(axil, "aw", "addr", "prot"))
        self.w = bench.drive_record(*channel(axil, "w", "data", "strb"))
        self.ar = bench.drive_record(*channel(axil, "ar", "addr", "prot"))
        self.b = bench.watch_record(*channel(axil, "b", "resp"))
        self.r = bench.watch_record(*channel(axil, "r", "data", "resp"))

        # What was asked for and not answered.
        addresses = self._waiting(bench, self.aw, self.b, name="addresses")
        data = self._waiting(bench, self.w, self.b, name="data")
        reads = self._waiting(bench, self.ar, self.r, name="reads")
        bench.implies(axil.bvalid, addresses != 0, data != 0)
        bench.implies(axil.rvalid, reads != 0)
        # Nothing is forgotten: each of them is in the port.
        held = {
            name: inside[path + name]
            for name in ("address_held", "data_held", "written", "read_pending", "read")
        }
        bench.require(
            addresses == held["address_held"] + held["written"],
            data == held["data_held"] + held["written"],
            reads == held["read_pending"] + held["read"],
        )
        whole_write = (addresses != 0) & (data != 0)
        bench.progress(whole_write, axil.bvalid, cycles=ANSWER_CYCLES)
        bench.progress(reads != 0, axil.rvalid, cycles=ANSWER_CYCLES)
        # A request waits for another one's answer, for nothing else.
        bench.implies(addresses == 0, axil.awready)
        bench.implies(data == 0, axil.wready)
        bench.implies(reads == 0, axil.arready)
        for response in (axil.bresp, axil.rresp):
            bench.require((response == AxiResponse.OKAY) | (response == AxiResponse.SLVERR))
        bench.cover(addresses == 2, data == 2, reads == 2, self.b.moves & self.r.moves)

    def _waiting(self, bench: Bench, asks: Any, answers: Any, *, name: str) -> Signal:
        count = Signal(2, name=f"{name}_waiting")
        bench.m.d.sync += count.eq(count + asks.moves - answers.moves)
        return count


def port_proof(address_bits: int = ADDRESS_BITS, data_bits: int = DATA_BITS) -> Bench:
    bench = Bench()
    port = RegisterPort(address_bits, data_bits)
    inside = bench.add(port)
    bench.m.d.comb += [
        port.write.error.eq(AnySeq(1)),
        port.read.error.eq(AnySeq(1)),
        port.read.data.eq(AnySeq(data_bits)),
    ]
    Accesses(bench, port.axil, inside)
    return bench


@pytest.mark.parametrize("widths", configs(WIDTHS, quick=()))
def test_port_answers_each_request_once(widths, tmp_path):
    prove(port_proof(*widths), tmp_path, depth=2)


FAULTS = {
    "answers in reset": ("axil.bvalid.eq(written & ~ResetSignal())", "axil.bvalid.eq(written)"),
    "forgets an answer": ("data_held & ~written", "data_held"),
    "changes an answer": ("read_pending & ~read", "read_pending"),
    "answers half a write": ("address_held & data_held", "address_held"),
    "never answers": ("read_pending.eq(1)", "read_pending.eq(0)"),
}


@pytest.mark.verify
@pytest.mark.parametrize(("right", "wrong"), FAULTS.values(), ids=FAULTS)
def test_port_with_a_fault_is_found(right, wrong, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, RegisterPort, right, wrong)
    find_fault(port_proof(), tmp_path, depth=8)


def exists(address: Value) -> Value:
    """A register is at this address."""
    word = address[(WORD_BYTES - 1).bit_length() :]
    return Cat(word == register.offset // WORD_BYTES for register in MAP.values()).any()


def writes_closed(block: Registers, word: Value) -> Value:
    """A register is at this word that is closed to writes in this cycle."""
    return Cat(
        (word == register.offset // WORD_BYTES) & getattr(block, field.closed)
        for register in MAP.values()
        for field in register.fields.values()
        if field.closed
    ).any()


def registers_proof() -> Bench:
    """The whole block; hardware shows anything."""
    bench = Bench()
    m = bench.m
    block = Registers(EngineConfig())
    inside = bench.add(block)
    for path, member, value in block.signature.flatten(block):
        if member.flow.name == "In" and path[0] != "s_axil":
            m.d.comb += value.eq(AnySeq(len(value)))
    axil = block.s_axil
    accesses = Accesses(bench, axil, inside, "port.")

    # SLVERR is for addresses without a register, for writes of what is closed, and for these alone.
    word = slice(2, ADDRESS_BITS)
    closed = writes_closed(block, inside["port.write__word"])
    for asks, address, executed, held, answer, response, denied in (
        (accesses.aw, axil.awaddr, "address_held", "write__word", axil.bvalid, axil.bresp, closed),
        (accesses.ar, axil.araddr, "read_pending", "read__word", axil.rvalid, axil.rresp, C(0)),
    ):
        waiting, answered = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS)
        with m.If(asks.moves):
            m.d.sync += waiting.eq(address)
        was_denied = Signal()
        with m.If(~answer):
            m.d.sync += [answered.eq(waiting), was_denied.eq(denied)]
        bench.implies(inside[f"port.{executed}"], inside[f"port.{held}"] == waiting[word])
        refused = response == AxiResponse.SLVERR
        bench.implies(answer, refused == (~exists(answered) | was_denied))
        bench.cover(answer & refused & exists(answered) if denied is closed else answer & refused)
        bench.cover(answer & ~refused)
    bench.implies(axil.rvalid & (axil.rresp == AxiResponse.SLVERR), axil.rdata == 0)

    # Both halves of a counter are of the moment at which the lower one was read.
    for group in ("cycles_busy", "raw_bytes_out"):
        total = Signal(64, name=f"{group}_total")
        at_read = Signal(64, name=f"{group}_at_read")
        increment = getattr(block, group).increment
        with m.If(block.perf_control.clear):
            m.d.sync += total.eq(0)
        with m.Elif(~block.perf_control.freeze):
            m.d.sync += total.eq(total + increment)
        with m.If(inside[f"reads_{group}_lo"]):
            m.d.sync += at_read.eq(total)
        low, high = inside[f"{group}_lo_held"], inside[f"{group}_high_now"]
        bench.require(Cat(low, high) == total, inside[f"{group}_hi_held"] == at_read[32:])
        read = Signal(name=f"{group}_lo_was_read")
        m.d.sync += read.eq(inside[f"reads_{group}_lo"])
        bench.implies(read & axil.rvalid, axil.rdata == at_read[:32])
        bench.cover(read & axil.rvalid & (axil.rdata > 1))

    # An event is kept until software writes 1 to it, and interrupts if it is enabled.
    for bit, name in enumerate(("done", "error", "ring_error")):
        event = getattr(block.irq_status, name)
        happens = getattr(block.irq_status, f"{name}_set")
        was_set, was_written = Signal(name=f"{name}_was_set"), Signal(name=f"{name}_was_written")
        before = Signal(name=f"{name}_before")
        m.d.sync += [
            was_set.eq(happens),
            before.eq(event),
            was_written.eq(
                inside["port.write__valid"]
                & (inside["port.write__word"] == MAP["IRQ_STATUS"].offset // WORD_BYTES)
                & inside["port.write__strobe"][0]
                & inside["port.write__data"][bit]
            ),
        ]
        bench.require(event == (was_set | (before & ~was_written)))
    status, enable = block.irq_status, block.irq_enable
    raised = Signal()
    m.d.sync += raised.eq(
        (status.done & enable.done)
        | (status.error & enable.error)
        | (status.ring_error & enable.ring_error)
    )
    bench.require(block.irq == raised)
    bench.cover(block.irq)
    return bench


@pytest.mark.verify
def test_registers_answer_each_request_once_and_keep_their_promises(tmp_path):
    prove(registers_proof(), tmp_path, depth=2)
