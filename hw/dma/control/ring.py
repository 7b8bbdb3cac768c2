"""The descriptor ring: fetches descriptors from host memory before they are needed."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS, FetchedDescriptor
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister

INDEX_BITS = 16
ENTRY_BITS = (ENTRY_BYTES - 1).bit_length()
BASE_BITS = HOST_ADDRESS_BITS - ENTRY_BITS


class RingFault(data.StructLayout):
    """The reason why no more descriptors are fetched.

    Members
    -------
    error
        The bus's answer; NONE: the ring's registers have impossible values, or `outside`.
    outside
        The ring leaves its window.
    address
        The address of the beat at fault, or of the ring.
    """

    def __init__(self) -> None:
        super().__init__({"error": BusError, "outside": 1, "address": HOST_ADDRESS_BITS})


class DescriptorFetcher(wiring.Component):
    """Fetches descriptors in their order, up to `config.transfers` ahead.

    A descriptor is requested only when the queue has space for it. After a fault nothing is fetched
    until `clear`; descriptors that were requested after the one at fault are dropped.

    Latency: 1 cycle from `tail` to the request, 3 from a descriptor's last beat to the descriptor.
    Throughput: a descriptor in as many cycles as it has beats.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    enable : `In(1)`
        Descriptors may be requested.
    base : `In(58)`
        The ring's address, in descriptors.
    log2_entries : `In(4)`
        Logarithm of the ring's size; 0 is a fault.
    outside : `In(1)`
        The ring leaves its window: a fault.
    tail : `In(16)`
        One past the last descriptor that may be fetched, modulo 65536.
    done : `In(16)`
        Descriptors that have their record. It is a fault if `tail` is further ahead than the
        ring's size.
    clear : `In(1)`
        The ring begins again at index 0. High only while `idle`.
    request : `Out(stream.Signature(ReadRequest(64)))`
    beats : `In(stream.Signature(ReadBeat(config.host_bytes)))`
        Always ready.
    o : `Out(stream.Signature(FetchedDescriptor()))`
    head : `Out(16)`
        Descriptors fetched, modulo 65536.
    faulty : `Out(1)`
        There has been a fault, which `fault` describes.
    fault : `Out(RingFault())`
    idle : `Out(1)`
        No descriptor is requested or queued.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "enable": In(1),
                "base": In(BASE_BITS),
                "log2_entries": In(4),
                "outside": In(1),
                "tail": In(INDEX_BITS),
                "done": In(INDEX_BITS),
                "clear": In(1),
                "request": Out(stream.Signature(ReadRequest(HOST_ADDRESS_BITS))),
                "beats": In(stream.Signature(ReadBeat(config.host_bytes))),
                "o": Out(stream.Signature(FetchedDescriptor())),
                "head": Out(INDEX_BITS),
                "faulty": Out(1),
                "fault": Out(RingFault()),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # A place is reserved in both, so neither is asked whether it is ready. A queue of one would
        # not be while what it holds moves on to the output.
        depth = max(2, self.config.transfers - 1)
        m.submodules.queue = queue = Fifo(FetchedDescriptor(), depth)
        # The addresses of descriptors that are requested: they lie anywhere in their beats.
        m.submodules.expected = expected = Fifo(unsigned(HOST_ADDRESS_BITS), depth)
        m.submodules.requests = requests = PipelineRegister(unsigned(HOST_ADDRESS_BITS))
        wiring.connect(m, queue.o, wiring.flipped(self.o))

        # Descriptors that are requested or queued; each has its place in the queue.
        reserved = Signal(range(self.config.transfers + 1))
        request_fire = Signal()
        registers_bad = Signal()
        dropped = Signal()
        self._request(m, requests, expected, reserved, request_fire, registers_bad)
        self._receive(m, expected, queue, registers_bad, dropped)
        m.d.sync += reserved.eq(reserved + request_fire - (self.o.valid & self.o.ready) - dropped)
        m.d.comb += self.idle.eq((reserved == 0) & ~requests.o.valid)
        return m

    def _request(
        self,
        m: Module,
        requests: PipelineRegister,
        expected: Fifo,
        reserved: Signal,
        request_fire: Signal,
        registers_bad: Signal,
    ) -> None:
        """Request the next descriptor while the registers allow it and there is space for it.

        A request stays as it is until it is accepted, whatever the registers say then.
        """
        width = self.config.host_bytes
        width_bits = (width - 1).bit_length()
        requested = Signal(INDEX_BITS)
        entries = Signal(INDEX_BITS)
        index = Signal(INDEX_BITS)
        address = Signal(HOST_ADDRESS_BITS)
        ahead = Signal(INDEX_BITS)
        invalid = Signal()
        request_pending = Signal()
        has_room = Signal()
        m.d.comb += [
            entries.eq(1 << self.log2_entries),
            index.eq(requested & (entries - 1)),
            address.eq(Cat(C(0, ENTRY_BITS), self.base + index)),
            ahead.eq(self.tail - self.done),
            invalid.eq((self.log2_entries == 0) | (ahead > entries) | self.outside),
            request_pending.eq(self.enable & ~self.faulty & (requested != self.tail)),
            registers_bad.eq(request_pending & invalid),
            has_room.eq(reserved != self.config.transfers),
            request_fire.eq(request_pending & ~invalid & has_room & requests.i.ready),
            requests.i.valid.eq(request_fire),
            requests.i.payload.eq(address),
            expected.i.valid.eq(request_fire),
            expected.i.payload.eq(address),
            self.request.valid.eq(requests.o.valid),
            requests.o.ready.eq(self.request.ready),
            self.request.payload.address.eq(Cat(C(0, width_bits), requests.o.payload[width_bits:])),
            self.request.payload.beats.eq(max(1, ENTRY_BYTES // width) - 1),
        ]
        with m.If(request_fire):
            m.d.sync += requested.eq(requested + 1)
        with m.If(self.clear):
            m.d.sync += requested.eq(0)

    def _receive(
        self, m: Module, expected: Fifo, queue: Fifo, registers_bad: Signal, dropped: Signal
    ) -> None:
        """Collect the beats of each descriptor, and stop at the first fault."""
        width = self.config.host_bytes
        width_bits = (width - 1).bit_length()
        beats = max(1, ENTRY_BYTES // width)
        beat_fire = Signal()
        beat = Signal(range(beats))
        last = Signal()
        collected = Signal(8 * ENTRY_BYTES, reset_less=True)
        descriptor = Signal(8 * ENTRY_BYTES)
        received = self.beats.payload
        m.d.comb += [
            self.beats.ready.eq(expected.o.valid),
            beat_fire.eq(self.beats.valid & self.beats.ready),
            last.eq(beat == beats - 1),
            expected.o.ready.eq(beat_fire & last),
        ]
        if width >= ENTRY_BYTES:
            choice = expected.o.payload[ENTRY_BITS:width_bits] if width > ENTRY_BYTES else 0
            m.d.comb += descriptor.eq(received.data.word_select(choice, 8 * ENTRY_BYTES))
        else:
            m.d.comb += descriptor.eq(Cat(collected[8 * width :], received.data))
        with m.If(beat_fire):
            m.d.sync += [
                beat.eq(Mux(last, 0, beat + 1)),
                collected.eq(Cat(collected[8 * width :], received.data)),
            ]

        read_failed = Signal()
        m.d.comb += [
            read_failed.eq(beat_fire & (received.error != BusError.NONE) & ~self.faulty),
            dropped.eq(beat_fire & last & (self.faulty | read_failed)),
            queue.i.valid.eq(beat_fire & last & ~dropped),
            queue.i.payload.descriptor.eq(descriptor),
            queue.i.payload.index.eq(self.head),
        ]
        with m.If(queue.i.valid):
            m.d.sync += self.head.eq(self.head + 1)
        with m.If(read_failed):
            m.d.sync += [
                self.faulty.eq(1),
                self.fault.error.eq(received.error),
                self.fault.outside.eq(0),
                self.fault.address.eq(
                    Cat(C(0, width_bits), expected.o.payload[width_bits:] + beat)
                ),
            ]
        with m.Elif(registers_bad):
            m.d.sync += [
                self.faulty.eq(1),
                self.fault.error.eq(BusError.NONE),
                self.fault.outside.eq(self.outside),
                self.fault.address.eq(Cat(C(0, ENTRY_BITS), self.base)),
            ]
        with m.If(self.clear):
            m.d.sync += [self.head.eq(0), self.faulty.eq(0)]
