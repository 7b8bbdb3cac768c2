"""Contracts of the interfaces between descriptors and the buses: which memory payloads may name.

The solver picks a block of memory that no descriptor names (`UnnamedMemory`). Each contract says of
an interface that its payloads do not name the block either, and what else its sinks rely on. A
component's proof assumes the contracts of its inputs and asserts those of its outputs, so the block
is left alone by whatever comes to the bus. As it may be any block, accesses are of bytes that
accepted descriptors name, and of others in the same beats of a read.

`test_contracts.py` compares what the proofs assume with what they assert.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst
from amaranth.lib import data

from cdma.hw.bus.burst import PAGE_BYTES, ReadRequest, WriteRequest
from cdma.hw.bus.channels import BusRequest
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.completion import Completion
from cdma.hw.dma.control.descriptor import (
    DEVICE_ADDRESS_BITS,
    HOST_ADDRESS_BITS,
    CheckedDescriptor,
    Flag,
    Opcode,
    Status,
)
from cdma.hw.dma.control.dispatch import StartedDescriptor, Way
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.hw.dma.outbound.reader import LineRequest
from cdma.hw.dma.payloads import (
    InJob,
    LineCommand,
    OutJob,
    ReadJob,
    ReceiveJob,
    SplitJob,
    WriteJob,
)
from cdma.hw.lib.beat import Beat
from tests.formal.bench import Bench, Condition, Contract, Port
from tests.formal.rules import ALWAYS, beat_sizes


class UnnamedMemory:
    """A block of a memory, aligned to its size, that no descriptor of a ring names.

    Of reads, the block is a beat, since all of a beat is read that has a byte to be read; of
    writes, it is a byte. Distances are counted modulo the memory's size, so that they add up
    whatever wraps around.

    Attributes
    ----------
    address_bits, block_bytes : int
    last : Signal
        The address of the block's last byte.
    ring : Signal
        The ring's number; others may name the block.
    """

    def __init__(
        self, bench: Bench, name: str, address_bits: int, block_bytes: int = 1, rings: int = 1
    ) -> None:
        self.address_bits = address_bits
        self.block_bytes = block_bytes
        self.last = Signal(address_bits, name=f"{name}_last")
        self.ring = Signal(range(rings), name=f"{name}_ring")
        low_bits = (block_bytes - 1).bit_length()
        bench.m.d.comb += self.last.eq(
            Cat(Const(block_bytes - 1, low_bits), AnyConst(address_bits - low_bits))
        )
        if rings > 1:
            bench.m.d.comb += self.ring.eq(AnyConst(len(self.ring)))

    def distance(self, start: Value) -> Value:
        """Bytes from an address to the block's last one."""
        return (self.last - start)[: self.address_bits]

    def spared(self, start: Value, nbytes: Value, ring: Value | int | None = None) -> Condition:
        """A range of bytes has none of the block's, if it is of the ring."""
        spared = ~nbytes.bool() | (self.distance(start) >= nbytes + (self.block_bytes - 1))
        if ring is not None and len(self.ring):
            spared |= self.ring != ring
        return ALWAYS, spared

    def inside(self, start: Value, nbytes: Value) -> Condition:
        """A range of bytes, of which there is one at least, does not leave the memory."""
        return ALWAYS, (~start)[: self.address_bits] >= (nbytes - 1)[: len(nbytes)]


@dataclass(frozen=True)
class Memories:
    """The block of each memory that is not to be read, and the one that is not to be written."""

    device_read: UnnamedMemory
    device_written: UnnamedMemory
    host_read: UnnamedMemory
    host_written: UnnamedMemory

    @classmethod
    def of(cls, bench: Bench, config: EngineConfig) -> "Memories":
        """Those of an engine; its rings' descriptors name all four blocks or none of them."""

        def block(name: str, address_bits: int, nbytes: int = 1) -> UnnamedMemory:
            return UnnamedMemory(bench, name, address_bits, nbytes, config.rings)

        return cls(
            block("device_read", DEVICE_ADDRESS_BITS, config.codec.sector_bytes),
            block("device_written", DEVICE_ADDRESS_BITS),
            block("host_read", HOST_ADDRESS_BITS, config.host_bytes),
            block("host_written", HOST_ADDRESS_BITS),
        )


def ring_of(payload: Any, hint: int, field: str = "ring") -> Value | int:
    """The number of a payload's ring; where it has no bits, that of the component it is at."""
    ring = getattr(payload, field)
    return ring if len(ring) else hint


def entry(address: Value) -> tuple[Value, Value]:
    """The address and the bytes of a record; the low bits of its address do not count."""
    low_bits = ENTRY_BYTES.bit_length() - 1
    return Cat(Const(0, low_bits), address[low_bits:]), Const(ENTRY_BYTES)


def read_bytes(d: Any) -> Value:
    """The bytes of a descriptor's source that are read."""
    return Mux(d.opcode == Opcode.DECOMPRESS_IN, d.src_length, d.length)


def checked_descriptor(config: EngineConfig, memories: Memories, hint: int = 0) -> Contract:
    """`CheckedDescriptor`: an accepted one reads and writes what spares the blocks.

    The record is written whatever the status. Where what was written is verified, it is read.
    """
    alignment = (config.codec.element_bytes - 1).bit_length()

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        d = port.payload.descriptor
        ring = ring_of(port.payload, hint)
        accepted = port.payload.status == Status.OK
        outward = accepted & ((d.opcode == Opcode.COMPRESS_OUT) | (d.opcode == Opcode.COPY_OUT))
        inward = accepted & ((d.opcode == Opcode.DECOMPRESS_IN) | (d.opcode == Opcode.COPY_IN))
        verified = outward & (d.flags & Flag.VERIFY).any()
        read, written = (d.src, read_bytes(d), ring), (d.dst, d.dst_capacity, ring)
        return [
            (outward | inward, d.length != 0),
            (outward | inward, read_bytes(d) != 0),
            (outward | inward, port.payload.worst_length != 0),
            (outward, d.src[:alignment] == 0),
            *both(
                outward,
                [memories.device_read.inside(*read[:2]), memories.device_read.spared(*read)],
            ),
            *both(outward, [memories.host_written.spared(*written)]),
            *both(verified, [memories.host_read.spared(*written)]),
            *both(inward, [memories.host_read.spared(*read)]),
            *both(inward, [memories.device_written.spared(*written)]),
            memories.host_written.spared(*entry(d.record), ring),
        ]

    return Contract("CheckedDescriptor", rules)


def both(premise: Value, conditions: Sequence[Condition]) -> list[Condition]:
    """Conditions that hold where another premise does, too."""
    return [(premise & also, conclusion) for also, conclusion in conditions]


def source_of(config: EngineConfig, device_read: UnnamedMemory, job: Any) -> list[Condition]:
    """What a job reads: something, from an element on, that spares the block."""
    alignment = (config.codec.element_bytes - 1).bit_length()
    return [
        (ALWAYS, job.length != 0),
        (ALWAYS, job.src[:alignment] == 0),
        device_read.inside(job.src, job.length),
        device_read.spared(job.src, job.length, job.ring),
    ]


def out_job(config: EngineConfig, memories: Memories) -> Contract:
    """`OutJob`: source and destination spare the blocks."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        job = port.payload
        return [
            *source_of(config, memories.device_read, job),
            memories.host_written.spared(job.dst, job.capacity, job.ring),
        ]

    return Contract("OutJob", rules)


def placed_job(config: EngineConfig, memories: Memories) -> Contract:
    """An `OutJob` whose first unit has been found."""
    job_rules = out_job(config, memories).rules

    def rules(bench: Bench, port: Port) -> list[Condition]:
        job = replace(port, payload=port.payload.job)
        return [*job_rules(bench, job), (ALWAYS, port.payload.first_unit < config.units)]

    return Contract("OutJob, placed", rules)


def in_job(memories: Memories) -> Contract:
    """`InJob`: the same, and something is read."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        job = port.payload
        return [
            (ALWAYS, job.src_length != 0),
            memories.host_read.spared(job.src, job.src_length, job.ring),
            memories.device_written.spared(job.dst, job.capacity, job.ring),
        ]

    return Contract("InJob", rules)


def read_job(config: EngineConfig, device_read: UnnamedMemory) -> Contract:
    """`ReadJob`: something is read, and its first line's unit is one of the engine's."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        job = port.payload
        source = source_of(config, device_read, job)
        return [*source, (ALWAYS, job.first_unit < config.units)]

    return Contract("ReadJob", rules)


def line_request(config: CodecConfig, device_read: UnnamedMemory) -> Contract:
    """`LineRequest`: at most a line, from an element on."""
    alignment = (config.element_bytes - 1).bit_length()

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        line = port.payload
        return [
            (ALWAYS, line.size != 0),
            (ALWAYS, line.size <= config.line_bytes),
            (ALWAYS, line.address[:alignment] == 0),
            device_read.inside(line.address, line.size),
            device_read.spared(line.address, line.size, line.ring),
        ]

    return Contract("LineRequest", rules)


def receive_job(host_read: UnnamedMemory) -> Contract:
    """`ReceiveJob`: something is read."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        job = port.payload
        return [(ALWAYS, job.size != 0), host_read.spared(job.src, job.size, job.ring)]

    return Contract("ReceiveJob", rules)


def split_job(config: EngineConfig, device_written: UnnamedMemory) -> Contract:
    """`SplitJob`: the destination, and a unit of the engine's."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        job = port.payload
        return [
            (ALWAYS, job.first_unit < config.units),
            device_written.spared(job.dst, job.capacity, job.ring),
        ]

    return Contract("SplitJob", rules)


def line_command(device_written: UnnamedMemory) -> Contract:
    """`LineCommand`: the bytes of the line that may be written."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        line = port.payload
        return [device_written.spared(line.address, line.writable, line.ring)]

    return Contract("LineCommand", rules)


def side_of(address_bits: int) -> str:
    """The memory that addresses of so many bits are of."""
    return {DEVICE_ADDRESS_BITS: "device", HOST_ADDRESS_BITS: "host"}[address_bits]


def write_job(written: UnnamedMemory) -> Contract:
    """`WriteJob`: the capacity, whatever comes as packet; one to the host has a byte at least."""
    to_host = written.address_bits == HOST_ADDRESS_BITS

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        job = port.payload
        return [
            written.spared(job.dst, job.capacity, job.ring),
            *([(ALWAYS, job.limit != 0)] if to_host else []),
        ]

    return Contract(f"WriteJob, {side_of(written.address_bits)}", rules)


def page_rules(address: Value, beats: Value, beat_bytes: int) -> list[Condition]:
    """A burst of whole beats, within a page."""
    in_page = address[: PAGE_BYTES.bit_length() - 1]
    return [
        (ALWAYS, address[: (beat_bytes - 1).bit_length()] == 0),
        (ALWAYS, in_page + (beats + 1) * beat_bytes <= PAGE_BYTES),
    ]


def read_request(read: UnnamedMemory, hint: int = 0) -> Contract:
    """`ReadRequest`: a burst within a page, none of whose beats is the block."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        burst, width = port.payload, read.block_bytes
        ring = ring_of(burst, hint, "owner")
        return [
            *page_rules(burst.address, burst.beats, width),
            read.spared(burst.address, (burst.beats + 1) * width, ring),
        ]

    return Contract(f"ReadRequest, {side_of(read.address_bits)}", rules)


def write_request(address_bits: int, beat_bytes: int) -> Contract:
    """`WriteRequest`: a burst within a page; its strobes say which bytes are written."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        return page_rules(port.payload.address, port.payload.beats, beat_bytes)

    return Contract(f"WriteRequest, {side_of(address_bits)}", rules)


def beat_address(address: Value, number: Value, beat_bytes: int) -> Value:
    """The address of a burst's beat; it is in the same page."""
    page_bits = PAGE_BYTES.bit_length() - 1
    return Cat((address[:page_bits] + number * beat_bytes)[:page_bits], address[page_bits:])


@dataclass(frozen=True)
class TakenBeat:
    """A beat of a burst that is written: where it lies, and which of its bytes are written."""

    address: Value
    strobe: Value
    ring: Value


def written_beat(written: UnnamedMemory, beat_bytes: int) -> Contract:
    """A `TakenBeat`: none of its strobes is the byte's."""
    width_bits = (beat_bytes - 1).bit_length()

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        beat = port.payload
        lane = written.last[:width_bits]
        here = beat.address[width_bits:] == written.last[width_bits:]
        named = here & beat.strobe.bit_select(lane, 1)
        if len(written.ring):
            named &= written.ring == beat.ring
        return [(ALWAYS, ~named)]

    return Contract(f"beats of WriteRequest, {side_of(written.address_bits)}", rules)


def started_descriptor(memories: Memories) -> Contract:
    """`StartedDescriptor`: what is verified, and the record."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        d = port.payload
        verified = (d.way == Way.OUT) & (d.flags & Flag.VERIFY).any()
        return [
            *both(verified, [memories.host_read.spared(d.dst, d.capacity, d.ring)]),
            memories.host_written.spared(*entry(d.record), d.ring),
        ]

    return Contract("StartedDescriptor", rules)


def completion(memories: Memories) -> Contract:
    """`Completion`: where the record goes."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        end = port.payload
        return [memories.host_written.spared(*entry(end.address), end.ring)]

    return Contract("Completion", rules)


def verified_outcome(capacity: Value) -> Contract:
    """`WriteOutcome` of a job with that capacity, if all went well: the bytes that were written."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        size = port.payload
        return [(ALWAYS, size != 0), (ALWAYS, size <= capacity)]

    return Contract("WriteOutcome", rules)


def ring_registers(host_read: UnnamedMemory) -> Contract:
    """The registers of a ring that is not `outside` its window: its descriptors spare the block.

    The payload has its `base`, in descriptors, and its number of `entries`.
    """

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        ring = port.payload
        return [host_read.spared(Cat(Const(0, 6), ring.base), Cat(Const(0, 6), ring.entries))]

    return Contract("ring", rules)


def contract_of(
    shape: Any, config: EngineConfig, memories: Memories, hint: int = 0, *, writes: bool = False
) -> Contract | None:
    """The contract of a stream with payloads of that shape, if it has one.

    Parameters
    ----------
    shape
    config
        The engine, with units, beats and rings of that many.
    memories
    hint
        The number of the ring of payloads that do not tell.
    writes
        The stream is one of those that lead writes through a port, which do not tell either.
    """
    codec = config.codec
    if writes and isinstance(shape, ReadRequest | BusRequest):
        shape = WriteRequest(shape["address"].width)
    match shape:
        case CheckedDescriptor():
            return checked_descriptor(config, memories, hint)
        case OutJob():
            return out_job(config, memories)
        case InJob():
            return in_job(memories)
        case StartedDescriptor():
            return started_descriptor(memories)
        case Completion():
            return completion(memories)
        case ReadJob():
            return read_job(config, memories.device_read)
        case LineRequest():
            return line_request(codec, memories.device_read)
        case ReceiveJob():
            return receive_job(memories.host_read)
        case SplitJob():
            return split_job(config, memories.device_written)
        case LineCommand():
            return line_command(memories.device_written)
        case WriteJob():
            of_device = shape["dst"].width == DEVICE_ADDRESS_BITS
            return write_job(memories.device_written if of_device else memories.host_written)
        case ReadRequest() | BusRequest():
            of_device = shape["address"].width == DEVICE_ADDRESS_BITS
            return read_request(memories.device_read if of_device else memories.host_read, hint)
        case WriteRequest():
            bits = shape["address"].width
            of_device = bits == DEVICE_ADDRESS_BITS
            return write_request(bits, codec.sector_bytes if of_device else config.host_bytes)
        case Beat():
            return beat_sizes(shape["data"].width // 8)
        case data.StructLayout(members={"job": OutJob(), "first_unit": _}):
            return placed_job(config, memories)
    return None
