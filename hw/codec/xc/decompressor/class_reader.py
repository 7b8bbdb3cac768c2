"""The classes of a line's elements, a sector at a time."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.patterns import CLASS_BITS
from cdma.hw.codec.xc.classes import width_of
from cdma.hw.codec.xc.decompressor.head import LineHead, LineLayout
from cdma.hw.codec.xc.payloads import LineShape
from cdma.hw.codec.xc.trees import block_sums
from cdma.hw.config import CodecConfig
from cdma.hw.lib.lanes import ones_before, scatter, swaps
from cdma.hw.lib.pipeline import PipelineRegister
from cdma.hw.lib.places import picked

STAGES = 4
"""Stages from a sector's sums to its escapes, which begin where all of the line's extras end."""


class ClassedSector(data.StructLayout):
    """A sector of which the classes are known.

    Members
    -------
    numbers
        Classes; zero in lanes that are not present.
    present
        Lanes with an element that is not zero; all of them in a raw line.
    layout
        The line's.
    begins, ends
        The line's first and last sector.
    hands_on
        The line's last sector but one, if it has one: with it the line goes on to the stages that
        come later, which its first sector reaches before its last one is read.
    """

    def __init__(self, config: CodecConfig) -> None:
        lanes = LineShape.of(config).lanes
        super().__init__(
            {
                "numbers": data.ArrayLayout(unsigned(CLASS_BITS), lanes),
                "present": lanes,
                "layout": LineLayout(config),
                "begins": 1,
                "ends": 1,
                "hands_on": 1,
            }
        )


class SummedSector(data.StructLayout):
    """A `ClassedSector` with the sums of its widths: `sum_1_*`, `sum_2_*` …"""

    def __init__(self, config: CodecConfig) -> None:
        lanes = LineShape.of(config).lanes
        sums: dict[str, int] = {}
        span = 1
        while span <= lanes:
            sums |= {f"sum_{span}_{b}": (4 * span).bit_length() for b in range(lanes // span)}
            span *= 2
        super().__init__({"sector": ClassedSector(config), **sums})


class ClassReader(wiring.Component):
    """Gives a line's classes to its sectors' lanes.

        mask     1  0  1  1 | …
        classes  a  b  c  d   …           b was the last of the sector before: from c on
        picked   .  .  c  d               a ring, turned
        lanes    c  .  d  e

    Latency: 1 cycle. Throughput: a sector per cycle. A line without elements, or no line at all
    (`empty`), takes as many sectors as others, or one.

    Resources: a `ClassedSector` of registers; a network of 2 bits per lane.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(LineHead(config)))`
    o : `Out(stream.Signature(ClassedSector(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineHead(config))),
                "o": Out(stream.Signature(ClassedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        shape = LineShape.of(config)
        lanes = shape.lanes
        lane_bits = (lanes - 1).bit_length()
        m.submodules.classed = classed = PipelineRegister(ClassedSector(config))
        wiring.connect(m, classed.o, wiring.flipped(self.o))
        line, out = self.i.payload, classed.i.payload

        position = Signal(range(config.sectors))
        before = Signal(range(shape.elements + 1))
        mask = Signal(lanes)
        x_fire = Signal()
        m.d.comb += [
            mask.eq(line.mask.word_select(position, lanes)),
            classed.i.valid.eq(self.i.valid),
            x_fire.eq(classed.i.valid & classed.i.ready),
            self.i.ready.eq(x_fire & out.ends),
            out.begins.eq(position == 0),
            out.ends.eq(line.layout.empty | (position == config.sectors - 1)),
            out.hands_on.eq(line.layout.empty | (position == max(config.sectors - 2, 0))),
            out.layout.eq(line.layout),
            out.present.eq(mask),
        ]
        ones, count = ones_before(m, mask, name="present")
        with m.If(x_fire):
            m.d.sync += [
                position.eq(Mux(out.ends, 0, position + 1)),
                before.eq(Mux(out.ends, 0, before + count)),
            ]
        classes = [line.classes.word_select(j, CLASS_BITS) for j in range(shape.elements)]
        ring = picked(m, classes, before, lanes, name="picked")
        ways = swaps(m, ones, before[:lane_bits], name="swap")
        spread = scatter(m, ring, ways, name="spread")
        m.d.comb += [
            out.numbers[i].eq(Mux(mask[i] & ~line.layout.raw, number, 0))
            for i, number in enumerate(spread)
        ]
        return m


class WidthCounter(wiring.Component):
    """Sums the widths of a sector's indices, for the tree that splits them.

    Latency: 1 cycle. Throughput: a sector per cycle.

    Resources: a `SummedSector` of registers; a tree of adders.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(ClassedSector(config)))`
    o : `Out(stream.Signature(SummedSector(config)))`
    total : `Out(stream.Signature(...))`
        For each line, with its last sector: bits of all extras. `STAGES` sectors may go on before
        it is taken.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(ClassedSector(config))),
                "o": Out(stream.Signature(SummedSector(config))),
                "total": Out(stream.Signature(range(LineShape.of(config).bits + 1))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = LineShape.of(self.config).lanes
        m.submodules.summed = summed = PipelineRegister(SummedSector(self.config))
        wiring.connect(m, summed.o, wiring.flipped(self.o))
        sector = self.i.payload

        # As many totals may wait as lines can be in the stages up to the escapes'.
        totals: list[PipelineRegister] = []
        for k in range(max(1, STAGES // self.config.sectors)):
            m.submodules[f"total_{k}"] = register = PipelineRegister(self.total.payload.shape())
            if totals:
                wiring.connect(m, totals[-1].o, register.i)
            totals.append(register)
        wiring.connect(m, totals[-1].o, wiring.flipped(self.total))
        pattern = sector.layout.parameters.pattern
        widths = []
        counts = Cat(sector.present & ~sector.layout.raw.replicate(lanes))
        for i in range(lanes):
            width = Signal(3, name=f"present_width_{i}")
            needed = width_of(m, sector.numbers[i], pattern, name=f"width_{i}")
            m.d.comb += width.eq(Mux(counts[i], needed, 0))
            widths.append(width)
        sums = block_sums(m, widths, name="sum")
        before = Signal.like(self.total.payload)
        goes_on = Signal()
        m.d.comb += [
            goes_on.eq(~sector.ends | totals[0].i.ready),
            summed.i.valid.eq(self.i.valid & goes_on),
            self.i.ready.eq(summed.i.ready & goes_on),
            summed.i.payload.sector.eq(sector),
            totals[0].i.valid.eq(self.i.valid & summed.i.ready & sector.ends),
            totals[0].i.payload.eq(before + sums[-1][0]),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += before.eq(Mux(sector.ends, 0, before + sums[-1][0]))
        for level in sums:
            span = lanes // len(level)
            m.d.comb += [
                summed.i.payload[f"sum_{span}_{b}"].eq(value) for b, value in enumerate(level)
            ]
        return m
