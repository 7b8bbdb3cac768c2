"""The descriptor ring: fetches descriptors from host memory before they are needed."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS, FetchedDescriptor
from cdma.hw.dma.limits import ENTRY_BYTES, PREFETCH
from cdma.hw.lib.fifo import Fifo

INDEX_BITS = 16
BASE_BITS = HOST_ADDRESS_BITS - (ENTRY_BYTES - 1).bit_length()


class RingFault(data.StructLayout):
    """Why no more descriptors are fetched.

    Members
    -------
    error
        What the bus answered; NONE: the ring's registers make no sense.
    address
        Of the beat at fault.
    """

    def __init__(self) -> None:
        super().__init__({"error": BusError, "address": HOST_ADDRESS_BITS})


class DescriptorFetcher(wiring.Component):
    """Fetches descriptors in their order, up to `PREFETCH` ahead.

    A descriptor is asked for only when there is room for it. After a fault nothing is fetched until
    `clear`; descriptors that were asked for after the one at fault are dropped.

    Latency: 1 cycle from `tail` to the request, 3 from a descriptor's last beat to the descriptor.
    Throughput: a descriptor in as many cycles as it has beats.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    enable : `In(1)`
        Ask for more.
    base : `In(58)`
        The ring's address, in descriptors.
    log2_entries : `In(4)`
        Logarithm of the ring's size; 0 is a fault.
    tail : `In(16)`
        One past the last descriptor that may be fetched, modulo 65536.
    done : `In(16)`
        Descriptors that have ended. `tail` being further ahead of it than the ring's size is a
        fault.
    clear : `In(1)`
        Begin again at index 0. Only while `idle`.
    request : `Out(stream.Signature(ReadRequest(64)))`
    beats : `In(stream.Signature(ReadBeat(config.host_bytes)))`
        Always taken.
    o : `Out(stream.Signature(FetchedDescriptor()))`
    head : `Out(16)`
        Descriptors fetched, modulo 65536.
    faulty : `Out(1)`
        There has been a fault; `fault` tells which.
    fault : `Out(RingFault())`
    idle : `Out(1)`
        Nothing is on its way or waits.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "enable": In(1),
                "base": In(BASE_BITS),
                "log2_entries": In(4),
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
        width = self.config.host_bytes
        beats = max(1, ENTRY_BYTES // width)
        entry_bits = (ENTRY_BYTES - 1).bit_length()
        width_bits = (width - 1).bit_length()
        m.submodules.queue = queue = Fifo(FetchedDescriptor(), PREFETCH)
        # Where in a beat each descriptor is that is on its way.
        m.submodules.expected = expected = Fifo(unsigned(HOST_ADDRESS_BITS), PREFETCH)
        wiring.connect(m, queue.o, wiring.flipped(self.o))

        # Ask.
        asked = Signal(INDEX_BITS)
        entries = Signal(INDEX_BITS)
        place = Signal(INDEX_BITS)
        address = Signal(HOST_ADDRESS_BITS)
        ahead = Signal(INDEX_BITS)
        senseless = Signal()
        held = Signal(range(PREFETCH + 1))
        wants = Signal()
        m.d.comb += [
            entries.eq(1 << self.log2_entries),
            place.eq(asked & (entries - 1)),
            address.eq(Cat(C(0, entry_bits), self.base + place)),
            ahead.eq(self.tail - self.done),
            senseless.eq((self.log2_entries == 0) | (ahead > entries)),
            wants.eq(self.enable & ~self.faulty & (asked != self.tail)),
        ]
        # A request stands until it is taken, whatever the registers say then.
        asking = Signal()
        request = Signal(HOST_ADDRESS_BITS, reset_less=True)
        asks = Signal()
        taken = Signal()
        m.d.comb += [
            asks.eq(wants & ~senseless & (held != PREFETCH) & (~asking | self.request.ready)),
            self.request.valid.eq(asking),
            self.request.payload.address.eq(Cat(C(0, width_bits), request[width_bits:])),
            self.request.payload.beats.eq(beats - 1),
            expected.i.valid.eq(asks),
            expected.i.payload.eq(address),
            taken.eq(self.o.valid & self.o.ready),
        ]
        with m.If(self.request.ready):
            m.d.sync += asking.eq(0)
        with m.If(asks):
            m.d.sync += [asking.eq(1), request.eq(address), asked.eq(asked + 1)]

        # Gather a descriptor's beats.
        arrived = Signal()
        beat = Signal(range(beats))
        last = Signal()
        gathered = Signal(8 * ENTRY_BYTES, reset_less=True)
        whole = Signal(8 * ENTRY_BYTES)
        received = self.beats.payload
        m.d.comb += [
            self.beats.ready.eq(expected.o.valid),
            arrived.eq(self.beats.valid & self.beats.ready),
            last.eq(beat == beats - 1),
            expected.o.ready.eq(arrived & last),
        ]
        if width >= ENTRY_BYTES:
            choice = expected.o.payload[entry_bits:width_bits] if width > ENTRY_BYTES else 0
            m.d.comb += whole.eq(received.data.word_select(choice, 8 * ENTRY_BYTES))
        else:
            m.d.comb += whole.eq(Cat(gathered[8 * width :], received.data))
        with m.If(arrived):
            m.d.sync += [
                beat.eq(Mux(last, 0, beat + 1)),
                gathered.eq(Cat(gathered[8 * width :], received.data)),
            ]
        bad = Signal()
        lost = Signal()
        m.d.comb += [
            bad.eq(arrived & (received.error != BusError.NONE) & ~self.faulty),
            lost.eq(arrived & last & (self.faulty | bad)),
            queue.i.valid.eq(arrived & last & ~lost),
            queue.i.payload.descriptor.eq(whole),
            queue.i.payload.index.eq(self.head),
        ]
        with m.If(queue.i.valid):
            m.d.sync += self.head.eq(self.head + 1)

        with m.If(bad):
            m.d.sync += [
                self.faulty.eq(1),
                self.fault.error.eq(received.error),
                self.fault.address.eq(
                    Cat(C(0, width_bits), expected.o.payload[width_bits:] + beat)
                ),
            ]
        with m.Elif(wants & senseless):
            m.d.sync += [
                self.faulty.eq(1),
                self.fault.error.eq(BusError.NONE),
                self.fault.address.eq(Cat(C(0, entry_bits), self.base)),
            ]
        m.d.sync += held.eq(held + asks - taken - lost)
        m.d.comb += self.idle.eq((held == 0) & ~asking)
        with m.If(self.clear):
            m.d.sync += [asked.eq(0), self.head.eq(0), self.faulty.eq(0)]
        return m
