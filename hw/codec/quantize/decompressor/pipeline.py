"""The expanding pipeline of the lossy lane: compressed lines to sectors."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import ExpandedSector, LineBeat
from cdma.hw.codec.quantize.decompressor.head import HEAD_STAGES, HeadReader, SectorFinder
from cdma.hw.codec.quantize.decompressor.judge import LineJudge
from cdma.hw.codec.quantize.decompressor.restorer import Restorer
from cdma.hw.codec.quantize.decompressor.symbol_reader import SymbolReader
from cdma.hw.codec.quantize.meter import FormMeter
from cdma.hw.codec.quantize.payloads import K_BITS, MAP_BITS, own_config
from cdma.hw.codec.stream.line_collector import LineCollector
from cdma.hw.codec.stream.line_release import LineRelease
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import registered


class QuantizeDecompressor(wiring.Component):
    """Expands a sector per cycle; of a line that no compressor writes, nothing.

        LineBeat -> LineCollector -+- head -> HeadReader -> SectorFinder -+
                                   +- body -----------------------------> SymbolReader
                                                                          |
                      LineRelease <- LineJudge <--------- words ------ Restorer
                                         +<- FormMeter <- numbers --------+

    Stages: head; ones; layout; places; then, with the whole line, bytes picked; split; in lanes;
    steps; sums in two, or three of 128 B; numbers; judged; values in two. The first four are done
    while a line comes in. What comes out of a line is measured as the compressor does it: the form
    must be the line's.

    Latency: the first sector of a line of one beat is valid `sector_latency` cycles after the beat
    was taken. Throughput: a sector per cycle for as long as beats are offered.

    Resources: five lines of registers, and those of the stages.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    sector_latency : int
        Cycles from the last beat of a line of one beat to its first sector.

    Members
    -------
    parameters : `In(8)`
        k of the line whose beat is at `i`.
    i : `In(stream.Signature(LineBeat(config)))`
    o : `Out(stream.Signature(ExpandedSector(config)))`
        All sectors of each line; of one that is wrong, one with its status, and no data.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        self._restorer = Restorer(config)
        self.sector_latency = config.sectors + 11 + self._restorer.numbers_latency
        super().__init__(
            {
                "parameters": In(K_BITS),
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.collector = collector = LineCollector(config, MAP_BITS, K_BITS)
        m.submodules.head_reader = head_reader = HeadReader(config)
        m.submodules.finder = finder = SectorFinder(config)
        m.submodules.symbol_reader = symbol_reader = SymbolReader(config)
        m.submodules.restorer = restorer = self._restorer
        m.submodules.meter = meter = FormMeter(config)
        m.submodules.judge = judge = LineJudge(config)
        # A line's sectors, and those that come before its form.
        m.submodules.release = release = LineRelease(config, config.sectors - 1 + judge.DEPTH)
        m.d.comb += collector.parameters.eq(self.parameters)
        wiring.connect(m, wiring.flipped(self.i), collector.i)
        wiring.connect(m, collector.head, head_reader.i)
        wiring.connect(m, head_reader.o, finder.i)
        wiring.connect(m, finder.o, symbol_reader.i)
        # A line waits for its head, which takes longer.
        waiting = -(-(HEAD_STAGES + 1) // config.sectors)
        body = registered(m, collector.body, waiting, name="body")
        wiring.connect(m, body, symbol_reader.line)
        wiring.connect(m, symbol_reader.o, restorer.i)
        wiring.connect(m, restorer.numbered, meter.i)
        wiring.connect(m, restorer.o, judge.i)
        wiring.connect(m, meter.o, judge.form)
        wiring.connect(m, judge.o, release.i)
        wiring.connect(m, judge.verdict, release.verdict)
        wiring.connect(m, release.o, wiring.flipped(self.o))
        return m


def of_values(config: CodecConfig) -> QuantizeDecompressor:
    """The pipeline alone, in an engine's widths, whatever codecs that has."""
    return QuantizeDecompressor(own_config(config))
