"""Compressed lines of any length, packed into whole beats; `unpack` finds them again.

Lines follow one another in the stream without padding, so that a line may begin anywhere in a beat.
A head always fills whole elements (`CodecConfig.head_elements`): everything moves in elements.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Truncation
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.lanes import lanes_from
from cdma.hw.lib.places import turned_up

LENGTH_BITS = 32
"""Bits of a transfer's uncompressed length in bytes (DESIGN: descriptors)."""

OFFSET_BITS = 40
"""Bits of a position in a stream: the longest transfer's stream is longer than 2**32 bytes."""


class Chunk(data.StructLayout):
    """Elements to be packed: at most a mask and a sector's width of payload, or several of them.

    Parameters
    ----------
    config : CodecConfig
    beats
        Line beats, each with a mask, that fit.

    Members
    -------
    elements
        Zero from `count` on.
    count
        How many there are.
    last
        The last ones of the packet.
    """

    def __init__(self, config: CodecConfig, beats: int = 1) -> None:
        capacity = beats * (config.lanes + config.head_elements)
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(8 * config.element_bytes), capacity),
                "count": range(capacity + 1),
                "last": 1,
            }
        )


class ElementPacker(wiring.Component):
    """Packs elements into dense beats: only the last one of a packet may be partial.

    What comes in is moved to the place where the packed elements end, and joins them; a beat leaves
    whenever one is full.

    Latency: 1 cycle. Throughput: a chunk per cycle while the output is taken, and what has come in
    is at no time more than a mask ahead of what could leave; with chunks of two beats, not more
    than a beat, so that a small chunk behind a large one does not leave the output idle.

    Resources: two beats and a mask of registers, a turning network for each beat of a chunk and for
    its mask; with chunks of two beats four beats and two masks less an element.

    Parameters
    ----------
    config : CodecConfig
    chunk_beats
        Line beats that a chunk may hold: 1 or 2.

    Members
    -------
    i : `In(stream.Signature(Chunk(config, chunk_beats)))`
    o : `Out(stream.Signature(Beat(config.sector_bytes)))`
        Bytes beyond `size` are zero. A packet without elements gives one beat of no bytes.
    """

    def __init__(self, config: CodecConfig, *, chunk_beats: int = 1) -> None:
        self.config = config
        self.chunk_beats = chunk_beats
        super().__init__(
            {
                "i": In(stream.Signature(Chunk(config, chunk_beats))),
                "o": Out(stream.Signature(Beat(config.sector_bytes))),
            }
        )

    # One cycle, with four lanes and a head of one element: h and the payload a b c come in.
    #
    #     packed   p0 p1 p2 p3 | p4 p5          fill = 6: the first four are a beat, and leave
    #     stays    p4 p5  .  . |                rest = 2
    #     turned    b  c  h  a                  the chunk, by offset = 2 lanes, round the end
    #     packed   p4 p5  h  a |  b  c          in the next cycle; fill = 6

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes, mask_elements = config.lanes, config.head_elements
        lane_bits = (lanes - 1).bit_length()
        element_bits = 8 * config.element_bytes
        chunk = self.i.payload
        # A mask makes a line's first beat longer than what can leave in a cycle. That much may stay
        # behind, beside what fills no beat, so that a line which takes no more room than it took
        # uncompressed never has to wait. Behind a chunk of two beats, a beat may: the chunks are
        # wide enough in the mean only.
        backlog = 2 * lanes - 1 if self.chunk_beats > 1 else lanes + mask_elements - 1
        chunk_elements = self.chunk_beats * (lanes + mask_elements)
        capacity = backlog + chunk_elements

        # Elements join what is there, so a reset must clear what it leaves of a packet.
        packed = [Signal(element_bits, name=f"packed_{j}") for j in range(capacity)]
        fill = Signal(range(capacity + 1))
        ending = Signal()

        full = Signal()
        final = Signal()
        sent = Signal()
        m.d.comb += [
            full.eq(fill >= lanes),
            final.eq(ending & (fill <= lanes)),
            self.o.valid.eq(full | ending),
            self.o.payload.data.eq(Cat(packed[:lanes])),
            self.o.payload.size.eq(Mux(full, lanes, fill) * config.element_bytes),
            self.o.payload.last.eq(final),
            sent.eq(self.o.valid & self.o.ready),
        ]

        # What stays when a beat leaves; nothing does after the last one.
        rest = Signal(range(capacity + 1))
        m.d.comb += rest.eq(Mux(sent, Mux(full, fill - lanes, 0), fill))
        # Only its top bit depends on whether a beat leaves.
        offset = Signal(lane_bits + 1)
        m.d.comb += [
            offset.eq(Cat(Mux(ending, 0, fill[:lane_bits]), rest[lane_bits])),
            # An end without elements must not turn the full beat that is offered into a last one.
            self.i.ready.eq(
                Mux(
                    ending,
                    sent & final,
                    (rest <= backlog) & ~((chunk.count == 0) & (rest == lanes)),
                )
            ),
        ]

        # Each group of lanes is turned to where the packed elements end, which no beat that leaves
        # changes. From that lane on it lands in one group of the packed ones, below in the next.
        # Signals, as an expression would be in the netlist again for each bit that it lets through.
        i_fire = Signal()
        upper = Signal(lanes)
        lands = [Signal(lanes, name=f"lands_{place}") for place in range(3)]
        # Whether a group is between what is packed and this one.
        ahead = offset[lane_bits].replicate(lanes)
        m.d.comb += [
            i_fire.eq(self.i.valid & self.i.ready),
            upper.eq(lanes_from(offset[:lane_bits], lanes)),
            lands[0].eq(~ahead & upper & i_fire.replicate(lanes)),
            lands[1].eq((ahead ^ ~upper) & i_fire.replicate(lanes)),
            lands[2].eq(ahead & ~upper & i_fire.replicate(lanes)),
        ]
        landing: list[list[Value]] = [[] for _ in packed]
        for first in range(0, chunk_elements, lanes):
            group = [chunk.elements[k] for k in range(first, min(first + lanes, chunk_elements))]
            turned = self._turned(m, group, offset[:lane_bits], name=f"turned_{first}")
            for j, lands_here in enumerate(landing):
                place, lane = divmod(j - first, lanes)
                if place in range(len(lands)):
                    lands_here.append(turned[lane] & lands[place][lane].replicate(element_bits))
        for j, word in enumerate(packed):
            stays = packed[j + lanes] if j + lanes < capacity else 0
            m.d.sync += word.eq(reduce(or_, landing[j], Mux(sent, stays, word)))
        with m.If(i_fire):
            m.d.sync += [fill.eq(rest + chunk.count), ending.eq(chunk.last)]
        with m.Else():
            m.d.sync += fill.eq(rest)
            with m.If(sent & final):
                m.d.sync += ending.eq(0)
        return m

    def _turned(
        self, m: Module, group: Sequence[Value], offset: Value, *, name: str
    ) -> list[Value]:
        """Turn up to `lanes` elements, the first to the offset's lane; other lanes are zero."""
        lanes = self.config.lanes
        if len(group) == 1:
            return [group[0] & (offset == i).replicate(len(group[0])) for i in range(lanes)]
        ring = [*group, *(C(0, len(group[0])) for _ in range(lanes - len(group)))]
        return turned_up(m, ring, offset, name=name)


def head_and_elements(
    m: Module,
    config: CodecConfig,
    beat: data.View,
    heads: Sequence[tuple[int, Value]],
    *,
    name: str,
) -> list[Value]:
    """The elements that a line beat puts into the stream: its head's, then its payload's.

    Parameters
    ----------
    heads
        Sizes of heads in elements, each with whether the beat begins with such a one.
    """
    element_bits = 8 * config.element_bytes
    head = [beat.mask.word_select(j, element_bits) for j in range(config.head_elements)]
    elements = [*(beat.elements[i] for i in range(config.lanes)), *(C(0) for _ in head)]
    stream_elements: list[Value] = []
    for j in range(config.lanes + config.head_elements):
        chosen: Value = elements[j]
        for size, begins in heads:
            chosen = Mux(begins, head[j] if j < size else elements[j - size], chosen)
        element = Signal(element_bits, name=f"{name}_{j}")
        m.d.comb += element.eq(chosen)
        stream_elements.append(element)
    return stream_elements


class Packer(wiring.Component):
    """Packs lines into dense beats: only the last one of a transfer may be partial.

    Latency: `beat_latency` = 1 cycle from the line beat that fills a beat. Throughput: a line beat
    per cycle while the output is taken, for lines that take no more room than uncompressed ones;
    denser ones are limited by the output, as n beats and a mask come out of n beats.

    Resources: an `ElementPacker`.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    beat_latency : int

    Members
    -------
    i : `In(stream.Signature(LineBeat(config)))`
        Undamaged lines.
    o : `Out(stream.Signature(Beat(config.sector_bytes)))`
        Bytes beyond `size` are zero. A transfer without a line gives one beat of no bytes.
    """

    beat_latency = 1

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(Beat(config.sector_bytes))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.elements = elements = ElementPacker(config)
        wiring.connect(m, elements.o, wiring.flipped(self.o))

        beat = self.i.payload
        chunk = elements.i.payload
        size = line_codec(config.codecs[0]).head_bytes(config) // config.element_bytes
        masked = Signal()
        m.d.comb += [
            masked.eq(beat.sol & ~beat.empty),
            elements.i.valid.eq(self.i.valid),
            self.i.ready.eq(elements.i.ready),
            chunk.elements.as_value().eq(
                Cat(head_and_elements(m, config, beat, [(size, masked)], name="chunk"))
            ),
            chunk.count.eq(beat.count + Mux(masked, size, 0)),
            chunk.last.eq(beat.last),
        ]
        with m.If(self.i.valid):
            m.d.sync += Assert(beat.truncation == Truncation.NONE)
        return m
