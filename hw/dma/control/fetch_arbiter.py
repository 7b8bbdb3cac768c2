"""Reads of descriptors for several rings, through one source of the port to host memory."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import ReadBeat, ReadRequest
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister
from cdma.hw.lib.round_robin import RoundRobinArbiter


class FetchArbiter(wiring.Component):
    """Lets fetchers request descriptors round-robin, and returns the beats to who requested them.

    The port answers one source in order, so a queue of the rings' numbers tells whose beats come.

    Latency: 1 cycle for a request, none for a beat. Throughput: a request and a beat per cycle.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    request : `In(stream.Signature(ReadRequest(64))).array(config.rings)`
    beats : `Out(stream.Signature(ReadBeat(config.host_bytes))).array(config.rings)`
        Must be ready for as many beats as were requested.
    port_request : `Out(stream.Signature(ReadRequest(64, config.rings)))`
    port_beats : `In(stream.Signature(ReadBeat(config.host_bytes)))`
        Always ready.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        request = stream.Signature(ReadRequest(HOST_ADDRESS_BITS))
        beats = stream.Signature(ReadBeat(config.host_bytes))
        super().__init__(
            {
                "request": In(request).array(config.rings),
                "beats": Out(beats).array(config.rings),
                "port_request": Out(stream.Signature(ReadRequest(HOST_ADDRESS_BITS, config.rings))),
                "port_beats": In(beats),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        rings = self.config.rings
        # Each fetcher has room for what it requests, so there is room for all of that here.
        m.submodules.order = order = Fifo(range(rings), rings * self.config.transfers)
        m.submodules.arbiter = arbiter = RoundRobinArbiter(rings)
        m.submodules.requests = requests = PipelineRegister(ReadRequest(HOST_ADDRESS_BITS, rings))
        wiring.connect(m, requests.o, wiring.flipped(self.port_request))
        request_fire = Signal()
        m.d.comb += [
            requests.i.valid.eq(arbiter.requests.any()),
            request_fire.eq(requests.i.valid & requests.i.ready),
            arbiter.fire.eq(request_fire),
            order.i.valid.eq(request_fire),
            order.i.payload.eq(arbiter.grant),
        ]
        m.d.sync += Assert(~order.i.valid | order.i.ready)

        beat = Signal(range(max(1, ENTRY_BYTES // self.config.host_bytes)))
        last = Signal()
        beat_fire = Signal()
        m.d.comb += [
            self.port_beats.ready.eq(order.o.valid),
            beat_fire.eq(self.port_beats.valid & self.port_beats.ready),
            last.eq(beat == max(1, ENTRY_BYTES // self.config.host_bytes) - 1),
            order.o.ready.eq(beat_fire & last),
        ]
        with m.If(beat_fire):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
        for ring, (request, beats) in enumerate(zip(self.request, self.beats, strict=True)):
            own = Signal(name=f"own_{ring}")
            m.d.comb += [
                arbiter.requests[ring].eq(request.valid),
                request.ready.eq((arbiter.grant == ring) & requests.i.ready),
                own.eq(order.o.payload == ring),
                beats.valid.eq(beat_fire & own),
                beats.payload.eq(self.port_beats.payload),
            ]
            with m.If(beats.valid):
                m.d.sync += Assert(beats.ready)
            with m.If(arbiter.grant == ring):
                m.d.comb += [
                    requests.i.payload.address.eq(request.payload.address),
                    requests.i.payload.beats.eq(request.payload.beats),
                    requests.i.payload.owner.eq(ring),
                ]
        return m
