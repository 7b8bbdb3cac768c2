"""Two lines, or beats of them, side by side in one chunk of the stream."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat
from cdma.hw.codec.selection import head_sizes
from cdma.hw.codec.stream.pack import head_and_elements
from cdma.hw.config import CodecConfig


class LineMerger(wiring.Component):
    """Puts a line beat into a chunk and, on request, the first beat of another line behind it.

    The second line is shifted by the elements of the first one, in log2(beat elements) stages,
    and ORed into the chunk.

    Latency: 0 cycles. Resources: a barrel shifter of a chunk of elements.

    Parameters
    ----------
    config : CodecConfig
    chunk_beats
        Line beats, each with a head, that fit the chunk: 1 or 2.

    Members
    -------
    first, second : `In(LineBeat(config))`
        The line beat, and the first one of the line behind it.
    codec : `In(range(len(config.codecs)))`
        Index of the lines' codec.
    has_head : `Out(1)`
        The lines' codec has a head, which the first beat of a line begins with.
    merge : `In(1)`
        Put the second beat behind the first one; both together have `count_merged` elements, which
        must not be more than a chunk has.
    elements : `Out(data.ArrayLayout(...))`
        The chunk's elements, zero behind the last one that counts.
    count_alone, count_merged : `Out(...)`
        Elements of the first line beat alone, and of both.
    most_merged : `Out(...)`
        Elements that two whole lines may have, beside their heads, if they are to be merged. With
        heads of several sizes, a chunk may be longer than a beat and its own head.
    """

    def __init__(self, config: CodecConfig, *, chunk_beats: int = 1) -> None:
        self.config = config
        self.beat_elements = config.lanes + config.head_elements
        self.chunk_elements = chunk_beats * self.beat_elements
        super().__init__(
            {
                "first": In(LineBeat(config)),
                "second": In(LineBeat(config)),
                "codec": In(range(len(config.codecs))),
                "has_head": Out(1),
                "merge": In(1),
                "elements": Out(data.ArrayLayout(8 * config.element_bytes, self.chunk_elements)),
                "count_alone": Out(range(self.beat_elements + 1)),
                "count_merged": Out(range(2 * self.beat_elements + 1)),
                "most_merged": Out(range(self.chunk_elements + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        heads = head_sizes(self.codec, config)
        head_elements: Value = C(0)
        for size, selected in heads:
            head_elements = Mux(selected, size, head_elements) if len(heads) > 1 else C(size)
        begins_with_head = self.first.sol & self.has_head
        m.d.comb += [
            self.has_head.eq(Cat(selected for _, selected in heads).any()),
            self.count_alone.eq(self.first.count + Mux(begins_with_head, head_elements, 0)),
            self.most_merged.eq(self.chunk_elements - (head_elements << 1)),
            self.count_merged.eq(self.count_alone + self.second.count + head_elements),
        ]
        first_heads = [(size, self.first.sol & selected) for size, selected in heads]
        first = head_and_elements(m, config, self.first, first_heads, name="first_element")
        # The second line has a head, or is not merged.
        second_heads = heads if len(heads) > 1 else [(size, C(1, 1)) for size, _ in heads]
        second = head_and_elements(m, config, self.second, second_heads, name="second_element")
        # In a chunk of one beat, nothing fits behind a full one.
        most = min(self.beat_elements, self.chunk_elements - 1)
        for k in range(most.bit_length()):
            distance = 1 << k
            shifted = [
                Signal(8 * config.element_bytes, name=f"second_by_{distance}_{j}")
                for j in range(min(len(second) + distance, self.chunk_elements))
            ]
            for j, element in enumerate(shifted):
                near = second[j] if j < len(second) else 0
                far = second[j - distance] if j >= distance else 0
                m.d.comb += element.eq(Mux(self.count_alone[k], far, near))
            second = list(shifted)
        first += [C(0)] * (len(second) - len(first))
        m.d.comb += self.elements.as_value().eq(
            Cat(own | Mux(self.merge, mate, 0) for own, mate in zip(first, second, strict=True))
        )
        return m
