"""The compressing pipeline of XC: sectors to compressed lines."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.hw.codec.payloads import LineBeat, Sector
from cdma.hw.codec.xc.codec import chosen_elements
from cdma.hw.codec.xc.compressor.class_coder import ClassCoder
from cdma.hw.codec.xc.compressor.meter import TRIMMING_STAGES, LineMeter
from cdma.hw.codec.xc.compressor.placer import JOINING_STAGES, FieldPlacer, SectorCounter
from cdma.hw.codec.xc.compressor.window import LineWindow
from cdma.hw.codec.xc.payloads import BF16, CodedSector, own_config
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import registered


class XcCompressor(wiring.Component):
    """Compresses a sector per cycle.

    A line's fields are of any length, and the first ones end before the last sectors are seen. So
    lines are counted first, while their sectors wait; then everything goes to its place at once.

        Sector -> ClassCoder -+-> LineMeter ----------- LinePlan --v
                              +-> a line of registers -> counter -> FieldPlacer -> LineWindow

    Six stages: classes; totals; plan, and what stands before each element; networks and half of the
    merge tree; its other half; the window. Where mantissas are trimmed, three more: two before the
    plan, and one in which rests are joined.

    Latency: the first beat of a line is valid `line_latency` cycles after the line's first sector
    was taken: 6, twice the sectors per line, less 2 for the first one's way and the last one's; 12
    for 32 B sectors. Three more of fp32. Throughput: a sector per cycle for as long as beats are
    taken when offered.

    Resources: three lines of registers, and those of the stages.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat

    Attributes
    ----------
    line_latency : int
        Cycles from a line's first sector to its first beat.

    Members
    -------
    i : `In(stream.Signature(Sector(config)))`
        Whole lines of sectors; short data has been filled with zeros.
    o : `Out(stream.Signature(LineBeat(config)))`
        Compressed lines, never truncated. The head is the header byte.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        self.config = config
        self.elements = elements
        more = (TRIMMING_STAGES + JOINING_STAGES) * elements.trims
        self.line_latency = 2 * config.sectors + 4 + more
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        window = LineWindow(self.config, self.elements)
        coder = add_stages(m, self.config, window, self.elements)
        wiring.connect(m, wiring.flipped(self.i), coder.i)
        wiring.connect(m, window.o, wiring.flipped(self.o))
        return m


def add_stages(
    m: Module,
    config: CodecConfig,
    window: Any,
    elements: ElementFormat = BF16,
    *,
    code_bits: int | None = None,
) -> ClassCoder:
    """Add the stages, connected, and return the first one.

    Parameters
    ----------
    m, config
    window
        The last stage, which takes `PlacedSector`s at `i`.
    elements
    code_bits : int, optional
        As in `LineMeter`.
    """
    m.submodules.coder = coder = ClassCoder(config, elements)
    m.submodules.fork = fork = Fork(CodedSector(config, elements), 2)
    m.submodules.meter = meter = LineMeter(config, elements, code_bits=code_bits)
    m.submodules.counter = counter = SectorCounter(config, elements)
    m.submodules.placer = placer = FieldPlacer(config, elements)
    m.submodules.window = window
    wiring.connect(m, coder.o, fork.i)
    wiring.connect(m, fork.o[0], meter.i)
    # A line waits here for its plan.
    waiting = registered(m, fork.o[1], config.sectors + meter.latency - 2, name="waiting")
    wiring.connect(m, waiting, counter.i)
    wiring.connect(m, counter.o, placer.i)
    wiring.connect(m, meter.o, placer.plan)
    wiring.connect(m, placer.o, window.i)
    return coder


def of_elements(config: CodecConfig) -> XcCompressor:
    """The pipeline alone, in an engine's widths and of its element format."""
    elements = chosen_elements(config)
    return XcCompressor(own_config(config, elements), elements)
