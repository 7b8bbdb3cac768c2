"""Numbers from differences, and values from numbers."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.quantize.arithmetic import HalfNormal, half_normal, restored, scale_of
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

SUM_LEVELS = 2
"""Of the tree of a sector's sums, in a stage."""
RESTORING = 2
"""Stages from numbers to words."""


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

    Stages: two levels of a tree of sums in each; the number before; whether all of them can be; and
    values in two. A raw line's words pass, and whether one of them has to be kept is seen.

    Latency: `numbers_latency` cycles to numbers, `RESTORING` more to words. Throughput: a sector
    per cycle.

    Resources: as many sectors of registers as stages; for each lane log2 + 1 adders, and a shifter.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    numbers_latency : int
        4 cycles for sectors of 32 and 64 B, 5 for 128 B.

    Members
    -------
    i : `In(stream.Signature(SteppedSector(config)))`
    numbered : `Out(stream.Signature(NumberedSector(config)))`
        What the values quantize to.
    o : `Out(stream.Signature(RestoredSector(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        levels = (lanes_of(config) - 1).bit_length()
        self._sums = [range(k, min(k + SUM_LEVELS, levels)) for k in range(0, levels, SUM_LEVELS)]
        self.numbers_latency = len(self._sums) + 2
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
        m.submodules.moved = moved = PipelineRegister(SteppedSector(config))
        m.submodules.summed = summed = PipelineRegister(_SummedSector(config))
        m.submodules.fork = fork = Fork(_SummedSector(config), 2)
        m.submodules.halves = halves = PipelineRegister(SteppedSector(config))
        m.submodules.words = words = PipelineRegister(RestoredSector(config))
        wiring.connect(m, summed.o, fork.i)
        wiring.connect(m, words.o, wiring.flipped(self.o))
        source = wiring.flipped(self.i)
        for stage, levels in enumerate(self._sums):
            m.submodules[f"sums_{stage}"] = sums = PipelineRegister(SteppedSector(config))
            self._sum(m, levels, source, sums.i)
            source = sums.o
        self._move(m, source, moved.i)
        self._judge(m, moved.o, summed.i)
        self._number(m, fork.o[0])
        self._halve(m, fork.o[1], halves.i)
        self._restore(m, halves.o, words.i)
        return m

    def _sum(self, m: Module, levels: range, steps, sums) -> None:
        """Some levels of each lane's sum of the steps up to it, if steps are differences."""
        sector, out = steps.payload, sums.payload
        header = Header(sector.tag.layout.header)
        lanes = lanes_of(self.config)
        so_far: list[Value] = [sector.lanes[i][:STEP_BITS] for i in range(lanes)]
        for level in levels:
            span = 1 << level
            # The upper half of each block of 2 * span adds the lower half's sum.
            wider = list(so_far)
            for i in range(lanes):
                if i & span:
                    below = (i & ~(2 * span - 1)) + span - 1
                    both = Signal(STEP_BITS, name=f"sum_{2 * span}_{i}")
                    m.d.comb += both.eq(so_far[i] + so_far[below])
                    wider[i] = both
            so_far = wider
        m.d.comb += [
            sums.valid.eq(steps.valid),
            steps.ready.eq(sums.ready),
            out.tag.eq(sector.tag),
            *(
                out.lanes[i].eq(Mux(header.lorenzo, value, sector.lanes[i]))
                for i, value in enumerate(so_far)
            ),
        ]

    def _move(self, m: Module, sums, moved) -> None:
        """The line's numbers: each sector's go on from the last one of the sector before.

        Up to the first number that is beyond, sums fit their bits.
        """
        sector, out = sums.payload, moved.payload
        header = Header(sector.tag.layout.header)
        lanes = lanes_of(self.config)
        before = Signal(STEP_BITS)
        numbers = []
        for i in range(lanes):
            number = Signal(signed(STEP_BITS), name=f"number_{i}")
            m.d.comb += [
                number.eq(sector.lanes[i][:STEP_BITS] + before),
                out.lanes[i].eq(Mux(header.raw, sector.lanes[i], number)),
            ]
            numbers.append(number)
        m.d.comb += [
            moved.valid.eq(sums.valid),
            sums.ready.eq(moved.ready),
            out.tag.eq(sector.tag),
        ]
        with m.If(sums.valid & sums.ready):
            m.d.sync += before.eq(
                Mux(header.lorenzo & ~sector.tag.ends, numbers[-1].as_unsigned(), 0)
            )

    def _judge(self, m: Module, moved, summed) -> None:
        """See if a number is beyond those that there are, or a value must be kept."""
        sector, out = moved.payload, summed.payload
        layout = sector.tag.layout
        header = Header(layout.header)
        lanes = lanes_of(self.config)
        kept = Signal(lanes)
        for i in range(lanes):
            number = sector.lanes[i][:STEP_BITS]
            sign = number[-1]
            high = number[NUMBER_BITS - 1 :]
            scale = scale_of(m, sector.lanes[i], layout.k, name=f"lane_{i}")
            beyond = (high != sign.replicate(len(high))) | (sign & (number[: NUMBER_BITS - 1] == 0))
            m.d.comb += kept[i].eq(Mux(header.raw, scale.raw, beyond))
        m.d.comb += [
            summed.valid.eq(moved.valid),
            moved.ready.eq(summed.ready),
            out.tag.eq(sector.tag),
            out.lanes.eq(sector.lanes),
            out.raw.eq(kept.any() & ~layout.empty),
        ]

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

    def _halve(self, m: Module, copy, halves) -> None:
        """The numbers' sizes, half on their way to mantissas."""
        sector, out = copy.payload, halves.payload
        header = Header(sector.tag.layout.header)
        m.d.comb += [
            halves.valid.eq(copy.valid),
            copy.ready.eq(halves.ready),
            out.tag.eq(sector.tag),
        ]
        for i in range(lanes_of(self.config)):
            number = sector.lanes[i][:NUMBER_BITS].as_signed()
            half = half_normal(m, number, name=f"lane_{i}")
            m.d.comb += out.lanes[i].eq(Mux(header.raw, sector.lanes[i], half.as_value()))

    def _restore(self, m: Module, halves, words) -> None:
        """The values."""
        sector, out = halves.payload, words.payload
        layout = sector.tag.layout
        header = Header(layout.header)
        infinite = []
        for i in range(lanes_of(self.config)):
            half = data.View(HalfNormal(), sector.lanes[i][: HalfNormal().size])
            word, beyond = restored(m, half, layout.k, name=f"lane_{i}")
            infinite.append(beyond)
            m.d.comb += out.words[i].eq(Mux(header.raw, sector.lanes[i], word))
        m.d.comb += [
            words.valid.eq(halves.valid),
            halves.ready.eq(words.ready),
            out.tag.eq(sector.tag),
            out.infinite.eq(~header.raw & Cat(infinite).any()),
        ]
