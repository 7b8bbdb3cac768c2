"""The AXI4 subordinate port, which the GPU drives, as streams."""

from amaranth.hdl import Module, ResetSignal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.payloads import (
    LOGICAL_ADDRESS_BITS,
    BurstRequest,
    SubordinateReadBeat,
    SubordinateWriteResponse,
)
from cdma.hw.bus.axi import Axi4Signature
from cdma.hw.bus.burst import WriteBeat
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.pipeline import SkidBuffer


class SubordinatePort(wiring.Component):
    """Registers the five channels of the subordinate port, and presents them as streams.

    Each channel passes a skid buffer, so no combinational path connects two pins. VALID outputs
    are low in reset.

    Latency: 1 cycle on each channel. Throughput: a transfer on each channel per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    s_axi : `In(Axi4Signature(sector_bytes, 40, id_bits))`
    read, write : `Out(stream.Signature(BurstRequest(config)))`
    write_beats : `Out(stream.Signature(WriteBeat(sector_bytes)))`
    read_beats : `In(stream.Signature(SubordinateReadBeat(config)))`
    response : `In(stream.Signature(SubordinateWriteResponse(config)))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        width = config.entry.sector_bytes
        super().__init__(
            {
                "s_axi": In(Axi4Signature(width, LOGICAL_ADDRESS_BITS, config.id_bits)),
                "read": Out(stream.Signature(BurstRequest(config))),
                "write": Out(stream.Signature(BurstRequest(config))),
                "write_beats": Out(stream.Signature(WriteBeat(width))),
                "read_beats": In(stream.Signature(SubordinateReadBeat(config))),
                "response": In(stream.Signature(SubordinateWriteResponse(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        axi = self.s_axi
        m.submodules.ar = ar = SkidBuffer(BurstRequest(config))
        m.submodules.aw = aw = SkidBuffer(BurstRequest(config))
        m.submodules.w = w = SkidBuffer(WriteBeat(config.entry.sector_bytes))
        m.submodules.r = r = SkidBuffer(SubordinateReadBeat(config))
        m.submodules.b = b = SkidBuffer(SubordinateWriteResponse(config))
        wiring.connect(m, ar.o, wiring.flipped(self.read))
        wiring.connect(m, aw.o, wiring.flipped(self.write))
        wiring.connect(m, w.o, wiring.flipped(self.write_beats))
        wiring.connect(m, wiring.flipped(self.read_beats), r.i)
        wiring.connect(m, wiring.flipped(self.response), b.i)
        for name, buffer in (("ar", ar), ("aw", aw)):
            m.d.comb += [
                buffer.i.valid.eq(getattr(axi, f"{name}valid")),
                buffer.i.payload.id.eq(getattr(axi, f"{name}id")),
                buffer.i.payload.address.eq(getattr(axi, f"{name}addr")),
                buffer.i.payload.beats.eq(getattr(axi, f"{name}len")),
                buffer.i.payload.size.eq(getattr(axi, f"{name}size")),
                buffer.i.payload.burst.eq(getattr(axi, f"{name}burst")),
                getattr(axi, f"{name}ready").eq(buffer.i.ready),
            ]
        m.d.comb += [
            w.i.valid.eq(axi.wvalid),
            w.i.payload.data.eq(axi.wdata),
            w.i.payload.strobe.eq(axi.wstrb),
            w.i.payload.last.eq(axi.wlast),
            axi.wready.eq(w.i.ready),
            axi.rvalid.eq(r.o.valid & ~ResetSignal()),
            axi.rid.eq(r.o.payload.id),
            axi.rdata.eq(r.o.payload.data),
            axi.rresp.eq(r.o.payload.resp),
            axi.rlast.eq(r.o.payload.last),
            r.o.ready.eq(axi.rready),
            axi.bvalid.eq(b.o.valid & ~ResetSignal()),
            axi.bid.eq(b.o.payload.id),
            axi.bresp.eq(b.o.payload.resp),
            b.o.ready.eq(axi.bready),
        ]
        return m
