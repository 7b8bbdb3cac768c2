"""The line's window: where a line grows out of its sectors' parts, and leaves in beats."""

from functools import reduce
from operator import or_

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.patterns import CLASS_BITS
from cdma.hw.codec.payloads import LineBeat, Truncation
from cdma.hw.codec.xc.compressor.placer import PlacedSector
from cdma.hw.codec.xc.payloads import LineShape
from cdma.hw.config import CodecConfig
from cdma.hw.lib.places import landed


class LineWindow(wiring.Component):
    """Joins the sectors' parts of a line, and sends it.

        window      mask | classes | rest      | extras | escapes
        sector 0    m..    cc..      rrr..       x..      e
        sector 1     m.      ccc        rr..      xxx       e         joined: or
        beats       ^ 32 B per cycle, from the copy of a whole line

    Latency: the line's first beat is valid 1 cycle after its last sector was taken. Throughput: a
    sector per cycle, for as long as beats are taken when they are offered.

    Resources: two lines of registers, and for each bit of a line the gates to join four fields.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(PlacedSector(config)))`
    o : `Out(stream.Signature(LineBeat(config)))`
        Compressed lines, never truncated.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(PlacedSector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        shape = LineShape.of(config)
        lanes, sectors = shape.lanes, config.sectors
        line_bytes, beat_bytes = config.line_bytes, config.sector_bytes
        sector = self.i.payload
        plan = sector.plan

        # What the sector adds to the line.
        position = Signal(range(sectors))
        parts: list[list[Value]] = [[] for _ in range(line_bytes)]
        for name in ("rest", "extras", "escapes"):
            ring: list[Value] = [sector[name][i] for i in range(lanes)]
            line = landed(m, ring, sector[f"{name}_at"], line_bytes // lanes, name=name)
            for j, part in enumerate(line):
                parts[j].append(part)
        classes = [sector.classes[i] for i in range(lanes)]
        groups = -(-shape.class_lanes // lanes)
        line = landed(m, classes, sector.classes_at, groups, name="classes")
        for j in range(shape.class_lanes * CLASS_BITS // 8):
            parts[j].append(Cat(line[8 // CLASS_BITS * j : 8 // CLASS_BITS * (j + 1)]))
        for s in range(sectors):
            for b in range(lanes // 8):
                byte = sector.present.word_select(b, 8)
                parts[s * lanes // 8 + b].append(byte & (position == s).replicate(8))

        window = [Signal(8, name=f"window_{j}", reset_less=True) for j in range(line_bytes)]
        whole = Signal(8 * line_bytes)
        for j, own in enumerate(window):
            kept = C(0, 8) if sectors == 1 else own & ~sector.begins.replicate(8)
            m.d.comb += whole.word_select(j, 8).eq(reduce(or_, parts[j], kept))

        # The line that leaves.
        sending = Signal()
        first = Signal()
        final = Signal()
        copy = Signal(8 * line_bytes, reset_less=True)
        left = Signal.like(plan.size, reset_less=True)
        header = Signal.like(plan.header, reset_less=True)
        last = Signal(reset_less=True)
        empty = Signal(reset_less=True)
        x_sent = Signal()
        x_fire = Signal()
        m.d.comb += [
            x_sent.eq(sending & self.o.ready),
            self.i.ready.eq(~sector.ends | ~sending | (self.o.ready & final)),
            x_fire.eq(self.i.valid & self.i.ready),
        ]
        with m.If(x_sent):
            m.d.sync += [
                copy.eq(copy >> 8 * beat_bytes),
                left.eq(left - beat_bytes),
                first.eq(0),
                final.eq(left <= 2 * beat_bytes),
                sending.eq(~final),
            ]
        with m.If(x_fire):
            m.d.sync += position.eq(Mux(sector.ends, 0, position + 1))
            if sectors > 1:
                m.d.sync += [own.eq(whole.word_select(j, 8)) for j, own in enumerate(window)]
        with m.If(x_fire & sector.ends):
            m.d.sync += [
                copy.eq(whole),
                left.eq(plan.size),
                header.eq(plan.header),
                first.eq(1),
                final.eq(plan.size <= beat_bytes),
                last.eq(plan.last),
                empty.eq(plan.empty),
                sending.eq(1),
            ]

        # What the header says is what there is, and no line is longer than a raw one.
        with m.If(x_fire & sector.ends):
            m.d.sync += [
                Assert(plan.size <= line_bytes),
                Assert((whole >> (plan.size << 3)) == 0),
            ]

        out = self.o.payload
        m.d.comb += [
            self.o.valid.eq(sending),
            out.mask.eq(Mux(first & ~empty, header, 0)),
            out.elements.as_value().eq(copy[: 8 * beat_bytes]),
            out.count.eq(Mux(final, left, beat_bytes)),
            out.sol.eq(first),
            out.eol.eq(final),
            out.last.eq(last & final),
            out.empty.eq(empty),
            out.truncation.eq(Truncation.NONE),
        ]
        return m
