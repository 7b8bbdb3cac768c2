"""Descriptors, completion records and statuses, as software and engine exchange them in memory.

Both are 64 B, aligned to 64 B, little-endian. The numpy types are software's view, the Amaranth
layouts the hardware's; they are built from the same lists of fields.
"""

from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.config import EngineConfig
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.hw.lib.adder import add

DEVICE_ADDRESS_BITS = 40
HOST_ADDRESS_BITS = 64


class Opcode(IntEnum):
    """The operation that a descriptor requests."""

    COMPRESS_OUT = 1
    """Device to host, compressed."""
    DECOMPRESS_IN = 2
    """Host to device, decompressed."""
    COPY_OUT = 3
    """Device to host, as it is."""
    COPY_IN = 4
    """Host to device, as it is."""
    FENCE = 5
    """Nothing, once everything before it has its record."""


class Flag(IntFlag):
    """Bits of a descriptor's `flags`; all others must be zero."""

    INTERRUPT = 1
    """Raise an interrupt when the record is written."""
    CHECK_CRC = 2
    """DECOMPRESS_IN: compare the CRC-32 of the uncompressed bytes with `crc32`."""
    VERIFY = 4
    """COMPRESS_OUT: decompress what was written and compare its CRC-32."""
    THROTTLE_CLASS = 8
    """The index of the token bucket that limits the reads of device memory."""


class Status(IntEnum):
    """The outcome of a descriptor."""

    IN_PROGRESS = 0
    """Not ended; the engine never writes this, software puts it there beforehand."""
    OK = 1
    OK_EXPANDED = 2
    """The data is valid, and takes more space than before."""
    DESTINATION_OVERFLOW = 3
    """`dst_capacity` bytes were written and more were to come. `src_done` and `fault_address` tell
    where to go on: so many uncompressed bytes, whose stream has so many bytes, are whole."""
    STREAM_TRUNCATED = 4
    """The compressed stream ends too early. Detail: the `golden.StreamStatus`."""
    STREAM_CORRUPT = 5
    """The compressed stream is not canonical. Detail: the `golden.StreamStatus`."""
    CRC_MISMATCH = 6
    READ_ERROR = 7
    """A read was answered with an error. Detail: RRESP, or 1 for RLAST on another beat."""
    WRITE_ERROR = 8
    """A write was answered with an error. Detail: BRESP."""
    TIMEOUT = 9
    """The bus was silent for TIMEOUT_CYCLES. Detail: a `TimeoutDetail`."""
    BAD_OPCODE = 10
    BAD_FLAG = 11
    """A reserved bit or byte is not zero, a parameter's among them that the codec has not, or
    codec or element size are not what the engine has."""
    MISALIGNED = 12
    """An address is no multiple of the element size, or the record's none of 64."""
    BAD_LENGTH = 13
    """A length is zero, or a range wraps around the end of its address space."""
    OVERLAP = 14
    """The record lies in the range that the descriptor reads or writes in host memory."""
    ABORTED = 15
    VERIFY_MISMATCH = 16


class TimeoutDetail(IntEnum):
    """The kind of access that was not answered in time."""

    READ = 1
    WRITE = 2


DESCRIPTOR_FIELDS = (
    ("opcode", 1),
    ("codec", 1),
    ("element_bytes", 1),
    ("flags", 1),
    ("tag", 4),
    ("src", 8),
    ("dst", 8),
    ("length", 4),
    ("crc32", 4),
    ("dst_capacity", 8),
    ("src_length", 8),
    ("record", 8),
    ("parameters", 4),
    ("reserved", 4),
)
"""Names and bytes, in order.

`length` counts uncompressed bytes. `src_length` is the stream's size for DECOMPRESS_IN, zero
otherwise. `codec` is the number of a codec that the engine has; it and `element_bytes` are zero
where nothing is compressed. `parameters` are the codec's (`LineCodec.parameters`), in its low bits;
the bits that the codec does not use are zero.
"""

RECORD_FIELDS = (
    ("status", 1),
    ("phase", 1),
    ("detail", 2),
    ("tag", 4),
    ("src_done", 8),
    ("out_size", 8),
    ("fault_address", 8),
    ("crc32", 4),
    ("index", 4),
    ("cycles", 8),
    ("result", 4),
    ("reserved", 12),
)
"""Names and bytes, in order.

`phase` is 1 in the ring's first lap and turns over with each lap. `out_size` counts the bytes that
are right at the destination; on a write error those before the burst at fault. Beyond them, within
`dst_capacity`, a descriptor that failed may have written anything. `src_done` counts, on the way
out, uncompressed bytes: those of the lines whose stream is whole in `out_size`, 0 if the write of a
compressed stream failed; on the way in, bytes of the stream that were read. `fault_address` is the
address of the beat or write burst, for a stream error the offset in the stream. `crc32` is that of
the uncompressed bytes, zero where not all of them were seen. `cycles` is from the descriptor's
arrival to its record. `result` is the codec's result for the data on the way out
(`LineCodec.result`), zero where it has none or not all of the data was seen.
"""


def _dtype(fields: tuple[tuple[str, int], ...]) -> np.dtype[np.void]:
    return np.dtype([(name, f"<u{size}" if size <= 8 else f"V{size}") for name, size in fields])


DESCRIPTOR_DTYPE = _dtype(DESCRIPTOR_FIELDS)
RECORD_DTYPE = _dtype(RECORD_FIELDS)


class Descriptor(data.StructLayout):
    """A descriptor's 64 bytes, by the fields of `DESCRIPTOR_FIELDS`."""

    def __init__(self) -> None:
        super().__init__({name: 8 * size for name, size in DESCRIPTOR_FIELDS})


class Record(data.StructLayout):
    """A completion record's 64 bytes, by the fields of `RECORD_FIELDS`."""

    def __init__(self) -> None:
        super().__init__({name: 8 * size for name, size in RECORD_FIELDS})


class CheckedDescriptor(data.StructLayout):
    """A descriptor and the result of its checks.

    Members
    -------
    descriptor
    status
        OK, or the first of the checks that failed.
    index
        The descriptor's free-running number.
    """

    def __init__(self) -> None:
        super().__init__({"descriptor": Descriptor(), "status": 8, "index": 16})


class FetchedDescriptor(data.StructLayout):
    """A descriptor as it was read from the ring.

    Members
    -------
    descriptor
    index
        The descriptor's free-running number.
    """

    def __init__(self) -> None:
        super().__init__({"descriptor": Descriptor(), "index": 16})


class DescriptorChecker(wiring.Component):
    """Checks a descriptor before anything is done for it.

    Checks opcode, flags (with codec, element size and reserved bytes), alignment, lengths and
    overlap, in this order; the first that fails gives the status.

    Latency: 2 cycles, one to add up where the ranges end, one to compare. Throughput: a descriptor
    per 2 cycles, as they are dispatched.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    i : `In(stream.Signature(FetchedDescriptor()))`
    o : `Out(stream.Signature(CheckedDescriptor()))`
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(FetchedDescriptor())),
                "o": Out(stream.Signature(CheckedDescriptor())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        arriving = self.i.payload.descriptor

        # Cycle 1: accept it, and add up where each range ends. What is read from the host is as
        # long as the stream; to know that opcode first would take the time of the addition.
        summed = Signal()
        checked = Signal()
        i_fire = Signal()
        fetched = Signal(FetchedDescriptor(), reset_less=True)
        ends = _RangeEnds()
        m.d.comb += [
            self.i.ready.eq(~summed | (checked & self.o.ready)),
            i_fire.eq(self.i.valid & self.i.ready),
        ]
        with m.If(i_fire):
            m.d.sync += [
                fetched.eq(self.i.payload),
                ends.data_end.eq(add(m, arriving.src, arriving.length, name="data_end")),
                ends.stream_end.eq(add(m, arriving.src, arriving.src_length, name="stream_end")),
                ends.dst_end.eq(add(m, arriving.dst, arriving.dst_capacity, name="dst_end")),
            ]

        # Cycle 2: compare. The first check that fails gives the status.
        d = fetched.descriptor
        kind = _Kind(m, d)
        reserved_set = self._reserved_set(m, d, kind)
        misaligned = self._misaligned(m, d)
        bad_length = self._bad_length(m, d, kind, ends)
        overlaps = self._overlaps(m, d, kind, ends)
        status = Signal(8)
        with m.If(~kind.moves & (d.opcode != Opcode.FENCE)):
            m.d.comb += status.eq(Status.BAD_OPCODE)
        with m.Elif(reserved_set):
            m.d.comb += status.eq(Status.BAD_FLAG)
        with m.Elif(misaligned):
            m.d.comb += status.eq(Status.MISALIGNED)
        with m.Elif(bad_length):
            m.d.comb += status.eq(Status.BAD_LENGTH)
        with m.Elif(overlaps):
            m.d.comb += status.eq(Status.OVERLAP)
        with m.Else():
            m.d.comb += status.eq(Status.OK)

        result = Signal(8, reset_less=True)
        m.d.comb += [
            self.o.valid.eq(checked),
            self.o.payload.descriptor.eq(d),
            self.o.payload.index.eq(fetched.index),
            self.o.payload.status.eq(result),
        ]
        with m.If(self.i.ready):
            m.d.sync += [summed.eq(self.i.valid), checked.eq(0)]
        with m.Else():
            m.d.sync += checked.eq(1)
            with m.If(~checked):
                m.d.sync += result.eq(status)
        return m

    def _reserved_set(self, m: Module, d: Any, kind: "_Kind") -> Value:
        """Return whether a flag or a field is set that must be zero for this opcode."""
        codec = self.config.codec
        allowed = Signal(8, name="allowed_flags")
        m.d.comb += allowed.eq(
            Flag.INTERRUPT
            | Mux(kind.from_stream, Flag.CHECK_CRC, 0)
            | Mux(d.opcode == Opcode.COMPRESS_OUT, Flag.VERIFY, 0)
            | Mux(kind.outward, Flag.THROTTLE_CLASS, 0)
        )
        numbers = [e.number for e in codec.entries if e.number is not None]
        wrong_codec = d.codec.any()
        if numbers != [0]:
            known = Cat(d.codec == number for number in numbers).any() if numbers else C(0, 1)
            wrong_codec = Mux(kind.compresses, ~known, wrong_codec)
        used: Value = C(0, 32)
        for entry in codec.entries:
            if entry.parameters:
                chosen = kind.compresses & (d.codec == entry.number)
                used = Mux(chosen, (1 << entry.parameter_bits) - 1, used)
        fields = [
            d.flags & ~allowed,
            wrong_codec,
            d.element_bytes ^ Mux(kind.compresses, codec.element_bytes, 0),
            d.parameters & ~used,
            d.reserved,
            Mux(kind.from_stream, 0, d.src_length),
            Mux(d.flags & Flag.CHECK_CRC, 0, d.crc32),
            Mux(kind.moves, 0, Cat(d.src, d.dst, d.length, d.dst_capacity)),
        ]
        return Cat(field.any() for field in fields).any()

    def _misaligned(self, m: Module, d: Any) -> Signal:
        """Return whether the record or an end of the data is not aligned."""
        alignment = (self.config.codec.element_bytes - 1).bit_length()
        misaligned = Signal(name="misaligned")
        m.d.comb += misaligned.eq(
            d.record[:6].any() | d.src[:alignment].any() | d.dst[:alignment].any()
        )
        return misaligned

    def _bad_length(self, m: Module, d: Any, kind: "_Kind", ends: "_RangeEnds") -> Signal:
        """Return whether a length is zero, or a range ends outside its address space."""
        m.d.comb += ends.src_end.eq(Mux(kind.from_stream, ends.stream_end, ends.data_end))

        def beyond(end: Value, in_device: Value) -> Value:
            limits = (1 << HOST_ADDRESS_BITS, 1 << DEVICE_ADDRESS_BITS)
            return Mux(in_device, end > limits[1], end > limits[0])

        bad_length = Signal(name="bad_length")
        m.d.comb += bad_length.eq(
            kind.moves
            & (
                (d.length == 0)
                | (kind.from_stream & (d.src_length == 0))
                | beyond(ends.src_end, kind.outward)
                | beyond(ends.dst_end, kind.inward)
            )
        )
        return bad_length

    def _overlaps(self, m: Module, d: Any, kind: "_Kind", ends: "_RangeEnds") -> Signal:
        """Return whether the record lies in the range of host memory.

        The record begins before the range's end, and ends behind its start: both bounds of the
        record are multiples of its size.
        """
        record_bits = (ENTRY_BYTES - 1).bit_length()
        host_start = Signal(64, name="host_start")
        host_end = Signal(65, name="host_end")
        overlaps = Signal(name="overlaps")
        m.d.comb += [
            host_start.eq(Mux(kind.outward, d.dst, d.src)),
            host_end.eq(Mux(kind.outward, ends.dst_end, ends.src_end)),
            overlaps.eq(
                kind.moves
                & (d.record < host_end)
                & (d.record[record_bits:] >= host_start[record_bits:])
            ),
        ]
        return overlaps


class _Kind:
    """The direction of a descriptor's data, by its opcode."""

    def __init__(self, m: Module, d: Any) -> None:
        self.compresses = Signal()
        self.outward = Signal()
        self.inward = Signal()
        self.from_stream = Signal()
        self.moves = Signal()

        def is_op(*opcodes: Opcode) -> Value:
            return Cat(d.opcode == opcode for opcode in opcodes).any()

        m.d.comb += [
            self.compresses.eq(is_op(Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN)),
            self.outward.eq(is_op(Opcode.COMPRESS_OUT, Opcode.COPY_OUT)),
            self.inward.eq(is_op(Opcode.DECOMPRESS_IN, Opcode.COPY_IN)),
            self.from_stream.eq(is_op(Opcode.DECOMPRESS_IN)),
            self.moves.eq(self.outward | self.inward),
        ]


class _RangeEnds:
    """The first addresses behind the ranges that a descriptor names, one bit wider than these."""

    def __init__(self) -> None:
        self.data_end = Signal(65, reset_less=True)
        self.stream_end = Signal(65, reset_less=True)
        self.dst_end = Signal(65, reset_less=True)
        self.src_end = Signal(65)
