"""The checks that a descriptor passes before anything is done for it."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import (
    DETAIL_BITS,
    DEVICE_ADDRESS_BITS,
    HOST_ADDRESS_BITS,
    CheckedDescriptor,
    FetchedDescriptor,
    Flag,
    Opcode,
    Status,
    WindowDetail,
)
from cdma.hw.dma.control.windows import PAGE_BITS, Window, page_outside, range_outside
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.hw.lib.adder import add

RECORD_BITS = (ENTRY_BYTES - 1).bit_length()


class DescriptorChecker(wiring.Component):
    """Checks a descriptor before anything is done for it.

    Checks opcode, flags (with codec, element size and reserved bytes), alignment, lengths, overlap
    and windows, in this order; the first that fails gives the status. A window holds all that a
    descriptor may read or write: of a stream as many bytes as it says, of a destination its
    capacity. An empty destination is in every window.

    A descriptor whose record would leave the records' window is a fault instead, whatever else it
    is, since there is nowhere to report it: it and those behind it are dropped until `clear`.

    Latency: 2 cycles, one to add up where the ranges end, one to compare. Throughput: a descriptor
    per 3 cycles.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    i : `In(stream.Signature(FetchedDescriptor()))`
    record_window, host_window : `In(Window(64))`
        The windows of records and of data in host memory. All windows must hold still from the
        cycle before a descriptor comes until it has left.
    device_window : `In(Window(40))`
        That of data in device memory.
    clear : `In(1)`
        The ring begins again. High only while `idle`.
    o : `Out(stream.Signature(CheckedDescriptor()))`
    faulty : `Out(1)`
        A record would leave its window; `fault_address` is that record's.
    fault_address : `Out(64)`
    idle : `Out(1)`
        No descriptor is here.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(FetchedDescriptor())),
                "record_window": In(Window(HOST_ADDRESS_BITS)),
                "host_window": In(Window(HOST_ADDRESS_BITS)),
                "device_window": In(Window(DEVICE_ADDRESS_BITS)),
                "clear": In(1),
                "o": Out(stream.Signature(CheckedDescriptor())),
                "faulty": Out(1),
                "fault_address": Out(HOST_ADDRESS_BITS),
                "idle": Out(1),
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
            # Whether the present one leaves is known too late in the cycle to accept the next one.
            self.i.ready.eq(~summed),
            self.idle.eq(~summed),
            i_fire.eq(self.i.valid & self.i.ready),
        ]
        with m.If(i_fire):
            m.d.sync += [
                summed.eq(1),
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
        source_outside, destination_outside = self._outside(m, d, kind, ends)
        status = Signal(8)
        detail = Signal(DETAIL_BITS)
        with m.If(~kind.is_transfer & (d.opcode != Opcode.FENCE)):
            m.d.comb += status.eq(Status.BAD_OPCODE)
        with m.Elif(reserved_set):
            m.d.comb += status.eq(Status.BAD_FLAG)
        with m.Elif(misaligned):
            m.d.comb += status.eq(Status.MISALIGNED)
        with m.Elif(bad_length):
            m.d.comb += status.eq(Status.BAD_LENGTH)
        with m.Elif(overlaps):
            m.d.comb += status.eq(Status.OVERLAP)
        with m.Elif(source_outside):
            m.d.comb += [status.eq(Status.OUTSIDE_WINDOW), detail.eq(WindowDetail.SOURCE)]
        with m.Elif(destination_outside):
            m.d.comb += [status.eq(Status.OUTSIDE_WINDOW), detail.eq(WindowDetail.DESTINATION)]
        with m.Else():
            m.d.comb += status.eq(Status.OK)

        result = Signal(8, reset_less=True)
        result_detail = Signal(DETAIL_BITS, reset_less=True)
        worst_length = Signal(OFFSET_BITS, reset_less=True)
        m.d.comb += [
            self.o.valid.eq(checked & ~self.faulty),
            self.o.payload.descriptor.eq(d),
            self.o.payload.index.eq(fetched.index),
            self.o.payload.status.eq(result),
            self.o.payload.detail.eq(result_detail),
            self.o.payload.worst_length.eq(worst_length),
        ]
        with m.If(checked & (self.o.ready | self.faulty)):
            m.d.sync += [summed.eq(0), checked.eq(0)]
        with m.If(summed & ~checked):
            m.d.sync += [
                checked.eq(1),
                result.eq(status),
                result_detail.eq(detail),
                worst_length.eq(self._worst_length(d)),
            ]
            with m.If(~self.faulty):
                m.d.sync += [
                    self.faulty.eq(page_outside(self.record_window, d.record[PAGE_BITS:])),
                    self.fault_address.eq(Cat(C(0, RECORD_BITS), d.record[RECORD_BITS:])),
                ]
        with m.If(self.clear):
            m.d.sync += self.faulty.eq(0)
        return m

    def _worst_length(self, d: Any) -> Value:
        """Return the bytes of a stream's worst case, and an element that would be too much."""
        codec = self.config.codec
        line_bits = (codec.line_bytes - 1).bit_length()
        lines = (d.length + codec.line_bytes - 1) >> line_bits
        return lines * codec.worst_line_bytes + codec.element_bytes

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
            Mux(kind.is_transfer, 0, Cat(d.src, d.dst, d.length, d.dst_capacity)),
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
            kind.is_transfer
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
        overlaps = Signal(name="overlaps")
        m.d.comb += [
            ends.host_start.eq(Mux(kind.outward, d.dst, d.src)),
            ends.host_end.eq(Mux(kind.outward, ends.dst_end, ends.src_end)),
            overlaps.eq(
                kind.is_transfer
                & (d.record < ends.host_end)
                & (d.record[RECORD_BITS:] >= ends.host_start[RECORD_BITS:])
            ),
        ]
        return overlaps

    def _outside(
        self, m: Module, d: Any, kind: "_Kind", ends: "_RangeEnds"
    ) -> tuple[Signal, Signal]:
        """Return whether the source and whether the destination leave their windows.

        Neither means anything for a range that leaves its address space.
        """
        # The pages behind the windows: the windows stand still, so a cycle late is early enough.
        limits = []
        for name, window in (("host", self.host_window), ("device", self.device_window)):
            limit = Signal(len(window.last) + 1, name=f"{name}_limit", reset_less=True)
            m.d.sync += limit.eq(window.last + 1)
            limits.append(limit)
        device_start = Signal(DEVICE_ADDRESS_BITS, name="device_start")
        device_end = Signal(DEVICE_ADDRESS_BITS + 1, name="device_end")
        host_outside = Signal(name="host_outside")
        device_outside = Signal(name="device_outside")
        source_outside = Signal(name="source_outside")
        destination_outside = Signal(name="destination_outside")
        m.d.comb += [
            device_start.eq(Mux(kind.outward, d.src, d.dst)),
            device_end.eq(Mux(kind.outward, ends.src_end, ends.dst_end)),
            host_outside.eq(
                range_outside(self.host_window, limits[0], ends.host_start, ends.host_end)
            ),
            device_outside.eq(
                range_outside(self.device_window, limits[1], device_start, device_end)
            ),
            source_outside.eq(kind.is_transfer & Mux(kind.outward, device_outside, host_outside)),
            destination_outside.eq(
                kind.is_transfer
                & d.dst_capacity.any()
                & Mux(kind.outward, host_outside, device_outside)
            ),
        ]
        return source_outside, destination_outside


class _Kind:
    """The direction of a descriptor's data, by its opcode."""

    def __init__(self, m: Module, d: Any) -> None:
        self.compresses = Signal()
        self.outward = Signal()
        self.inward = Signal()
        self.from_stream = Signal()
        self.is_transfer = Signal()

        def is_op(*opcodes: Opcode) -> Value:
            return Cat(d.opcode == opcode for opcode in opcodes).any()

        m.d.comb += [
            self.compresses.eq(is_op(Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN)),
            self.outward.eq(is_op(Opcode.COMPRESS_OUT, Opcode.COPY_OUT)),
            self.inward.eq(is_op(Opcode.DECOMPRESS_IN, Opcode.COPY_IN)),
            self.from_stream.eq(is_op(Opcode.DECOMPRESS_IN)),
            self.is_transfer.eq(self.outward | self.inward),
        ]


class _RangeEnds:
    """The first addresses behind the ranges that a descriptor names, one bit wider than these.

    The range in host memory has its start, too.
    """

    def __init__(self) -> None:
        self.data_end = Signal(65, reset_less=True)
        self.stream_end = Signal(65, reset_less=True)
        self.dst_end = Signal(65, reset_less=True)
        self.src_end = Signal(65)
        self.host_start = Signal(64)
        self.host_end = Signal(65)
