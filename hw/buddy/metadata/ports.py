"""Ports to device memory that the slices of the cache share."""

from amaranth.hdl import Assert, Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.line import ROW_BYTES, LineShape
from cdma.hw.buddy.payloads import DEVICE_ADDRESS_BITS
from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest, WriteBeat, WriteRequest
from cdma.hw.bus.request_arbiter import RequestArbiter
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import SkidBuffer


class LineRequestArbiter(wiring.Component):
    """Arbitrates round-robin between the slices' requests, and completes their addresses.

    Latency: 1 cycle. Throughput: a request per cycle.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    i : `In(stream.Signature(line_bits)).array(slices)`
    o : `Out(stream.Signature(ReadRequest(40)))`
        Write requests have the same shape.
    order : `Out(stream.Signature(range(slices)))`
        The slice of each request, in the cycle of its grant. Always ready.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineShape(config).line_bits)).array(config.slices),
                "o": Out(stream.Signature(ReadRequest(DEVICE_ADDRESS_BITS))),
                "order": Out(stream.Signature(range(config.slices))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = LineShape(self.config)
        slices = self.config.slices
        m.submodules.arbiter = arbiter = RequestArbiter(
            DEVICE_ADDRESS_BITS, shape.slice_bits, slices
        )
        m.submodules.requests = requests = SkidBuffer(ReadRequest(DEVICE_ADDRESS_BITS))
        for k, i in enumerate(self.i):
            request = arbiter.i[k]
            address = Cat(Const(0, shape.offset_bits), Const(k, shape.slice_bits), i.payload)
            m.d.comb += [
                request.valid.eq(i.valid),
                request.payload.address.eq(address),
                request.payload.beats.eq(shape.rows - 1),
                i.ready.eq(request.ready),
            ]
        m.d.comb += [
            requests.i.valid.eq(arbiter.o.valid),
            requests.i.payload.address.eq(arbiter.o.payload.address),
            requests.i.payload.beats.eq(arbiter.o.payload.beats),
            arbiter.o.ready.eq(requests.i.ready),
            self.order.valid.eq(arbiter.o.valid & requests.i.ready),
            self.order.payload.eq(arbiter.o.payload.id),
        ]
        m.d.sync += Assert(~self.order.valid | self.order.ready)
        wiring.connect(m, requests.o, wiring.flipped(self.o))
        return m


class RefillPort(wiring.Component):
    """Fetches the lines that miss in any slice.

    Latency: 1 cycle for requests, 0 for beats. Throughput: one of each per cycle.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    slice_request : `In(stream.Signature(line_bits)).array(slices)`
    slice_beats : `Out(stream.Signature(ReadBeat(32))).array(slices)`
        Always ready.
    request : `Out(stream.Signature(ReadRequest(40)))`
    beats : `In(stream.Signature(ReadBeat(32)))`
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        slices = config.slices
        super().__init__(
            {
                "slice_request": In(stream.Signature(LineShape(config).line_bits)).array(slices),
                "slice_beats": Out(stream.Signature(ReadBeat(ROW_BYTES))).array(slices),
                "request": Out(stream.Signature(ReadRequest(DEVICE_ADDRESS_BITS))),
                "beats": In(stream.Signature(ReadBeat(ROW_BYTES))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        shape = LineShape(config)
        m.submodules.requests = requests = LineRequestArbiter(config)
        m.submodules.order = order = Fifo(range(config.slices), config.slices * config.misses)
        for k in range(config.slices):
            wiring.connect(m, wiring.flipped(self.slice_request[k]), requests.i[k])
        wiring.connect(m, requests.o, wiring.flipped(self.request))
        wiring.connect(m, requests.order, order.i)
        row = Signal(shape.row_bits)
        beat_fire = Signal()
        m.d.comb += [
            self.beats.ready.eq(order.o.valid),
            beat_fire.eq(self.beats.valid & self.beats.ready),
            order.o.ready.eq(beat_fire & (row.all() if shape.row_bits else 1)),
        ]
        with m.If(beat_fire):
            m.d.sync += row.eq(row + 1)
        for k, beats in enumerate(self.slice_beats):
            m.d.comb += [
                beats.valid.eq(beat_fire & (order.o.payload == k)),
                beats.payload.eq(self.beats.payload),
            ]
            m.d.sync += Assert(~beats.valid | beats.ready)
        return m


class EvictionPort(wiring.Component):
    """Writes the evicted lines of all slices.

    Latency: 1 cycle for requests, 0 for beats and responses. Throughput: one of each per cycle.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    slice_request : `In(stream.Signature(line_bits)).array(slices)`
    slice_beats : `In(stream.Signature(WriteBeat(32))).array(slices)`
    slice_response : `Out(stream.Signature(BusError)).array(slices)`
    request : `Out(stream.Signature(WriteRequest(40)))`
    beats : `Out(stream.Signature(WriteBeat(32)))`
    response : `In(stream.Signature(BusError))`
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        slices = config.slices
        super().__init__(
            {
                "slice_request": In(stream.Signature(LineShape(config).line_bits)).array(slices),
                "slice_beats": In(stream.Signature(WriteBeat(ROW_BYTES))).array(slices),
                "slice_response": Out(stream.Signature(BusError)).array(slices),
                "request": Out(stream.Signature(WriteRequest(DEVICE_ADDRESS_BITS))),
                "beats": Out(stream.Signature(WriteBeat(ROW_BYTES))),
                "response": In(stream.Signature(BusError)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        depth = config.slices * LineShape(config).evictions
        m.submodules.requests = requests = LineRequestArbiter(config)
        m.submodules.beat_order = beat_order = Fifo(range(config.slices), depth)
        m.submodules.response_order = response_order = Fifo(range(config.slices), depth)
        for k in range(config.slices):
            wiring.connect(m, wiring.flipped(self.slice_request[k]), requests.i[k])
        m.d.comb += [
            self.request.valid.eq(requests.o.valid),
            self.request.payload.address.eq(requests.o.payload.address),
            self.request.payload.beats.eq(requests.o.payload.beats),
            requests.o.ready.eq(self.request.ready),
            beat_order.i.valid.eq(requests.order.valid),
            beat_order.i.payload.eq(requests.order.payload),
            response_order.i.valid.eq(requests.order.valid),
            response_order.i.payload.eq(requests.order.payload),
            requests.order.ready.eq(beat_order.i.ready & response_order.i.ready),
            beat_order.o.ready.eq(self.beats.valid & self.beats.ready & self.beats.payload.last),
            response_order.o.ready.eq(self.response.valid & self.response.ready),
        ]
        response_for = Signal(config.slices)
        for k, beats in enumerate(self.slice_beats):
            beats_for = Signal(name=f"beats_for_{k}")
            response = self.slice_response[k]
            m.d.comb += [
                beats_for.eq(beat_order.o.valid & (beat_order.o.payload == k)),
                beats.ready.eq(beats_for & self.beats.ready),
                response_for[k].eq(response_order.o.valid & (response_order.o.payload == k)),
                response.valid.eq(response_for[k] & self.response.valid),
                response.payload.eq(self.response.payload),
            ]
            with m.If(beats_for):
                m.d.comb += [
                    self.beats.valid.eq(beats.valid),
                    self.beats.payload.eq(beats.payload),
                ]
            with m.If(response_for[k]):
                m.d.comb += self.response.ready.eq(response.ready)
        return m
