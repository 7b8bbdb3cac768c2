"""What software and engine tell each other in memory: descriptors, records, statuses.

Both are 64 B, aligned to 64 B, little-endian. The numpy types are software's view, the Amaranth
layouts the hardware's; they are built from the same lists of fields.
"""

from enum import IntEnum, IntFlag

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
    """What a descriptor asks for."""

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
    """Which of the two token buckets limits the reads of device memory."""


class Status(IntEnum):
    """How a descriptor ended."""

    IN_PROGRESS = 0
    """Not ended; the engine never writes this, software puts it there beforehand."""
    OK = 1
    OK_EXPANDED = 2
    """The data is valid, and takes more room than before."""
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
    """What was not answered in time."""

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
what the codec does not use of it is zero.
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
arrival to its record. `result` is what the codec tells of the data on the way out
(`LineCodec.result`), zero where it tells nothing or not all of the data was seen.
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
    """A descriptor and what is wrong with it.

    Members
    -------
    descriptor
    status
        OK, or the first of the checks that failed.
    index
        Its free-running number.
    """

    def __init__(self) -> None:
        super().__init__({"descriptor": Descriptor(), "status": 8, "index": 16})


class FetchedDescriptor(data.StructLayout):
    """A descriptor as it came from the ring.

    Members
    -------
    descriptor
    index
        Its free-running number.
    """

    def __init__(self) -> None:
        super().__init__({"descriptor": Descriptor(), "index": 16})


class DescriptorChecker(wiring.Component):
    """Finds what is wrong with a descriptor before anything is done for it.

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
        element_bytes = self.config.codec.element_bytes
        arriving = self.i.payload.descriptor

        # Cycle 1: take it, and find where each range ends. What is read from the host is as long as
        # the stream; to know that opcode first would take the time of the addition.
        summed = Signal()
        checked = Signal()
        takes = Signal()
        fetched = Signal(FetchedDescriptor(), reset_less=True)
        data_end = Signal(65, reset_less=True)
        stream_end = Signal(65, reset_less=True)
        dst_end = Signal(65, reset_less=True)
        m.d.comb += [
            self.i.ready.eq(~summed | (checked & self.o.ready)),
            takes.eq(self.i.valid & self.i.ready),
        ]
        with m.If(takes):
            m.d.sync += [
                fetched.eq(self.i.payload),
                data_end.eq(add(m, arriving.src, arriving.length, name="data_end")),
                stream_end.eq(add(m, arriving.src, arriving.src_length, name="stream_end")),
                dst_end.eq(add(m, arriving.dst, arriving.dst_capacity, name="dst_end")),
            ]

        # Cycle 2: compare.
        d = fetched.descriptor

        def is_op(*opcodes: Opcode) -> Value:
            return Cat(d.opcode == opcode for opcode in opcodes).any()

        compresses = Signal()
        outward = Signal()
        inward = Signal()
        from_stream = Signal()
        moves = Signal()
        m.d.comb += [
            compresses.eq(is_op(Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN)),
            outward.eq(is_op(Opcode.COMPRESS_OUT, Opcode.COPY_OUT)),
            inward.eq(is_op(Opcode.DECOMPRESS_IN, Opcode.COPY_IN)),
            from_stream.eq(is_op(Opcode.DECOMPRESS_IN)),
            moves.eq(outward | inward),
        ]

        allowed = Signal(8)
        m.d.comb += allowed.eq(
            Flag.INTERRUPT
            | Mux(from_stream, Flag.CHECK_CRC, 0)
            | Mux(d.opcode == Opcode.COMPRESS_OUT, Flag.VERIFY, 0)
            | Mux(outward, Flag.THROTTLE_CLASS, 0)
        )
        numbers = [e.number for e in self.config.codec.entries if e.number is not None]
        wrong_codec = d.codec.any()
        if numbers != [0]:
            found = Cat(d.codec == number for number in numbers).any() if numbers else C(0, 1)
            wrong_codec = Mux(compresses, ~found, wrong_codec)
        used: Value = C(0, 32)
        for entry in self.config.codec.entries:
            if entry.parameters:
                chosen = compresses & (d.codec == entry.number)
                used = Mux(chosen, (1 << entry.parameter_bits) - 1, used)
        reserved = [
            d.flags & ~allowed,
            wrong_codec,
            d.element_bytes ^ Mux(compresses, element_bytes, 0),
            d.parameters & ~used,
            d.reserved,
            Mux(from_stream, 0, d.src_length),
            Mux(d.flags & Flag.CHECK_CRC, 0, d.crc32),
            Mux(moves, 0, Cat(d.src, d.dst, d.length, d.dst_capacity)),
        ]

        alignment = (element_bytes - 1).bit_length()
        misaligned = Signal()
        m.d.comb += misaligned.eq(
            d.record[:6].any() | d.src[:alignment].any() | d.dst[:alignment].any()
        )

        src_end = Signal(65)
        m.d.comb += src_end.eq(Mux(from_stream, stream_end, data_end))

        def beyond(end: Value, in_device: Value) -> Value:
            limits = (1 << HOST_ADDRESS_BITS, 1 << DEVICE_ADDRESS_BITS)
            return Mux(in_device, end > limits[1], end > limits[0])

        bad_length = Signal()
        m.d.comb += bad_length.eq(
            moves
            & (
                (d.length == 0)
                | (from_stream & (d.src_length == 0))
                | beyond(src_end, outward)
                | beyond(dst_end, inward)
            )
        )

        # The record begins before the end, and ends behind the start: both of its bounds are
        # multiples of its size.
        record_bits = (ENTRY_BYTES - 1).bit_length()
        host_start = Signal(64)
        host_end = Signal(65)
        m.d.comb += [
            host_start.eq(Mux(outward, d.dst, d.src)),
            host_end.eq(Mux(outward, dst_end, src_end)),
        ]
        overlap = Signal()
        m.d.comb += overlap.eq(
            moves & (d.record < host_end) & (d.record[record_bits:] >= host_start[record_bits:])
        )

        status = Signal(8)
        with m.If(~moves & (d.opcode != Opcode.FENCE)):
            m.d.comb += status.eq(Status.BAD_OPCODE)
        with m.Elif(Cat(field.any() for field in reserved).any()):
            m.d.comb += status.eq(Status.BAD_FLAG)
        with m.Elif(misaligned):
            m.d.comb += status.eq(Status.MISALIGNED)
        with m.Elif(bad_length):
            m.d.comb += status.eq(Status.BAD_LENGTH)
        with m.Elif(overlap):
            m.d.comb += status.eq(Status.OVERLAP)
        with m.Else():
            m.d.comb += status.eq(Status.OK)

        told = Signal(8, reset_less=True)
        m.d.comb += [
            self.o.valid.eq(checked),
            self.o.payload.descriptor.eq(d),
            self.o.payload.index.eq(fetched.index),
            self.o.payload.status.eq(told),
        ]
        with m.If(self.i.ready):
            m.d.sync += [summed.eq(self.i.valid), checked.eq(0)]
        with m.Else():
            m.d.sync += checked.eq(1)
            with m.If(~checked):
                m.d.sync += told.eq(status)
        return m
