"""The decompressor's first look at a line: its head, and where each sector's symbols stand."""

from amaranth.hdl import C, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.quantize.arithmetic import is_unbounded
from cdma.hw.codec.quantize.forms import Header, payload_bytes
from cdma.hw.codec.quantize.payloads import (
    ELEMENT_BITS,
    K_BITS,
    MAP_BITS,
    PLACE_BITS,
    lanes_of,
)
from cdma.hw.codec.stream.line_collector import HeadBytes
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones
from cdma.hw.lib.pipeline import PipelineRegister

HEAD_STAGES = 2
"""Of `HeadReader`."""


def head_bytes(config: CodecConfig) -> HeadBytes:
    """The layout of a line's head, as `LineCollector` gives it."""
    return HeadBytes(config, MAP_BITS, K_BITS)


class LineLayout(data.StructLayout):
    """What a line's head tells.

    Members
    -------
    header
    k
        The transfer's.
    size
        Bytes of payload.
    malformed
        There can be no such line.
    empty
        No line.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "header": 8,
                "k": K_BITS,
                "size": range(config.line_bytes + 1),
                "malformed": 1,
                "empty": 1,
            }
        )


class _CountedHead(data.StructLayout):
    """A head as it stands, and how many ones are in its map."""

    def __init__(self) -> None:
        super().__init__(
            {
                "header": 8,
                "k": K_BITS,
                "front": MAP_BITS,
                "ones": range(MAP_BITS + 1),
                "there": 1,
                "empty": 1,
            }
        )


class LineHead(data.StructLayout):
    """A line's layout, and the numbers that it has."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"layout": LineLayout(config), "present": MAP_BITS})


class FoundSector(data.StructLayout):
    """A sector of which is known where its symbols stand.

    Members
    -------
    layout
        The line's.
    present
        Numbers that the line has.
    place
        The first one's place in the line's payload, in bits.
    begins, ends
        First and last sector of the line.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "layout": LineLayout(config),
                "present": lanes_of(config),
                "place": PLACE_BITS,
                "begins": 1,
                "ends": 1,
            }
        )


class HeadReader(wiring.Component):
    """Reads heads: a line's length, and whether there can be such a line.

    Latency: `HEAD_STAGES` = 2 cycles. Throughput: a line per cycle.

    Resources: two `LineHead`s of registers, a population count, a multiplier of 6 by 5 bits.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(head_bytes(config)))`
    o : `Out(stream.Signature(LineHead(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(head_bytes(config))),
                "o": Out(stream.Signature(LineHead(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.counted = counted = PipelineRegister(_CountedHead())
        m.submodules.heads = heads = PipelineRegister(LineHead(self.config))
        wiring.connect(m, heads.o, wiring.flipped(self.o))
        line, found = self.i.payload, counted.i.payload
        m.d.comb += [
            counted.i.valid.eq(self.i.valid),
            self.i.ready.eq(counted.i.ready),
            found.header.eq(line.header),
            found.k.eq(line.parameters),
            found.front.eq(line.front),
            found.ones.eq(count_ones(line.front)),
            found.there.eq(~line.empty & (line.truncation != Truncation.MASK)),
            found.empty.eq(line.empty),
        ]
        head, layout = counted.o.payload, heads.i.payload.layout
        header = Header(head.header)
        m.d.comb += [
            heads.i.valid.eq(counted.o.valid),
            counted.o.ready.eq(heads.i.ready),
            layout.header.eq(head.header),
            layout.k.eq(head.k),
            layout.size.eq(payload_bytes(head.header, head.ones)),
            layout.malformed.eq(
                head.there & (header.malformed | (is_unbounded(head.k) & ~header.raw))
            ),
            layout.empty.eq(head.empty),
            heads.i.payload.present.eq(Mux(header.mapped, head.front, C(-1, MAP_BITS))),
        ]
        return m


class SectorFinder(wiring.Component):
    """Finds a line's sectors: where the symbols of the sectors before end.

    Latency: 1 cycle. Throughput: a sector per cycle. A line without numbers, or no line at all
    (`empty`), takes as many sectors as others, or one.

    Resources: a `FoundSector` of registers, a population count, a multiplier of 5 by 5 bits.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(LineHead(config)))`
    o : `Out(stream.Signature(FoundSector(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineHead(config))),
                "o": Out(stream.Signature(FoundSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes = lanes_of(config)
        m.submodules.found = found = PipelineRegister(FoundSector(config))
        wiring.connect(m, found.o, wiring.flipped(self.o))
        line, out = self.i.payload, found.i.payload
        header = Header(line.layout.header)

        position = Signal(range(config.sectors))
        before = Signal(range(MAP_BITS))
        x_fire = Signal()
        m.d.comb += [
            found.i.valid.eq(self.i.valid),
            x_fire.eq(found.i.valid & found.i.ready),
            self.i.ready.eq(x_fire & out.ends),
            out.layout.eq(line.layout),
            out.present.eq(line.present.word_select(position, lanes)),
            out.begins.eq(position == 0),
            out.ends.eq(line.layout.empty | (position == config.sectors - 1)),
            out.place.eq(
                Mux(
                    header.raw,
                    position * (ELEMENT_BITS * lanes),
                    Mux(header.mapped, MAP_BITS, 0) + before * header.width,
                )
            ),
        ]
        with m.If(x_fire):
            m.d.sync += [
                position.eq(Mux(out.ends, 0, position + 1)),
                before.eq(Mux(out.ends, 0, before + count_ones(out.present))),
            ]
        return m
