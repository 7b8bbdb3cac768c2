"""Decoding of BPC codes into bases and planes, four planes per cycle."""

from itertools import pairwise

from amaranth.hdl import Assert, C, Cat, Module, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.bpc.code_readers import BASE_CODE_BITS, BaseCodeReader
from cdma.hw.codec.bpc.last_step import DecodedPlanes, LastStep
from cdma.hw.codec.bpc.plane_steps import PlaneSteps
from cdma.hw.codec.bpc.step_reader import STEPS
from cdma.hw.codec.entry.payloads import CODE_BYTES
from cdma.hw.config import EntryConfig


class SizedCode(data.StructLayout):
    """A code and what there is of it, as much of it as is ever kept.

    Members
    -------
    data
        Bytes, the first in the low bits; the first bit of the code is bit 7 of its byte.
    size
        How many bytes there are. What is behind them is not looked at.
    """

    def __init__(self) -> None:
        super().__init__({"data": 8 * CODE_BYTES, "size": range(CODE_BYTES + 1)})


class BpcPlaneDecoder(wiring.Component):
    """Decodes a code per `sectors` cycles, whole or damaged, as `cdma.golden.formats.bpc.decoder`.

    The codes of `STEP_CODES` planes are found in a cycle, and the planes are built in the next; the
    base is read with the first ones, and the last plane is found and built at once. Steps but the
    last stand in a row, and where there are more cycles per entry, as many of them share one
    hardware.

    Latency: `STEPS` = 9 cycles. Throughput: an entry per `sectors` cycles.

    Resources: for sectors of 128, 64 and 32 B, readers and builders for 8, 4 and 2 steps, and
    registers for 9, 5 and 3 entries.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    i : `In(stream.Signature(SizedCode()))`
    o : `Out(stream.Signature(DecodedPlanes()))`
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(SizedCode())),
                "o": Out(stream.Signature(DecodedPlanes())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sectors = self.config.sectors
        code = self.i.payload
        limit = code.size << 3

        # The first byte, and of each byte the first bit, are now the highest. The planes' codes are
        # behind the base's, at one of five places.
        bits = Cat(code.data.word_select(k, 8) for k in reversed(range(CODE_BYTES)))
        m.submodules.base_code = base_code = BaseCodeReader()
        m.d.comb += base_code.code.eq(bits[len(bits) - BASE_CODE_BITS :])

        stages: list[PlaneSteps | LastStep] = []
        for group, first in enumerate(range(0, STEPS - 1, sectors)):
            m.submodules[f"steps_{group}"] = steps = PlaneSteps(first, first + sectors)
            stages.append(steps)
        m.submodules.last = last = LastStep()
        stages.append(last)
        wiring.connect(m, last.o, wiring.flipped(self.o))

        entering = stages[0].i.payload
        m.d.comb += [
            stages[0].i.valid.eq(self.i.valid),
            self.i.ready.eq(stages[0].i.ready),
            entering.rest.eq(bits),
            entering.position.eq(base_code.length),
            entering.not_high.eq(1),
            entering.place_again.eq(base_code.length),
            entering.not_high_again.eq(1),
            entering.size.eq(code.size),
            entering.failed.eq(base_code.bad | entering.truncated),
            entering.truncated.eq(base_code.length > limit),
            entering.base.eq(base_code.base),
        ]

        # All stages are told at once that the last one's output is taken; from each to the one in
        # front of it, it would go through all of them. A stage takes what comes if it is empty, or
        # full and the one behind it takes that: of those behind, the registers tell if one is
        # empty that only full ones are in front of, or if all are full.
        takes: Value = C(0)
        all_full: Value = C(1)
        for stage, behind in reversed(list(pairwise(stages))):
            takes = behind.empty | behind.o.valid & takes
            all_full = behind.o.valid & all_full
            m.d.comb += [
                stage.o.ready.eq(takes | all_full & self.o.ready),
                behind.i.valid.eq(stage.o.valid),
                behind.i.payload.eq(stage.o.payload),
            ]
            m.d.sync += Assert(stage.o.ready == behind.i.ready)
        return m
