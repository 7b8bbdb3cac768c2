"""The line's window: where a line grows out of its sectors' parts."""

from amaranth.hdl import C, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.quantize.codec import MAP_BYTES
from cdma.hw.codec.quantize.compressor.placer import PlacedSector
from cdma.hw.codec.quantize.payloads import lanes_of
from cdma.hw.codec.stream.line_sender import WholeLine
from cdma.hw.config import CodecConfig
from cdma.hw.lib.places import landed


class LineWindow(wiring.Component):
    """Joins the sectors' parts of a line.

        window      map  | symbols
        sector 0    m... | rrr..
        sector 1     m.  |    rrr..           joined: or

    Latency: 0 cycles, with a line's last sector. Throughput: a sector per cycle.

    Resources: a line of registers, unless a line is one sector.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(PlacedSector(config)))`
    o : `Out(stream.Signature(WholeLine(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(PlacedSector(config))),
                "o": Out(stream.Signature(WholeLine(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        sectors, line_bytes, ring_bytes = config.sectors, config.line_bytes, config.sector_bytes
        sector, form = self.i.payload, self.i.payload.form
        position = Signal(range(sectors))
        ring: list[Value] = [sector.ring[j] for j in range(ring_bytes)]
        parts = landed(m, ring, sector.place, line_bytes // ring_bytes, name="row")
        map_bytes = lanes_of(config) // 8
        for s in range(sectors):
            for b in range(map_bytes):
                own = sector.present.word_select(b, 8) & (position == s).replicate(8)
                parts[s * map_bytes + b] = parts[s * map_bytes + b] | own
        assert sectors * map_bytes == MAP_BYTES

        whole = Signal(8 * line_bytes)
        window = [Signal(8, name=f"window_{j}", reset_less=True) for j in range(line_bytes)]
        for j, own in enumerate(window):
            kept = C(0, 8) if sectors == 1 else own & ~sector.begins.replicate(8)
            m.d.comb += whole.word_select(j, 8).eq(parts[j] | kept)
        m.d.comb += [
            self.i.ready.eq(~sector.ends | self.o.ready),
            self.o.valid.eq(self.i.valid & sector.ends),
            self.o.payload.payload.eq(whole),
            self.o.payload.header.eq(form.header),
            self.o.payload.size.eq(form.size),
            self.o.payload.last.eq(form.last),
            self.o.payload.empty.eq(form.empty),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += position.eq(Mux(sector.ends, 0, position + 1))
            if sectors > 1:
                m.d.sync += [own.eq(whole.word_select(j, 8)) for j, own in enumerate(window)]
        return m
