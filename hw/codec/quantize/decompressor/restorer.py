"""Numbers from differences, and values from numbers."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.quantize.arithmetic import restored, scale_of
from cdma.hw.codec.quantize.decompressor.symbol_reader import (
    STEP_BITS,
    SectorTag,
    SteppedSector,
)
from cdma.hw.codec.quantize.forms import Header
from cdma.hw.codec.quantize.payloads import ELEMENT_BITS, NUMBER_BITS, NumberedSector, lanes_of
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import PipelineRegister


class RestoredSector(data.StructLayout):
    """A sector's values.

    Members
    -------
    tag
    words
    infinite
        A number stands for a value that fp32 does not hold.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "tag": SectorTag(config),
                "words": data.ArrayLayout(unsigned(ELEMENT_BITS), lanes_of(config)),
                "infinite": 1,
            }
        )


class _SummedSector(data.StructLayout):
    """A sector's numbers, or its words; `raw`, if one of them has no number."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "tag": SectorTag(config),
                "lanes": data.ArrayLayout(unsigned(ELEMENT_BITS), lanes_of(config)),
                "raw": 1,
            }
        )


class Restorer(wiring.Component):
    """Restores a sector per cycle.

        steps --> sums in the sector --> + the number before --+--> size, exponent --> words
                                         ^___________________| +--> numbers, for the form

    Three stages. A raw line's words pass, and whether one of them has to be kept is seen.

    Latency: 2 cycles to numbers, 3 cycles to words. Throughput: a sector per cycle.

    Resources: three sectors of registers; for each lane log2 + 1 adders, and a shifter.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(SteppedSector(config)))`
    numbered : `Out(stream.Signature(NumberedSector(config)))`
        What the values quantize to.
    o : `Out(stream.Signature(RestoredSector(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(SteppedSector(config))),
                "numbered": Out(stream.Signature(NumberedSector(config))),
                "o": Out(stream.Signature(RestoredSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.sums = sums = PipelineRegister(SteppedSector(config))
        m.submodules.summed = summed = PipelineRegister(_SummedSector(config))
        m.submodules.fork = fork = Fork(_SummedSector(config), 2)
        m.submodules.words = words = PipelineRegister(RestoredSector(config))
        wiring.connect(m, summed.o, fork.i)
        wiring.connect(m, words.o, wiring.flipped(self.o))
        self._sum(m, sums.i)
        self._go_on(m, sums.o, summed.i)
        self._number(m, fork.o[0])
        self._restore(m, fork.o[1], words.i)
        return m

    def _sum(self, m: Module, sums) -> None:
        """Stage 1: each lane's sum of the steps up to it, if steps are differences."""
        sector, out = self.i.payload, sums.payload
        header = Header(sector.tag.layout.header)
        lanes = lanes_of(self.config)
        so_far: list[Value] = [sector.lanes[i][:STEP_BITS] for i in range(lanes)]
        span = 1
        while span < lanes:
            # The upper half of each block of 2 * span adds the lower half's sum.
            wider = list(so_far)
            for i in range(lanes):
                if i & span:
                    below = (i & ~(2 * span - 1)) + span - 1
                    both = Signal(STEP_BITS, name=f"sum_{2 * span}_{i}")
                    m.d.comb += both.eq(so_far[i] + so_far[below])
                    wider[i] = both
            so_far = wider
            span *= 2
        m.d.comb += [
            sums.valid.eq(self.i.valid),
            self.i.ready.eq(sums.ready),
            out.tag.eq(sector.tag),
            *(
                out.lanes[i].eq(Mux(header.lorenzo, value, sector.lanes[i]))
                for i, value in enumerate(so_far)
            ),
        ]

    def _go_on(self, m: Module, sums, summed) -> None:
        """Stage 2: the line's numbers, and whether one is beyond them or a value is raw.

        Up to the first number that is beyond, sums fit their bits.
        """
        sector, out = sums.payload, summed.payload
        layout = sector.tag.layout
        header = Header(layout.header)
        lanes = lanes_of(self.config)
        before = Signal(STEP_BITS)
        kept = Signal(lanes)
        for i in range(lanes):
            number = Signal(signed(STEP_BITS), name=f"number_{i}")
            sign = number[-1]
            high = number[NUMBER_BITS - 1 :]
            scale = scale_of(m, sector.lanes[i], layout.k, name=f"lane_{i}")
            m.d.comb += [
                number.eq(sector.lanes[i][:STEP_BITS] + before),
                kept[i].eq(
                    Mux(
                        header.raw,
                        scale.raw,
                        (high != sign.replicate(len(high)))
                        | (sign & (number[: NUMBER_BITS - 1] == 0)),
                    )
                ),
                out.lanes[i].eq(Mux(header.raw, sector.lanes[i], number)),
            ]
        m.d.comb += [
            summed.valid.eq(sums.valid),
            sums.ready.eq(summed.ready),
            out.tag.eq(sector.tag),
            out.raw.eq(kept.any() & ~layout.empty),
        ]
        with m.If(sums.valid & sums.ready):
            m.d.sync += before.eq(
                Mux(header.lorenzo & ~sector.tag.ends, out.lanes[lanes - 1][:STEP_BITS], 0)
            )

    def _number(self, m: Module, copy) -> None:
        sector, out = copy.payload, self.numbered.payload
        m.d.comb += [
            self.numbered.valid.eq(copy.valid),
            copy.ready.eq(self.numbered.ready),
            *(
                out.numbers[i].eq(sector.lanes[i][:NUMBER_BITS].as_signed())
                for i in range(lanes_of(self.config))
            ),
            out.raw.eq(sector.raw),
            out.ends.eq(sector.tag.ends),
            out.last.eq(sector.tag.last),
            out.empty.eq(sector.tag.layout.empty),
        ]

    def _restore(self, m: Module, copy, words) -> None:
        """Stage 3: the values."""
        sector, out = copy.payload, words.payload
        layout = sector.tag.layout
        header = Header(layout.header)
        infinite = []
        for i in range(lanes_of(self.config)):
            number = sector.lanes[i][:NUMBER_BITS].as_signed()
            word, beyond = restored(m, number, layout.k, name=f"lane_{i}")
            infinite.append(beyond)
            m.d.comb += out.words[i].eq(Mux(header.raw, sector.lanes[i], word))
        m.d.comb += [
            words.valid.eq(copy.valid),
            copy.ready.eq(words.ready),
            out.tag.eq(sector.tag),
            out.infinite.eq(~header.raw & Cat(infinite).any()),
        ]
