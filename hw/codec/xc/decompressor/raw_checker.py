"""Checks that lines which are kept as they are had to be."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.hw.codec.payloads import LineBeat, Truncation
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.codec.xc.compressor.class_coder import ClassCoder
from cdma.hw.codec.xc.compressor.meter import RAW_LINE, LineMeter
from cdma.hw.codec.xc.payloads import BF16
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fifo import Fifo

RAW_LINES = 16
"""Raw lines that may be between their last beat and their last sector."""


class RawChecker(wiring.Component):
    """Finds out whether lines that are kept as they are had to be: there is one form for each line.

    The compressor's own front end codes and counts them, as they come.

    Latency: 5 cycles from a line's last beat. Throughput: a beat per cycle.

    Resources: a `ClassCoder` and a `LineMeter`, and a queue of bits.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat

    Members
    -------
    parameters : `In(Parameters().size)`
        Those of the line whose beat is offered.
    i : `In(stream.Signature(LineBeat(config)))`
        Lines; those that are not raw pass without an answer.
    o : `Out(stream.Signature(1))`
        For each raw line: whether no other form of it would fit. Worthless if it was truncated.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        self.config = config
        self.elements = elements
        super().__init__(
            {
                "parameters": In(Parameters().size),
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.coder = coder = ClassCoder(config, self.elements)
        m.submodules.meter = meter = LineMeter(config, self.elements)
        m.submodules.answers = answers = Fifo(1, RAW_LINES)
        wiring.connect(m, coder.o, meter.i)
        wiring.connect(m, answers.o, wiring.flipped(self.o))
        beat = self.i.payload
        raw = Signal()
        raw_line = Signal()
        m.d.comb += [
            raw.eq(Mux(beat.sol, beat.mask[6:8] == RAW_LINE, raw_line)),
            coder.i.valid.eq(self.i.valid & raw),
            coder.i.payload.elements.eq(beat.elements),
            coder.i.payload.parameters.eq(self.parameters),
            # Ends the line, wherever its end is missing.
            coder.i.payload.empty.eq(beat.truncation != Truncation.NONE),
            self.i.ready.eq(~raw | coder.i.ready),
            answers.i.valid.eq(meter.o.valid),
            answers.i.payload.eq(meter.o.payload.raw),
            meter.o.ready.eq(answers.i.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += raw_line.eq(raw & ~beat.eol)
        return m
