"""Retirement of descriptors: their outcomes, in the ring's order, become completion records."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.bus.burst import BusError
from cdma.hw.codec.selection import is_copy
from cdma.hw.codec.stream.checker import LineError
from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import (
    DEVICE_ADDRESS_BITS,
    HOST_ADDRESS_BITS,
    Flag,
    Record,
    Status,
    TimeoutDetail,
)
from cdma.hw.dma.control.dispatch import CYCLE_BITS, StartedDescriptor, Way
from cdma.hw.dma.control.each_ring import each_ring, of_ring
from cdma.hw.dma.payloads import InJob, InOutcome, OutOutcome
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister


class Completion(data.StructLayout):
    """A record, and its address.

    Parameters
    ----------
    rings
        The number of rings that descriptors come from.

    Members
    -------
    record
    address
    interrupt
        The descriptor requests an interrupt.
    ring
        The number of the descriptor's ring; no bits if there is one.
    """

    def __init__(self, rings: int = 1) -> None:
        super().__init__(
            {
                "record": Record(),
                "address": HOST_ADDRESS_BITS,
                "interrupt": 1,
                "ring": range(rings),
            }
        )


class End(data.StructLayout):
    """The fields of a record that depend on the outcome of its descriptor.

    Parameters
    ----------
    result_bits
        Width of a codec's result (`CodecConfig.result_bits`).
    """

    def __init__(self, result_bits: int = 0) -> None:
        super().__init__(
            {
                "status": 8,
                "detail": 16,
                "src_done": OFFSET_BITS,
                "out_size": OFFSET_BITS,
                "fault_address": HOST_ADDRESS_BITS,
                "crc32": 32,
                "result": result_bits,
            }
        )


class RetireUnit(wiring.Component):
    """Retires descriptors in the order in which they started: makes records of their outcomes.

    A descriptor with VERIFY is read back and decompressed once it has been written.

    Of several errors that were seen the status names one: the engine's own memories first, then the
    answers to reads; on the way out the answers to writes, the capacity, an abort; on the way in an
    abort, the stream, the answers to writes, the checksum, the capacity.

    Latency: 2 cycles from the last outcome to the completion. Throughput: a descriptor per 2
    cycles.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    started : `In(stream.Signature(StartedDescriptor(config)))`
    outcome_out : `In(stream.Signature(OutOutcome(config.codec)))`
    outcome_in : `In(stream.Signature(InOutcome(config.codec)))`
    verify : `Out(stream.Signature(InJob(config)))`
    verified : `Out(1)`
        A descriptor that was to be verified has ended.
    o : `Out(stream.Signature(Completion(config.rings)))`
    log2_entries : `In(each_ring(4, config.rings))`
        The size of the ring; the record's phase is 1 in the ring's first lap.
    now : `In(48)`
        The engine's clock.
    memory_failed : `In(1)`
        Only with ECC: what ends from now on may have lost bits in the engine's memories.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "started": In(stream.Signature(StartedDescriptor(config))),
                "outcome_out": In(stream.Signature(OutOutcome(config.codec))),
                "outcome_in": In(stream.Signature(InOutcome(config.codec))),
                "verify": Out(stream.Signature(InJob(config))),
                "verified": Out(1),
                "o": Out(stream.Signature(Completion(config.rings))),
                "log2_entries": In(each_ring(4, config.rings)),
                "now": In(CYCLE_BITS),
                **({"memory_failed": In(1)} if config.ecc else {}),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.waiting = waiting = Fifo(
            StartedDescriptor(self.config), 2 * self.config.transfers
        )
        m.submodules.completions = completions = PipelineRegister(Completion(self.config.rings))
        wiring.connect(m, wiring.flipped(self.started), waiting.i)
        wiring.connect(m, completions.o, wiring.flipped(self.o))
        d = waiting.o.payload

        end_shape = End(self.config.codec.result_bits)
        ended_out = Signal(end_shape)
        ended_in = Signal(end_shape)
        self._end_out(m, d, ended_out)
        self._end_in(m, d, ended_in)
        if self.config.ecc:
            for ended in (ended_out, ended_in):
                with m.If(self.memory_failed):
                    m.d.comb += [ended.eq(0), ended.status.eq(Status.MEMORY_ERROR)]

        end = Signal(end_shape, reset_less=True)
        written = Signal(OFFSET_BITS, reset_less=True)
        verify_next = Signal()
        m.d.comb += [
            verify_next.eq(
                (d.flags & Flag.VERIFY).any()
                & ((ended_out.status == Status.OK) | (ended_out.status == Status.OK_EXPANDED))
            ),
            self.verify.payload.src.eq(d.dst),
            self.verify.payload.codec.eq(Mux(is_copy(d.codec, self.config.codec), 0, d.codec)),
            self.verify.payload.parameters.eq(d.parameters),
            self.verify.payload.src_length.eq(written),
            self.verify.payload.length.eq(d.length),
            self.verify.payload.ring.eq(d.ring),
        ]
        with m.FSM():
            with m.State("WAIT"):
                with m.If(waiting.o.valid):
                    with m.If(d.way == Way.OUT):
                        m.d.comb += self.outcome_out.ready.eq(1)
                        with m.If(self.outcome_out.valid):
                            m.d.sync += [
                                end.eq(ended_out),
                                written.eq(self.outcome_out.payload.write.size),
                            ]
                            with m.If(verify_next):
                                m.next = "VERIFY"
                            with m.Else():
                                m.next = "END"
                    with m.Elif(d.way == Way.IN):
                        m.d.comb += self.outcome_in.ready.eq(1)
                        with m.If(self.outcome_in.valid):
                            m.d.sync += end.eq(ended_in)
                            m.next = "END"
                    with m.Else():
                        m.d.sync += [
                            end.eq(0),
                            end.status.eq(d.status),
                            end.detail.eq(d.detail),
                        ]
                        m.next = "END"
            with m.State("VERIFY"):
                m.d.comb += self.verify.valid.eq(1)
                with m.If(self.verify.ready):
                    m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.comb += self.outcome_in.ready.eq(1)
                with m.If(self.outcome_in.valid):
                    self._compare(m, ended_in, self.outcome_in.payload.lines.crc32, end)
                    m.next = "END"
            with m.State("END"):
                m.d.comb += completions.i.valid.eq(1)
                with m.If(completions.i.ready):
                    m.d.comb += [
                        waiting.o.ready.eq(1),
                        self.verified.eq((d.way == Way.OUT) & (d.flags & Flag.VERIFY).any()),
                    ]
                    m.next = "WAIT"

        record = completions.i.payload.record
        lap = Signal(16)
        m.d.comb += [
            lap.eq(d.index >> of_ring(self.log2_entries, d.ring)),
            record.status.eq(end.status),
            record.phase.eq(~lap[0]),
            record.detail.eq(end.detail),
            record.tag.eq(d.tag),
            record.src_done.eq(end.src_done),
            record.out_size.eq(end.out_size),
            record.fault_address.eq(end.fault_address),
            record.crc32.eq(end.crc32),
            record.result.eq(end.result),
            record.index.eq(d.index),
            record.cycles.eq((self.now - d.started)[:CYCLE_BITS]),
            completions.i.payload.address.eq(d.record),
            completions.i.payload.interrupt.eq((d.flags & Flag.INTERRUPT).any()),
            completions.i.payload.ring.eq(d.ring),
        ]
        return m

    def _end_out(self, m: Module, d: data.View, end: data.View) -> None:
        read = self.outcome_out.payload.read
        write = self.outcome_out.payload.write
        line_bits = (self.config.codec.line_bytes - 1).bit_length()
        width_bits = (self.config.codec.sector_bytes - 1).bit_length()
        beat = Signal(DEVICE_ADDRESS_BITS - width_bits, name="beat_at_fault")
        whole_bytes = Signal(OFFSET_BITS, name="whole_bytes")
        reached_bytes = Signal(OFFSET_BITS, name="reached_bytes")
        valid_bytes = Signal(OFFSET_BITS, name="right_bytes")
        m.d.comb += [
            whole_bytes.eq(read.whole_lines << line_bits),
            # Bytes before the burst at fault; the first burst begins before `dst`, or there.
            reached_bytes.eq(Mux(write.address > d.dst, write.address - d.dst, 0)),
            valid_bytes.eq(Mux(write.error == BusError.NONE, write.size, reached_bytes)),
            end.out_size.eq(valid_bytes),
            beat.eq(d.src[width_bits:] + read.faulty_beat),
        ]
        copied = is_copy(d.codec, self.config.codec)
        with m.If(copied):
            m.d.comb += end.src_done.eq(valid_bytes)
        with m.Elif(write.error == BusError.NONE):
            m.d.comb += end.src_done.eq(Mux(whole_bytes > d.length, d.length, whole_bytes))
        # Otherwise the lines that end before the burst at fault are unknown.
        with m.If(read.error != BusError.NONE):
            m.d.comb += [
                end.status.eq(_bus_status(read.error, Status.READ_ERROR)),
                end.detail.eq(_bus_detail(read.error, Status.READ_ERROR)),
                end.fault_address.eq(Cat(C(0, width_bits), beat)),
            ]
        with m.Elif(write.error != BusError.NONE):
            m.d.comb += [
                end.status.eq(_bus_status(write.error, Status.WRITE_ERROR)),
                end.detail.eq(_bus_detail(write.error, Status.WRITE_ERROR)),
                end.fault_address.eq(write.address),
            ]
        with m.Elif(write.overflow):
            m.d.comb += [
                end.status.eq(Status.DESTINATION_OVERFLOW),
                end.fault_address.eq(Mux(copied, write.size, read.whole_size)),
            ]
        # Lines are issued to the last one but for an error, which has been looked for, or this.
        with m.Elif(read.cut):
            m.d.comb += end.status.eq(Status.ABORTED)
        # How much is seen of a transfer that fails depends on when; so its CRC is told in no case.
        with m.Else():
            m.d.comb += [
                end.status.eq(Mux(write.size > d.length, Status.OK_EXPANDED, Status.OK)),
                end.crc32.eq(read.crc32),
                end.result.eq(read.result),
            ]

    def _end_in(self, m: Module, d: data.View, end: data.View) -> None:
        receive = self.outcome_in.payload.receive
        tail = self.outcome_in.payload.tail
        lines = self.outcome_in.payload.lines
        truncated = (lines.line_error == LineError.MASK_MISSING) | (
            lines.line_error == LineError.ELEMENT_MISSING
        )
        if self.config.codec.locates_errors:
            truncated |= (lines.line_error == LineError.CODEC) & (
                (lines.status == StreamStatus.MASK_TRUNCATED)
                | (lines.status == StreamStatus.PAYLOAD_TRUNCATED)
            )
        stream_status = Signal(StreamStatus, name="stream_status")
        with m.Switch(lines.line_error):
            for line_error, status in (
                (LineError.MASK_MISSING, StreamStatus.MASK_TRUNCATED),
                (LineError.ELEMENT_MISSING, StreamStatus.PAYLOAD_TRUNCATED),
                (LineError.ELEMENT_ZERO, StreamStatus.ZERO_ELEMENT),
                (LineError.FILL_NONZERO, StreamStatus.NONZERO_FILL),
            ):
                with m.Case(line_error):
                    m.d.comb += stream_status.eq(status)
            if self.config.codec.locates_errors:
                with m.Case(LineError.CODEC):
                    m.d.comb += stream_status.eq(lines.status)
            with m.Default():
                # What is behind a line that was left out does not count.
                m.d.comb += stream_status.eq(
                    Mux(tail.trailing & ~lines.cut, StreamStatus.TRAILING_BYTES, 0)
                )
        m.d.comb += [
            end.src_done.eq(receive.size),
            end.out_size.eq(Mux(lines.size > d.capacity, d.capacity, lines.size)),
        ]
        with m.If(receive.error != BusError.NONE):
            m.d.comb += [
                end.status.eq(_bus_status(receive.error, Status.READ_ERROR)),
                end.detail.eq(_bus_detail(receive.error, Status.READ_ERROR)),
                end.fault_address.eq(receive.address),
            ]
        with m.Elif(receive.aborted):
            m.d.comb += end.status.eq(Status.ABORTED)
        with m.Elif(stream_status != StreamStatus.OK):
            m.d.comb += [
                end.status.eq(Mux(truncated, Status.STREAM_TRUNCATED, Status.STREAM_CORRUPT)),
                end.detail.eq(stream_status),
                end.fault_address.eq(lines.offset),
            ]
        with m.Elif(lines.error != BusError.NONE):
            m.d.comb += [
                end.status.eq(_bus_status(lines.error, Status.WRITE_ERROR)),
                end.detail.eq(_bus_detail(lines.error, Status.WRITE_ERROR)),
                end.fault_address.eq(lines.address),
            ]
        # Without another error, lines are left out behind the capacity only.
        with m.Else():
            m.d.comb += end.crc32.eq(Mux(lines.cut, 0, lines.crc32))
            with m.If((d.flags & Flag.CHECK_CRC).any() & (d.crc32 != lines.crc32) & ~lines.cut):
                m.d.comb += end.status.eq(Status.CRC_MISMATCH)
            with m.Elif(d.length > d.capacity):
                m.d.comb += [
                    end.status.eq(Status.DESTINATION_OVERFLOW),
                    end.fault_address.eq(d.capacity),
                ]
            with m.Else():
                m.d.comb += end.status.eq(Status.OK)

    def _compare(self, m: Module, back: data.View, crc32: Value, end: data.View) -> None:
        """Put the result of verification into the record; without an error the former end stays."""
        with m.Switch(back.status):
            with m.Case(Status.READ_ERROR, Status.TIMEOUT, Status.ABORTED, Status.MEMORY_ERROR):
                m.d.sync += [
                    end.status.eq(back.status),
                    end.detail.eq(back.detail),
                    end.fault_address.eq(back.fault_address),
                ]
            with m.Case(Status.STREAM_TRUNCATED, Status.STREAM_CORRUPT):
                m.d.sync += [
                    end.status.eq(Status.VERIFY_MISMATCH),
                    end.detail.eq(back.detail),
                    end.fault_address.eq(back.fault_address),
                ]
            with m.Default():
                with m.If(crc32 != end.crc32):
                    m.d.sync += end.status.eq(Status.VERIFY_MISMATCH)


def _bus_status(error: Value, refused: Status) -> Value:
    return Mux(error == BusError.TIMEOUT, Status.TIMEOUT, refused)


def _bus_detail(error: Value, refused: Status) -> Value:
    """Return the response; of a time-out, the kind of access that had none."""
    kind = TimeoutDetail.READ if refused is Status.READ_ERROR else TimeoutDetail.WRITE
    return Mux(error == BusError.TIMEOUT, kind, error)
