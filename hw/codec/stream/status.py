"""The status of a transfer through a codec, in either direction, as one record."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.codec.stream.checker import CheckResult, LineError
from cdma.hw.codec.stream.frame import Taken
from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS
from cdma.hw.codec.stream.unpack import StreamTail
from cdma.hw.lib.beat import Beat

SIZE_BITS = LENGTH_BITS + 1
"""Bits of the size of what a compressor makes of a transfer: heads are shorter than lines."""


class TransferStatus(data.StructLayout):
    """A transfer's status record.

    Members
    -------
    status
        A `golden.StreamStatus`.
    offset
        Where in the input the first error is, as `golden.StreamStatus` defines it; without one,
        the size of the input.
    out_size
        Bytes given out.
    crc32
        CRC-32 of the uncompressed bytes.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "status": unsigned(4),
                "offset": OFFSET_BITS,
                "out_size": OFFSET_BITS,
                "crc32": 32,
            }
        )


class Expectation(data.StructLayout):
    """The CRC-32 that the uncompressed bytes should have, if `check`."""

    def __init__(self) -> None:
        super().__init__({"crc32": 32, "check": 1})


class ByteMeter(wiring.Component):
    """Counts the bytes of each packet on its way through.

    Latency: 0 cycles. Throughput: a beat per cycle; the last beat of a packet waits for the former
    packet's size to be taken.

    Members
    -------
    i : `In(stream.Signature(Beat(data_bytes)))`
    o : `Out(stream.Signature(Beat(data_bytes)))`
    size : `Out(stream.Signature(33))`
        Bytes of each packet.
    """

    def __init__(self, data_bytes: int) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(Beat(data_bytes))),
                "o": Out(stream.Signature(Beat(data_bytes))),
                "size": Out(stream.Signature(SIZE_BITS)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        beat = self.i.payload
        # Beats: all are full but the last one.
        full_bits = len(beat.size) - 1
        count = Signal(SIZE_BITS - full_bits)
        total = Signal(SIZE_BITS)
        size = Signal(SIZE_BITS, reset_less=True)
        size_valid = Signal()
        waits = Signal()
        m.d.comb += [
            waits.eq(beat.last & size_valid),
            self.o.valid.eq(self.i.valid & ~waits),
            self.o.payload.eq(beat),
            self.i.ready.eq(self.o.ready & ~waits),
            total.eq(Cat(beat.size[:full_bits], count + beat.size[full_bits])),
            self.size.valid.eq(size_valid),
            self.size.payload.eq(size),
        ]
        with m.If(size_valid & self.size.ready):
            m.d.sync += size_valid.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += count.eq(Mux(beat.last, 0, total[full_bits:]))
            with m.If(beat.last):
                m.d.sync += [size_valid.eq(1), size.eq(total)]
        return m


class CompressorStatus(wiring.Component):
    """Joins the results of a compressor's stages for each transfer.

    Latency: 0 cycles.

    Members
    -------
    taken : `In(stream.Signature(Taken()))`
    crc32 : `In(stream.Signature(32))`
    out_size : `In(stream.Signature(33))`
    o : `Out(stream.Signature(TransferStatus()))`
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "taken": In(stream.Signature(Taken())),
                "crc32": In(stream.Signature(32)),
                "out_size": In(stream.Signature(SIZE_BITS)),
                "o": Out(stream.Signature(TransferStatus())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        record = self.o.payload
        m.d.comb += [
            self.o.valid.eq(self.taken.valid & self.crc32.valid & self.out_size.valid),
            record.status.eq(
                Mux(self.taken.payload.mismatch, StreamStatus.LENGTH_MISMATCH, StreamStatus.OK)
            ),
            record.offset.eq(self.taken.payload.size),
            record.out_size.eq(self.out_size.payload),
            record.crc32.eq(self.crc32.payload),
        ]
        done = Signal()
        m.d.comb += [
            done.eq(self.o.valid & self.o.ready),
            self.taken.ready.eq(done),
            self.crc32.ready.eq(done),
            self.out_size.ready.eq(done),
        ]
        return m


class DecompressorStatus(wiring.Component):
    """Joins the results of a decompressor's stages for each transfer, the first error first.

    Latency: 0 cycles.

    Members
    -------
    expectation : `In(stream.Signature(Expectation()))`
    checked : `In(stream.Signature(CheckResult()))`
    tail : `In(stream.Signature(StreamTail()))`
    crc32 : `In(stream.Signature(32))`
    o : `Out(stream.Signature(TransferStatus()))`
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "expectation": In(stream.Signature(Expectation())),
                "checked": In(stream.Signature(CheckResult())),
                "tail": In(stream.Signature(StreamTail())),
                "crc32": In(stream.Signature(32)),
                "o": Out(stream.Signature(TransferStatus())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        checked = self.checked.payload
        tail = self.tail.payload
        expected = self.expectation.payload
        record = self.o.payload

        inputs = (self.expectation, self.checked, self.tail, self.crc32)
        done = Signal()
        m.d.comb += [
            self.o.valid.eq(
                self.expectation.valid & self.checked.valid & self.tail.valid & self.crc32.valid
            ),
            done.eq(self.o.valid & self.o.ready),
            *(i.ready.eq(done) for i in inputs),
            record.offset.eq(checked.offset),
            record.out_size.eq(checked.size),
            record.crc32.eq(self.crc32.payload),
        ]
        missing = Signal()
        m.d.comb += missing.eq(
            (checked.line_error == LineError.MASK_MISSING)
            | (checked.line_error == LineError.ELEMENT_MISSING)
        )
        framing_error = Signal()
        with m.If(missing & tail.framing_error):
            m.d.comb += framing_error.eq(1)
        with m.Elif(checked.line_error == LineError.MASK_MISSING):
            m.d.comb += record.status.eq(StreamStatus.MASK_TRUNCATED)
        with m.Elif(checked.line_error == LineError.ELEMENT_MISSING):
            m.d.comb += record.status.eq(StreamStatus.PAYLOAD_TRUNCATED)
        with m.Elif(checked.line_error == LineError.ELEMENT_ZERO):
            m.d.comb += record.status.eq(StreamStatus.ZERO_ELEMENT)
        with m.Elif(checked.line_error == LineError.FILL_NONZERO):
            m.d.comb += record.status.eq(StreamStatus.NONZERO_FILL)
        with m.Elif(tail.trailing):
            m.d.comb += record.status.eq(StreamStatus.TRAILING_BYTES)
        with m.Elif(tail.framing_error):
            m.d.comb += framing_error.eq(1)
        with m.Elif(expected.check & (expected.crc32 != self.crc32.payload)):
            m.d.comb += record.status.eq(StreamStatus.CRC_MISMATCH)
        with m.Else():
            m.d.comb += record.status.eq(StreamStatus.OK)
        with m.If(framing_error):
            m.d.comb += [
                record.status.eq(StreamStatus.LENGTH_MISMATCH),
                record.offset.eq(tail.size),
            ]
        return m
