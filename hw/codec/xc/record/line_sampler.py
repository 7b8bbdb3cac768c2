"""The sampling of a line: one of its elements, whose exponent may be counted."""

from functools import reduce
from operator import xor

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.recorded import BLOCK_BYTES
from cdma.hw.codec.payloads import Sector
from cdma.hw.codec.xc.classes import CENTRE_BITS
from cdma.hw.codec.xc.codec import chosen_elements
from cdma.hw.codec.xc.payloads import BF16, own_config
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import PipelineRegister


class LineSample(data.StructLayout):
    """The element of a line that stands for it.

    Members
    -------
    exponent
        Its exponent, of as many bits as a centre.
    present
        It is not zero.
    """

    def __init__(self) -> None:
        super().__init__({"exponent": CENTRE_BITS, "present": 1})


class LineSampler(wiring.Component):
    """Samples an element of each line, as `cdma.golden.formats.xc.recorded.line_samples` does.

    Each block of 32 B names one of its elements by a fold of its own bits: as good as a random one,
    but the same one each time, and not in step with channels. One that is not zero replaces that of
    the blocks before by a bit of the fold, or if those were zero.

    Latency: `sample_latency` = 1 cycle from a line's last sector. Throughput: a sector per cycle.

    Resources: for each block of a sector a fold of 128 bits and a multiplexer of exponents.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat

    Attributes
    ----------
    sample_latency : int
        Cycles from a line's last sector to its sample.

    Members
    -------
    i : `In(stream.Signature(Sector(config)))`
        Whole lines.
    o : `Out(stream.Signature(LineSample()))`
    """

    sample_latency = 1

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        self.config = config
        self.elements = elements
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineSample())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.samples = samples = PipelineRegister(LineSample())
        wiring.connect(m, samples.o, wiring.flipped(self.o))
        position = Signal(range(config.sectors))
        begins, ends = Signal(), Signal()
        kept = Signal(LineSample())
        bits = self.i.payload.elements.as_value()
        found: Value = Mux(begins, 0, kept.as_value())
        for block in range(config.sector_bytes // BLOCK_BYTES):
            found = self._joined(m, found, bits.word_select(block, 8 * BLOCK_BYTES), block)
        m.d.comb += [
            begins.eq(position == 0),
            ends.eq(position == config.sectors - 1),
            samples.i.valid.eq(self.i.valid & ends),
            samples.i.payload.as_value().eq(found),
            self.i.ready.eq(~ends | samples.i.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [position.eq(Mux(ends, 0, position + 1)), kept.as_value().eq(found)]
        return m

    def _joined(self, m: Module, before: Value, bits: Value, block: int) -> Signal:
        """The sample of a line with one block more."""
        form = self.elements
        words = [bits.word_select(i, form.bits) for i in range(8 * BLOCK_BYTES // form.bits)]
        number_bits = (len(words) - 1).bit_length()
        low = Cat(word[:8] for word in words)
        width = number_bits + 1
        fold = Signal(width, name=f"fold_{block}")
        named = Signal(LineSample(), name=f"named_{block}")
        joined = Signal(LineSample(), name=f"joined_{block}")
        m.d.comb += fold.eq(
            Cat(reduce(xor, [low[i] for i in range(k, len(low), width)]) for k in range(width))
        )
        unused = CENTRE_BITS - form.exponent_bits
        candidates = Array(
            Cat(word[form.mantissa_bits : form.bits - 1], C(0, unused), word.any())
            for word in words
        )
        former = data.View(LineSample(), before)
        m.d.comb += named.as_value().eq(candidates[fold[:number_bits]])
        chosen = named.present & (fold[number_bits] | ~former.present)
        m.d.comb += joined.as_value().eq(Mux(chosen, named.as_value(), before))
        return joined


def of_elements(config: CodecConfig) -> LineSampler:
    """The sampler alone, in an engine's widths and of its element format."""
    elements = chosen_elements(config)
    return LineSampler(own_config(config, elements), elements)
