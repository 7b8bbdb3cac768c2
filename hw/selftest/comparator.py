"""Comparison of the decompressor's output with the expected data."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import AxiStreamSignature
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.count import count_ones

COUNT_BITS = 32


class BeatComparator(wiring.Component):
    """Compares a packet with the beats that it should have.

    Each sector that did not come whole and right is counted, and each beat that is too many.
    Takes a beat per cycle. Latency: 3 cycles from the packet's last beat to `done`; if it came too
    early, one more for each beat that is missing.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    start : `In(1)`
        Begin a packet.
    expected : `In(stream.Signature(Beat(config.sector_bytes)))`
        The beats that it should have.
    i : `In(AxiStreamSignature(config.sector_bytes))`
        The packet.
    wrong : `Out(32)`
        Sectors of it that are wrong or missing, and beats that are too many.
    took : `Out(1)`
        An expected beat came, right or wrong, or is known to be missing.
    done : `Out(1)`
        The packet has ended, and `wrong` is complete.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "expected": In(stream.Signature(Beat(config.sector_bytes))),
                "i": In(AxiStreamSignature(config.sector_bytes)),
                "wrong": Out(COUNT_BITS),
                "took": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.config.sector_bytes

        # Behind the packet's last beat the rest is missing.
        ended = Signal()
        came = Signal()
        skips = Signal()
        m.d.comb += [
            self.i.tready.eq(~ended),
            came.eq(self.i.tvalid & ~ended),
            skips.eq(ended & self.expected.valid),
            self.expected.ready.eq(came | skips),
            self.took.eq(self.expected.valid & self.expected.ready),
        ]
        with m.If(came & self.i.tlast):
            m.d.sync += ended.eq(1)

        # A word at a time, then all of them: wide comparisons are slow.
        compared = Signal()
        bytes_differ = Signal(width, reset_less=True)
        lost = Signal(reset_less=True)
        m.d.sync += [
            compared.eq(came | skips),
            lost.eq(skips | ~self.expected.valid | ~self.i.tkeep.all()),
            bytes_differ.eq(
                Cat(
                    self.i.tdata.word_select(j, 8) != self.expected.payload.data.word_select(j, 8)
                    for j in range(width)
                )
            ),
        ]
        judged_wrong = Signal()
        m.d.sync += judged_wrong.eq(compared & (lost | bytes_differ.any()))
        with m.If(judged_wrong):
            m.d.sync += self.wrong.eq(self.wrong + 1)

        # Two stages lie between the last beat and the count.
        settling = Signal(2)
        quiet = Signal()
        m.d.comb += quiet.eq(ended & ~self.expected.valid)
        m.d.sync += settling.eq(Cat(quiet, settling[0]))
        m.d.comb += self.done.eq(quiet & settling.all())

        with m.If(self.start):
            m.d.sync += [ended.eq(0), settling.eq(0), self.wrong.eq(0)]
        return m


class StreamMeter(wiring.Component):
    """Counts the bytes of a stream by TKEEP.

    Latency: 2 cycles.

    Parameters
    ----------
    data_bytes
        Width of the stream.

    Members
    -------
    start : `In(1)`
        From 0 again.
    passes : `In(1)`
        A beat passes.
    tkeep : `In(data_bytes)`
    count : `Out(32)`
    """

    def __init__(self, data_bytes: int) -> None:
        self.data_bytes = data_bytes
        super().__init__(
            {"start": In(1), "passes": In(1), "tkeep": In(data_bytes), "count": Out(COUNT_BITS)}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        kept = Signal(range(self.data_bytes + 1))
        with m.If(self.start):
            m.d.sync += [kept.eq(0), self.count.eq(0)]
        with m.Else():
            ones = Signal(self.data_bytes)
            m.d.comb += ones.eq(self.tkeep)
            with m.If(self.passes):
                m.d.sync += kept.eq(count_ones(ones))
            with m.Else():
                m.d.sync += kept.eq(0)
            m.d.sync += self.count.eq(self.count + kept)
        return m
