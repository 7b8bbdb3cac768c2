"""A whole line leaves in beats."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Truncation
from cdma.hw.config import CodecConfig


class WholeLine(data.StructLayout):
    """A compressed line, at most as long as its data.

    Members
    -------
    payload
        Zero behind its end.
    header
        The line's head.
    size
        Bytes of payload.
    last, empty
        As in `LineBeat`.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "payload": 8 * config.line_bytes,
                "header": config.head_bits,
                "size": range(config.line_bytes + 1),
                "last": 1,
                "empty": 1,
            }
        )


class LineSender(wiring.Component):
    """Sends lines, from a copy: what makes them can go on with the next one.

    Elements of the stream are bytes.

    Latency: 1 cycle to a line's first beat. Throughput: a beat per cycle.

    Resources: a line of registers.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(WholeLine(config)))`
    o : `Out(stream.Signature(LineBeat(config)))`
        Never truncated.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(WholeLine(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        beat_bytes = self.config.sector_bytes
        line = self.i.payload
        sending = Signal()
        first = Signal()
        final = Signal()
        copy = Signal.like(line.payload, reset_less=True)
        left = Signal.like(line.size, reset_less=True)
        header = Signal.like(line.header, reset_less=True)
        last = Signal(reset_less=True)
        empty = Signal(reset_less=True)
        m.d.comb += self.i.ready.eq(~sending | (self.o.ready & final))
        with m.If(sending & self.o.ready):
            m.d.sync += [
                copy.eq(copy >> 8 * beat_bytes),
                left.eq(left - beat_bytes),
                first.eq(0),
                final.eq(left <= 2 * beat_bytes),
                sending.eq(~final),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                copy.eq(line.payload),
                left.eq(line.size),
                header.eq(line.header),
                first.eq(1),
                final.eq(line.size <= beat_bytes),
                last.eq(line.last),
                empty.eq(line.empty),
                sending.eq(1),
                # What the header says is what there is, and no line is longer than a raw one.
                Assert(line.size <= self.config.line_bytes),
                Assert((line.payload >> (line.size << 3)) == 0),
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
