"""Whole bursts to a port: the address first, then the data."""

from amaranth.hdl import Assert, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import WriteBeat, WriteRequest
from cdma.hw.lib.fifo import Fifo

SHORT_BURSTS = 4
"""Bursts whose data may wait here: two long ones fill the data's queue, short ones, such as those
of single lines, are more."""


class MaskedBeat(data.StructLayout):
    """A beat's bytes, and a strobe for each of them."""

    def __init__(self, data_bytes: int) -> None:
        super().__init__({"data": 8 * data_bytes, "strobe": data_bytes})


class BurstSender(wiring.Component):
    """Queues the data of bursts, and sends each burst once it is complete.

    Latency: 2 cycles from a burst to its request. Throughput: a beat per cycle.

    Resources: memory for two of the longest bursts, so that one can be filled while the other is
    sent.

    Parameters
    ----------
    data_bytes
        Width of the bus.
    address_bits
        Width of an address.
    bursts
        The largest number of bursts whose response may be outstanding.
    burst_beats
        The longest burst.
    rings
        The number of rings that bursts come from.

    Members
    -------
    data : `In(stream.Signature(MaskedBeat(data_bytes)))`
        The data of bursts, in their order.
    burst : `In(stream.Signature(WriteRequest(address_bits, rings)))`
        A burst, in the cycle of its last beat or later. Must be valid only while it is ready.
    request : `Out(stream.Signature(WriteRequest(address_bits, rings)))`
    beats : `Out(stream.Signature(WriteBeat(data_bytes)))`
        In the order of the requests, and not before them.
    """

    def __init__(
        self,
        data_bytes: int,
        address_bits: int,
        bursts: int,
        burst_beats: int,
        rings: int = 1,
    ) -> None:
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.bursts = bursts
        self.burst_beats = burst_beats
        self.rings = rings
        super().__init__(
            {
                "data": In(stream.Signature(MaskedBeat(data_bytes))),
                "burst": In(stream.Signature(WriteRequest(address_bits, rings))),
                "request": Out(stream.Signature(WriteRequest(address_bits, rings))),
                "beats": Out(stream.Signature(WriteBeat(data_bytes))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.queue = queue = Fifo(MaskedBeat(self.data_bytes), 2 * self.burst_beats)
        m.submodules.requests = requests = Fifo(
            WriteRequest(self.address_bits, self.rings), SHORT_BURSTS - 1
        )
        m.submodules.sizes = sizes = Fifo(unsigned(8), SHORT_BURSTS - 1)
        wiring.connect(m, wiring.flipped(self.data), queue.i)
        wiring.connect(m, requests.o, wiring.flipped(self.request))
        m.d.comb += [
            self.burst.ready.eq(requests.i.ready & sizes.i.ready),
            requests.i.valid.eq(self.burst.valid),
            requests.i.payload.eq(self.burst.payload),
            sizes.i.valid.eq(self.burst.valid),
            sizes.i.payload.eq(self.burst.payload.beats),
        ]
        m.d.sync += Assert(~self.burst.valid | self.burst.ready)

        # Requests that the port has accepted and whose data has not been sent.
        announced = Signal(range(self.bursts + 2))
        request_fire = Signal()
        beats_fire = Signal()
        burst_sent = Signal()
        sent_beats = Signal(range(self.burst_beats))
        m.d.comb += [
            request_fire.eq(self.request.valid & self.request.ready),
            self.beats.valid.eq(queue.o.valid & sizes.o.valid & (announced != 0)),
            self.beats.payload.data.eq(queue.o.payload.data),
            self.beats.payload.strobe.eq(queue.o.payload.strobe),
            self.beats.payload.last.eq(sent_beats == sizes.o.payload),
            beats_fire.eq(self.beats.valid & self.beats.ready),
            queue.o.ready.eq(beats_fire),
            burst_sent.eq(beats_fire & self.beats.payload.last),
            sizes.o.ready.eq(burst_sent),
        ]
        m.d.sync += announced.eq(announced + request_fire - burst_sent)
        with m.If(beats_fire):
            m.d.sync += sent_beats.eq(Mux(burst_sent, 0, sent_beats + 1))
        m.d.sync += Assert(announced <= self.bursts + 1)
        return m
