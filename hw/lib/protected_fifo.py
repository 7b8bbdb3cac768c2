"""A stream's queue in a memory whose bits may flip."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.codes.ecc import EccDecoder, EccEncoder, codeword_bits
from cdma.hw.lib.count import count_ones
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister

WORD_BITS = 64
"""The most bits of the payload that share check bits: (72, 64) is the usual code."""

COPIES = 5
"""Of a framing bit, so that two flips leave the most of them right."""


class ProtectedFifo(wiring.Component):
    """A `Fifo` that corrects flipped bits.

    Payloads are cut into words of at most 64 bits, each with check bits. One flip in a word is
    corrected. Of a payload with two in a word all bits are given as zeros, but for the fields that
    are called framing: of those the memory has five copies of each bit, of which the most are
    right. So whatever two flips do to a payload, a packet ends where it did.

    Latency: 3 cycles. Throughput: a transfer per cycle.

    Resources: 8 bits of memory for each 64, four more for each framing bit, and a payload register.

    Parameters
    ----------
    shape
        Shape of the payload.
    depth
        The number of payloads that the memory holds; two more are held behind it.
    framing
        Names of fields, which are a bit each.

    Attributes
    ----------
    stored : data.StructLayout
        A payload in memory.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`
    corrected : `Out(1)`
        In the cycle before, a payload came from memory in which all that had flipped was corrected.
    uncorrectable : `Out(1)`
        In the cycle before, one came that is given as zeros.
    """

    def __init__(self, shape: ShapeLike, depth: int, framing: Sequence[str] = ()) -> None:
        self._shape = shape
        self._framing = tuple(framing)
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "corrected": Out(1),
                "uncorrectable": Out(1),
            }
        )
        words, framing_bits = self._cut(self.i.payload)
        self.stored = data.StructLayout(
            {
                "words": data.StructLayout(
                    {str(k): codeword_bits(len(word)) for k, word in enumerate(words)}
                ),
                "copies": data.ArrayLayout(COPIES, len(framing_bits)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        words, framing = self._cut(self.i.payload)
        m.submodules.queue = queue = Fifo(self.stored, self.depth)
        m.submodules.stage = stage = PipelineRegister(self._shape)
        wiring.connect(m, stage.o, wiring.flipped(self.o))
        stored, found = queue.i.payload, queue.o.payload
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            self.i.ready.eq(queue.i.ready),
            stage.i.valid.eq(queue.o.valid),
            queue.o.ready.eq(stage.i.ready),
        ]
        corrected = Signal(len(words) + len(framing))
        uncorrectable = Signal(len(words))
        bad = Signal()
        m.d.comb += bad.eq(uncorrectable.any())
        given, given_framing = self._cut(stage.i.payload)
        for k, word in enumerate(words):
            m.submodules[f"encoder_{k}"] = encoder = EccEncoder(len(word))
            m.submodules[f"decoder_{k}"] = decoder = EccDecoder(len(word))
            m.d.comb += [
                encoder.i.eq(word),
                stored.words[str(k)].eq(encoder.o),
                decoder.i.eq(found.words[str(k)]),
                given[k].eq(Mux(bad, 0, decoder.o)),
                corrected[k].eq(decoder.corrected),
                uncorrectable[k].eq(decoder.uncorrectable),
            ]
        for k, bit in enumerate(framing):
            copies = found.copies[k]
            m.d.comb += [
                stored.copies[k].eq(bit.replicate(COPIES)),
                given_framing[k].eq(count_ones(copies) > COPIES // 2),
                corrected[len(words) + k].eq(copies.any() & ~copies.all()),
            ]
        fire = Signal()
        m.d.comb += fire.eq(stage.i.valid & stage.i.ready)
        m.d.sync += [
            self.corrected.eq(fire & corrected.any() & ~bad),
            self.uncorrectable.eq(fire & bad),
        ]
        return m

    def _cut(self, payload: Value | data.View) -> tuple[list[Value], list[Value]]:
        """Cut a payload into words, and take the framing bits aside."""
        fields = [payload[name] for name in self._framing]
        others = Value.cast(payload)
        if self._framing:
            assert isinstance(payload, data.View)
            layout = payload.shape()
            assert isinstance(layout, data.StructLayout)
            assert all(Shape.cast(layout[name].shape).width == 1 for name in self._framing)
            others = Cat(
                Value.cast(payload[str(name)])
                for name, _field in layout
                if name not in self._framing
            )
        count = -(-len(others) // WORD_BITS)
        size = -(-len(others) // count)
        return [others[k * size : (k + 1) * size] for k in range(count)], fields
