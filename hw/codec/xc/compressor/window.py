"""The line's window: where a line grows out of its sectors' parts, and leaves in beats."""

from functools import reduce
from operator import or_

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.patterns import CLASS_BITS
from cdma.hw.codec.payloads import LineBeat
from cdma.hw.codec.stream.line_sender import LineSender
from cdma.hw.codec.xc.compressor.placer import PlacedSector
from cdma.hw.codec.xc.payloads import BF16, LineShape
from cdma.hw.config import CodecConfig
from cdma.hw.lib.places import landed


def line_of(
    m: Module,
    config: CodecConfig,
    sector: data.View,
    x_fire: Value,
    elements: ElementFormat = BF16,
) -> Signal:
    """Join the sectors' parts of a line: its bytes, whole with the line's last sector.

    Parameters
    ----------
    m, config
    sector
        View of the `PlacedSector` that is offered.
    x_fire
        It is taken.
    elements
    """
    shape = LineShape.of(config, elements)
    lanes, sectors = shape.lanes, config.sectors
    line_bytes = config.line_bytes

    # What the sector adds to the line.
    position = Signal(range(sectors))
    parts: list[list[Value]] = [[] for _ in range(line_bytes)]
    for name in ("rest", "extras", "escapes"):
        ring: list[Value] = list(sector[name])
        part_bits = len(ring[0])
        groups = 8 * line_bytes // (part_bits * len(ring))
        line = landed(m, ring, sector[f"{name}_at"], groups, name=name)
        for j in range(line_bytes):
            parts[j].append(Cat(line[8 // part_bits * j : 8 // part_bits * (j + 1)]))
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
    with m.If(x_fire):
        m.d.sync += position.eq(Mux(sector.ends, 0, position + 1))
        if sectors > 1:
            m.d.sync += [own.eq(whole.word_select(j, 8)) for j, own in enumerate(window)]
    return whole


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
    elements : ElementFormat

    Members
    -------
    i : `In(stream.Signature(PlacedSector(config, elements)))`
    o : `Out(stream.Signature(LineBeat(config)))`
        Compressed lines, never truncated.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        self.config = config
        self.elements = elements
        super().__init__(
            {
                "i": In(stream.Signature(PlacedSector(config, elements))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        sector = self.i.payload
        plan = sector.plan
        x_fire = Signal()
        whole = line_of(m, config, sector, x_fire, self.elements)

        m.submodules.sender = sender = LineSender(config)
        wiring.connect(m, sender.o, wiring.flipped(self.o))
        m.d.comb += [
            self.i.ready.eq(~sector.ends | sender.i.ready),
            x_fire.eq(self.i.valid & self.i.ready),
            sender.i.valid.eq(self.i.valid & sector.ends),
            sender.i.payload.payload.eq(whole),
            sender.i.payload.header.eq(plan.header),
            sender.i.payload.size.eq(plan.size),
            sender.i.payload.last.eq(plan.last),
            sender.i.payload.empty.eq(plan.empty),
        ]
        return m
