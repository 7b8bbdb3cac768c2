"""Completion records to host memory, and their interrupts."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, WriteBeat, WriteRequest
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.completion import Completion
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS, Status
from cdma.hw.dma.control.each_ring import each_ring, fires_for, of_ring
from cdma.hw.dma.control.ring import INDEX_BITS
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.hw.lib.fifo import Fifo


class RecordInfo(data.StructLayout):
    """The fields of a record that are needed when it has been written.

    Parameters
    ----------
    rings
        The number of rings that descriptors come from.

    Members
    -------
    address
        The record's address.
    interrupt
        The descriptor requests an interrupt.
    failed
        The descriptor ended with an error, which the other fields describe.
    status, detail, tag, fault_address
        The record's.
    ring
        The number of the descriptor's ring; no bits if there is one.
    """

    def __init__(self, rings: int = 1) -> None:
        super().__init__(
            {
                "address": HOST_ADDRESS_BITS,
                "interrupt": 1,
                "failed": 1,
                "status": 8,
                "detail": 16,
                "tag": 32,
                "fault_address": HOST_ADDRESS_BITS,
                "ring": range(rings),
            }
        )


class RecordWriter(wiring.Component):
    """Writes records, whole and in order, each by a burst of its own.

    The lower 6 bits of a record's address are ignored. After a record that could not be written
    its ring's `done` stays where it is.

    Latency: 2 cycles from a completion to its request. Throughput: a record in as many cycles as it
    has beats.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    i : `In(stream.Signature(Completion(config.rings)))`
    request : `Out(stream.Signature(WriteRequest(64, config.rings)))`
    beats : `Out(stream.Signature(WriteBeat(config.host_bytes)))`
    response : `In(stream.Signature(BusError))`
        Always ready.
    record_done : `Out(1)`
        A record's response is accepted in this cycle; `record_info` describes the record.
    record_info : `Out(RecordInfo(config.rings))`
    done : `Out(each_ring(16, config.rings))`
        Records in host memory, modulo 65536.
    error : `Out(each_ring(BusError, config.rings))`
        The first error response; it stays until `clear`.
    clear : `In(each_ring(1, config.rings))`
        The ring begins again at index 0. High only while no record of it is outstanding.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        rings = config.rings
        super().__init__(
            {
                "i": In(stream.Signature(Completion(rings))),
                "request": Out(stream.Signature(WriteRequest(HOST_ADDRESS_BITS, rings))),
                "beats": Out(stream.Signature(WriteBeat(config.host_bytes))),
                "response": In(stream.Signature(BusError)),
                "record_done": Out(1),
                "record_info": Out(RecordInfo(rings)),
                "done": Out(each_ring(INDEX_BITS, rings)),
                "error": Out(each_ring(BusError, rings)),
                "clear": In(each_ring(1, rings)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.config.host_bytes
        width_bits = (width - 1).bit_length()
        entry_bits = (ENTRY_BYTES - 1).bit_length()
        beats = max(1, ENTRY_BYTES // width)
        m.submodules.pending = pending = Fifo(
            RecordInfo(self.config.rings), self.config.transfers - 1
        )

        # The record that is sent: its request, then its beats.
        held = Signal(Completion(self.config.rings), reset_less=True)
        sending = Signal()
        announced = Signal()
        beat = Signal(range(beats))
        last = Signal()
        address = Signal(HOST_ADDRESS_BITS)
        record_sent = Signal()
        m.d.comb += [
            address.eq(Cat(C(0, entry_bits), held.address[entry_bits:])),
            self.request.valid.eq(sending & ~announced),
            self.request.payload.address.eq(Cat(C(0, width_bits), address[width_bits:])),
            self.request.payload.beats.eq(beats - 1),
            self.request.payload.owner.eq(held.ring),
            last.eq(beat == beats - 1),
            self.beats.valid.eq(sending & announced),
            self.beats.payload.last.eq(last),
            record_sent.eq(self.beats.valid & self.beats.ready & last),
            self.i.ready.eq((~sending | record_sent) & pending.i.ready),
        ]
        content = held.record.as_value()
        if width > ENTRY_BYTES:
            place = address[entry_bits:width_bits]
            for k in range(width // ENTRY_BYTES):
                m.d.comb += [
                    self.beats.payload.data.word_select(k, 8 * ENTRY_BYTES).eq(content),
                    self.beats.payload.strobe.word_select(k, ENTRY_BYTES).eq(
                        Mux(place == k, (1 << ENTRY_BYTES) - 1, 0)
                    ),
                ]
        else:
            m.d.comb += [
                self.beats.payload.data.eq(content.word_select(beat, 8 * width)),
                self.beats.payload.strobe.eq((1 << width) - 1),
            ]
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += announced.eq(1)
        with m.If(self.beats.valid & self.beats.ready):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
        with m.If(~sending | record_sent):
            m.d.sync += sending.eq(self.i.valid & pending.i.ready)
        i_fire = Signal()
        m.d.comb += i_fire.eq(self.i.valid & self.i.ready)
        record = self.i.payload.record
        with m.If(i_fire):
            m.d.sync += [held.eq(self.i.payload), announced.eq(0)]
        m.d.comb += [
            pending.i.valid.eq(i_fire),
            pending.i.payload.address.eq(
                Cat(C(0, entry_bits), self.i.payload.address[entry_bits:])
            ),
            pending.i.payload.interrupt.eq(self.i.payload.interrupt),
            pending.i.payload.failed.eq(
                (record.status != Status.OK) & (record.status != Status.OK_EXPANDED)
            ),
            pending.i.payload.status.eq(record.status),
            pending.i.payload.detail.eq(record.detail),
            pending.i.payload.tag.eq(record.tag),
            pending.i.payload.fault_address.eq(record.fault_address),
            pending.i.payload.ring.eq(self.i.payload.ring),
        ]

        # Its response.
        m.d.comb += [
            self.response.ready.eq(pending.o.valid),
            self.record_done.eq(pending.o.valid & self.response.valid),
            pending.o.ready.eq(self.record_done),
            self.record_info.eq(pending.o.payload),
        ]
        for ring in range(self.config.rings):
            self._count(m, ring)
        return m

    def _count(self, m: Module, ring: int) -> None:
        """Count a ring's records, until one of them could not be written."""
        done, error = of_ring(self.done, ring), of_ring(self.error, ring)
        with m.If(fires_for(self.record_done, self.record_info.ring, ring)):
            with m.If(self.response.payload != BusError.NONE):
                with m.If(error == BusError.NONE):
                    m.d.sync += error.eq(self.response.payload)
            with m.Elif(error == BusError.NONE):
                m.d.sync += done.eq(done + 1)
        with m.If(of_ring(self.clear, ring)):
            m.d.sync += [done.eq(0), error.eq(BusError.NONE)]


class InterruptCoalescer(wiring.Component):
    """Lets several records share an interrupt.

    Latency: 1 cycle.

    Members
    -------
    request : `In(1)`
        A record whose descriptor requests an interrupt has been written.
    count : `In(16)`
        The number of records that share an interrupt; 0 counts as 1.
    cycles : `In(32)`
        Cycles that the first of them waits at most; 0: without limit.
    interrupt : `Out(1)`
    clear : `In(1)`
        Drop the requests that wait.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "request": In(1),
                "count": In(16),
                "cycles": In(32),
                "interrupt": Out(1),
                "clear": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        waiting = Signal(17)
        waited_cycles = Signal(32)
        many = Signal()
        late = Signal()
        m.d.comb += [
            many.eq((waiting != 0) & (waiting >= self.count)),
            late.eq((waiting != 0) & (self.cycles != 0) & (waited_cycles >= self.cycles - 1)),
            self.interrupt.eq(many | late),
        ]
        with m.If(self.interrupt):
            m.d.sync += [waiting.eq(self.request), waited_cycles.eq(0)]
        with m.Else():
            m.d.sync += [
                waiting.eq(waiting + self.request),
                waited_cycles.eq(Mux(waiting == 0, 0, waited_cycles + 1)),
            ]
        with m.If(self.clear):
            m.d.sync += waiting.eq(0)
        return m
