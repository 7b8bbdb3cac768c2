"""The compressing pipeline of XC: sectors to compressed lines."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Sector
from cdma.hw.codec.xc.compressor.class_coder import ClassCoder
from cdma.hw.codec.xc.compressor.meter import LineMeter
from cdma.hw.codec.xc.compressor.placer import FieldPlacer, SectorCounter
from cdma.hw.codec.xc.compressor.window import LineWindow
from cdma.hw.codec.xc.payloads import CodedSector, own_config
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
    merge tree; its other half; the window.

    Latency: the first beat of a line is valid `line_latency` cycles after the line's first sector
    was taken: 6, twice the sectors per line, less 2 for the first one's way and the last one's; 12
    for 32 B sectors. Throughput: a sector per cycle for as long as beats are taken when offered.

    Resources: three lines of registers, and those of the stages.

    Parameters
    ----------
    config : CodecConfig

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

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        self.line_latency = 2 * config.sectors + 4
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        window = LineWindow(config)
        coder = add_stages(m, config, window)
        wiring.connect(m, wiring.flipped(self.i), coder.i)
        wiring.connect(m, window.o, wiring.flipped(self.o))
        return m


def add_stages(
    m: Module, config: CodecConfig, window: Any, *, code_bits: int | None = None
) -> ClassCoder:
    """Add the stages, connected, and return the first one.

    Parameters
    ----------
    m, config
    window
        The last stage, which takes `PlacedSector`s at `i`.
    code_bits : int, optional
        As in `LineMeter`.
    """
    m.submodules.coder = coder = ClassCoder(config)
    m.submodules.fork = fork = Fork(CodedSector(config), 2)
    m.submodules.meter = meter = LineMeter(config, code_bits=code_bits)
    m.submodules.counter = counter = SectorCounter(config)
    m.submodules.placer = placer = FieldPlacer(config)
    m.submodules.window = window
    wiring.connect(m, coder.o, fork.i)
    wiring.connect(m, fork.o[0], meter.i)
    # A line waits here for its plan.
    waiting = registered(m, fork.o[1], config.sectors, name="waiting")
    wiring.connect(m, waiting, counter.i)
    wiring.connect(m, counter.o, placer.i)
    wiring.connect(m, meter.o, placer.plan)
    wiring.connect(m, placer.o, window.i)
    return coder


def of_elements(config: CodecConfig) -> XcCompressor:
    """The pipeline alone, in an engine's widths, whatever codecs that has."""
    return XcCompressor(own_config(config))
