"""The compressing pipeline of the lossy lane: sectors to compressed lines."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Sector
from cdma.hw.codec.quantize.compressor.placer import SymbolPlacer
from cdma.hw.codec.quantize.compressor.quantizer import Quantizer
from cdma.hw.codec.quantize.compressor.window import LineWindow
from cdma.hw.codec.quantize.meter import STAGES, FormMeter
from cdma.hw.codec.quantize.payloads import QuantizedSector, own_config
from cdma.hw.codec.stream.line_sender import LineSender
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import registered


class QuantizeCompressor(wiring.Component):
    """Compresses a sector per cycle.

    The form of a line depends on all its numbers. So lines are measured first, while their sectors
    wait; then all symbols have the same width, and everything goes to its place at once.

        Sector -> Quantizer -+-> FormMeter ------------------ LineForm --v
                             +-> a line of registers, and 3 more -> SymbolPlacer -> window -> sender

    Latency: the first beat of a line is valid `line_latency` cycles after the line's first sector
    was taken: 10, for the stages of quantizer, meter, placer and sender, and the line's other
    sectors; 16 for 32 B sectors. Throughput: a sector per cycle for as long as beats are taken when
    offered.

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
        self.line_latency = 2 * (config.sectors - 1) + STAGES + 6
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.quantizer = quantizer = Quantizer(config)
        m.submodules.fork = fork = Fork(QuantizedSector(config), 2)
        m.submodules.meter = meter = FormMeter(config)
        m.submodules.placer = placer = SymbolPlacer(config)
        m.submodules.window = window = LineWindow(config)
        m.submodules.sender = sender = LineSender(config)
        wiring.connect(m, wiring.flipped(self.i), quantizer.i)
        wiring.connect(m, quantizer.o, fork.i)
        measured = fork.o[0]
        m.d.comb += [
            meter.i.valid.eq(measured.valid),
            meter.i.payload.eq(measured.payload.numbered),
            measured.ready.eq(meter.i.ready),
        ]
        # A line waits here for its form.
        waiting = registered(m, fork.o[1], config.sectors - 1 + STAGES, name="waiting")
        wiring.connect(m, waiting, placer.i)
        wiring.connect(m, meter.o, placer.form)
        wiring.connect(m, placer.o, window.i)
        wiring.connect(m, window.o, sender.i)
        wiring.connect(m, sender.o, wiring.flipped(self.o))
        return m


def of_values(config: CodecConfig) -> QuantizeCompressor:
    """The pipeline alone, in an engine's widths, whatever codecs that has."""
    return QuantizeCompressor(own_config(config))
