"""The classes of a line's elements, a sector at a time."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.patterns import CLASS_BITS
from cdma.hw.codec.xc.classes import width_of
from cdma.hw.codec.xc.decompressor.head import LineHead, LineLayout
from cdma.hw.codec.xc.payloads import BF16, LineShape
from cdma.hw.codec.xc.trees import block_sums
from cdma.hw.config import CodecConfig
from cdma.hw.lib.lanes import ones_before, scatter, swaps
from cdma.hw.lib.pipeline import PipelineRegister, SkidBuffer
from cdma.hw.lib.places import picked


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

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        lanes = LineShape.of(config, elements).lanes
        super().__init__(
            {
                "numbers": data.ArrayLayout(unsigned(CLASS_BITS), lanes),
                "present": lanes,
                "layout": LineLayout(config, elements),
                "begins": 1,
                "ends": 1,
                "hands_on": 1,
            }
        )


class _PickedClasses(data.StructLayout):
    """A sector with the ring of classes that has its own, and their ways to their lanes."""

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        lanes = LineShape.of(config, elements).lanes
        super().__init__(
            {
                "sector": ClassedSector(config, elements),
                "ways": data.ArrayLayout(unsigned(lanes // 2), (lanes - 1).bit_length()),
            }
        )


class SummedSector(data.StructLayout):
    """A `ClassedSector` with the sums of its widths: `sum_1_*`, `sum_2_*` …"""

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        lanes = LineShape.of(config, elements).lanes
        sums: dict[str, int] = {}
        span = 1
        while span <= lanes:
            sums |= {f"sum_{span}_{b}": (4 * span).bit_length() for b in range(lanes // span)}
            span *= 2
        super().__init__({"sector": ClassedSector(config, elements), **sums})


class ClassReader(wiring.Component):
    """Gives a line's classes to its sectors' lanes.

        mask     1  0  1  1 | …
        classes  a  b  c  d   …           b was the last of the sector before: from c on
        picked   .  .  c  d               a ring, turned
        lanes    c  .  d  e

    Latency: 1 cycle, or 2 if `staged`. Throughput: a sector per cycle. A line without elements, or
    no line at all (`empty`), takes as many sectors as others, or one.

    Resources: a `ClassedSector` of registers, or three; a network of 2 bits per lane.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat
    staged : bool
        Pick classes a cycle before they go to their lanes, for a higher clock; and cut the path of
        ready there.

    Members
    -------
    i : `In(stream.Signature(LineHead(config, elements)))`
    o : `Out(stream.Signature(ClassedSector(config, elements)))`
    """

    def __init__(
        self, config: CodecConfig, elements: ElementFormat = BF16, *, staged: bool = False
    ) -> None:
        self.config = config
        self.elements = elements
        self.staged = staged
        super().__init__(
            {
                "i": In(stream.Signature(LineHead(config, elements))),
                "o": Out(stream.Signature(ClassedSector(config, elements))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, elements = self.config, self.elements
        shape = LineShape.of(config, elements)
        lanes = shape.lanes
        lane_bits = (lanes - 1).bit_length()
        m.submodules.classed = classed = PipelineRegister(ClassedSector(config, elements))
        wiring.connect(m, classed.o, wiring.flipped(self.o))
        picked_classes = stream.Signature(_PickedClasses(config, elements)).create()
        line, out = self.i.payload, picked_classes.payload.sector

        position = Signal(range(config.sectors))
        before = Signal(range(shape.elements + 1))
        mask = Signal(lanes)
        x_fire = Signal()
        m.d.comb += [
            mask.eq(line.mask.word_select(position, lanes)),
            picked_classes.valid.eq(self.i.valid),
            x_fire.eq(picked_classes.valid & picked_classes.ready),
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
        m.d.comb += [out.numbers[i].eq(number) for i, number in enumerate(ring)]
        for k, swap in enumerate(swaps(m, ones, before[:lane_bits], name="swap")):
            m.d.comb += picked_classes.payload.ways[k].eq(swap)

        source = picked_classes
        if self.staged:
            m.submodules.picked_classes = stage = SkidBuffer(_PickedClasses(config, elements))
            wiring.connect(m, picked_classes, stage.i)
            source = stage.o
        sector, spread = source.payload.sector, classed.i.payload
        ways = [source.payload.ways[k] for k in range(lane_bits)]
        numbers = scatter(m, [sector.numbers[i] for i in range(lanes)], ways, name="spread")
        m.d.comb += [
            classed.i.valid.eq(source.valid),
            source.ready.eq(classed.i.ready),
            spread.eq(sector),
            *(
                spread.numbers[i].eq(Mux(sector.present[i] & ~sector.layout.raw, number, 0))
                for i, number in enumerate(numbers)
            ),
        ]
        return m


class WidthCounter(wiring.Component):
    """Sums the widths of a sector's indices, for the tree that splits them.

    Latency: 1 cycle. Throughput: a sector per cycle.

    Resources: a `SummedSector` of registers; a tree of adders.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat
    ahead : int
        Stages from a sector's sums to its escapes, which begin where all of the line's extras end.

    Members
    -------
    i : `In(stream.Signature(ClassedSector(config, elements)))`
    o : `Out(stream.Signature(SummedSector(config, elements)))`
    total : `Out(stream.Signature(...))`
        For each line, with its last sector: bits of all extras. `ahead` sectors may go on before
        it is taken.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16, *, ahead: int) -> None:
        self.config = config
        self.elements = elements
        self.ahead = ahead
        super().__init__(
            {
                "i": In(stream.Signature(ClassedSector(config, elements))),
                "o": Out(stream.Signature(SummedSector(config, elements))),
                "total": Out(stream.Signature(range(LineShape.of(config, elements).bits + 1))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, elements = self.config, self.elements
        lanes = LineShape.of(config, elements).lanes
        m.submodules.summed = summed = PipelineRegister(SummedSector(config, elements))
        wiring.connect(m, summed.o, wiring.flipped(self.o))
        sector = self.i.payload

        # As many totals may wait as lines can be in the stages up to the escapes'.
        totals: list[PipelineRegister] = []
        for k in range(max(1, self.ahead // config.sectors)):
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
