"""The expanding pipeline of XC: compressed lines to sectors."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.hw.codec.payloads import ExpandedSector, LineBeat
from cdma.hw.codec.stream.line_collector import LineCollector
from cdma.hw.codec.stream.line_release import LineRelease
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.codec.xc.codec import chosen_elements
from cdma.hw.codec.xc.decompressor.class_reader import ClassReader, WidthCounter
from cdma.hw.codec.xc.decompressor.escape_reader import EscapeReader
from cdma.hw.codec.xc.decompressor.head import HeadReader, front_bits
from cdma.hw.codec.xc.decompressor.index_reader import IndexReader
from cdma.hw.codec.xc.decompressor.judge import LineJudge
from cdma.hw.codec.xc.decompressor.raw_checker import RawChecker
from cdma.hw.codec.xc.payloads import BF16, own_config
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import registered


class XcDecompressor(wiring.Component):
    """Expands a sector per cycle; of a line that no compressor writes, nothing.

        LineBeat -+-> LineCollector -+- head -> HeadReader -> ClassReader -> WidthCounter --+
                  |                  +- body ------------------> IndexReader <--------------+
                  |                                                | +--- body ---+
                  +-> RawChecker ------> LineJudge <--- EscapeReader <------------+
                                             +-> LineRelease

    Stages: head; ones; where mantissas are trimmed, their product with the bits of each; layout;
    classes picked; classes; sums; then, with the whole line, bytes picked; turned; split; split;
    escapes, in two stages if they are packed; elements. Those before the line are done while it
    comes in.

    Latency: the first sector of a line of one beat is valid `sector_latency` cycles after the beat
    was taken. Throughput: a sector per cycle for as long as beats are offered.

    Resources: five lines of registers, and those of the stages.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat

    Attributes
    ----------
    sector_latency : int
        Cycles from the last beat of a line of one beat to its first sector.

    Members
    -------
    parameters : `In(10)`
        `Parameters` of the line whose beat is at `i`.
    i : `In(stream.Signature(LineBeat(config)))`
    o : `Out(stream.Signature(ExpandedSector(config)))`
        All sectors of each line; of one that is wrong, one with its status, and no data.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        self.config = config
        self.elements = elements
        self._head_reader = HeadReader(config, elements, staged=True)
        self._escape_reader = EscapeReader(config, elements)
        own = self._head_reader.latency + self._escape_reader.latency
        self.sector_latency = config.sectors + 8 + own
        super().__init__(
            {
                "parameters": In(Parameters().size),
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, elements = self.config, self.elements
        m.submodules.collector = collector = LineCollector(
            config,
            front_bits(config, elements),
            Parameters().size,
            8 * elements.header_bytes,
        )
        m.submodules.raw_checker = raw_checker = RawChecker(config, elements)
        m.submodules.head_reader = head_reader = self._head_reader
        m.submodules.class_reader = class_reader = ClassReader(config, elements, staged=True)
        m.submodules.index_reader = index_reader = IndexReader(config, elements, staged=True)
        ahead = index_reader.stages + 1
        m.submodules.width_counter = width_counter = WidthCounter(config, elements, ahead=ahead)
        m.submodules.escape_reader = escape_reader = self._escape_reader
        m.submodules.judge = judge = LineJudge(config, elements)
        m.submodules.release = release = LineRelease(config, config.sectors)
        m.d.comb += [
            collector.parameters.eq(self.parameters),
            raw_checker.parameters.eq(self.parameters),
            collector.i.payload.eq(self.i.payload),
            raw_checker.i.payload.eq(self.i.payload),
            collector.i.valid.eq(self.i.valid & raw_checker.i.ready),
            raw_checker.i.valid.eq(self.i.valid & collector.i.ready),
            self.i.ready.eq(collector.i.ready & raw_checker.i.ready),
        ]
        wiring.connect(m, collector.head, head_reader.i)
        wiring.connect(m, head_reader.o, class_reader.i)
        wiring.connect(m, class_reader.o, width_counter.i)
        wiring.connect(m, width_counter.o, index_reader.i)
        # A line waits for its head, which takes longer: so long from here to its last sector.
        wait = head_reader.latency + 4
        body = registered(m, collector.body, -(-wait // config.sectors) - 1, name="body")
        wiring.connect(m, body, index_reader.line)
        # The line follows its sectors to the escapes, behind those of the lines before.
        line = registered(
            m, index_reader.passed, -(-index_reader.stages // config.sectors), name="line"
        )
        wiring.connect(m, line, escape_reader.line)
        wiring.connect(m, width_counter.total, escape_reader.total)
        wiring.connect(m, index_reader.o, escape_reader.i)
        wiring.connect(m, escape_reader.o, judge.i)
        wiring.connect(m, raw_checker.o, judge.raw_is_right)
        wiring.connect(m, judge.o, release.i)
        wiring.connect(m, judge.verdict, release.verdict)
        wiring.connect(m, release.o, wiring.flipped(self.o))
        return m


def of_elements(config: CodecConfig) -> XcDecompressor:
    """The pipeline alone, in an engine's widths and of its element format."""
    elements = chosen_elements(config)
    return XcDecompressor(own_config(config, elements), elements)
