"""Lines wait here until all of them was looked at: a wrong one gives no data."""

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.codec.payloads import ExpandedSector
from cdma.hw.codec.xc.decompressor.escape_reader import DecodedSector, status_of
from cdma.hw.codec.xc.payloads import ELEMENTS, HEADER_BYTES, LineShape
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import PipelineRegister


class _Judged(data.StructLayout):
    """Check of a line; `size` is the number of bytes that it takes in the stream."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "status": StreamStatus,
                "size": range(config.worst_line_bytes + 1),
                "last": 1,
                "empty": 1,
            }
        )


class _HeldSector(data.StructLayout):
    def __init__(self, config: CodecConfig) -> None:
        lanes = LineShape.of(config).lanes
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(ELEMENTS.bits), lanes),
                "begins": 1,
                "ends": 1,
            }
        )


class LineRelease(wiring.Component):
    """Holds a line's sectors until its last one has come, and lets them go if nothing is wrong.

        sectors   0 1 2 3 | 0 1 2 3
        wrong?    . . . . | . x . .
        out               0 1 2 3 | status

    Latency: a line's first sector is valid 1 cycle after its last one has come. Throughput: a
    sector per cycle.

    Resources: a line of registers.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    raw_is_right : `In(stream.Signature(1))`
        For each line that is kept as it is: whether it had to be.
    i : `In(stream.Signature(DecodedSector(config)))`
    o : `Out(stream.Signature(ExpandedSector(config)))`
        All sectors of each line; of one that is wrong, a sector with its status. `last` is that of
        the line.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "raw_is_right": In(stream.Signature(1)),
                "i": In(stream.Signature(DecodedSector(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.judged = judged = PipelineRegister(_Judged(config))
        chain: list[PipelineRegister] = []
        for s in range(config.sectors):
            m.submodules[f"held_{s}"] = register = PipelineRegister(_HeldSector(config))
            if chain:
                wiring.connect(m, chain[-1].o, register.i)
            chain.append(register)
        held_in, held = chain[0].i, chain[-1].o

        # In: what is wrong is gathered up to the line's end.
        sector, layout = self.i.payload, self.i.payload.layout
        so_far = Signal()
        wrong = Signal()
        goes_on = Signal()
        x_fire = Signal()
        waits_for_raw: Value = sector.ends & layout.raw
        m.d.comb += [
            wrong.eq(
                so_far
                | sector.wrong.any()
                | sector.miscounted
                | sector.misfilled
                | (layout.misfilled & sector.ends)
                | (waits_for_raw & ~self.raw_is_right.payload)
            ),
            goes_on.eq(
                (~sector.ends | judged.i.ready) & (~waits_for_raw | self.raw_is_right.valid)
            ),
            held_in.valid.eq(self.i.valid & goes_on),
            x_fire.eq(held_in.valid & held_in.ready),
            self.i.ready.eq(x_fire),
            self.raw_is_right.ready.eq(x_fire & waits_for_raw),
            judged.i.valid.eq(x_fire & sector.ends),
            judged.i.payload.status.eq(status_of(layout.status, sector.truncated, wrong)),
            judged.i.payload.size.eq(Mux(layout.empty, 0, layout.size + HEADER_BYTES)),
            judged.i.payload.last.eq(sector.last),
            judged.i.payload.empty.eq(layout.empty),
            held_in.payload.elements.eq(sector.elements),
            held_in.payload.begins.eq(sector.begins),
            held_in.payload.ends.eq(sector.ends),
        ]
        with m.If(x_fire):
            m.d.sync += so_far.eq(wrong & ~sector.ends)

        # Out: of a line that is wrong, the first sector's place has the status.
        line, out = judged.o.payload, self.o.payload
        failed = Signal()
        shows = Signal()
        words = held.payload.elements.as_value()
        m.d.comb += [
            failed.eq(line.status != StreamStatus.OK),
            shows.eq(~failed | held.payload.begins),
            self.o.valid.eq(held.valid & judged.o.valid & shows),
            held.ready.eq(judged.o.valid & (self.o.ready | ~shows)),
            judged.o.ready.eq(held.valid & held.ready & held.payload.ends),
            out.elements.as_value().eq(Mux(failed, 0, words)),
            out.present.eq(0),
            out.sol.eq(held.payload.begins),
            out.last.eq(line.last & (failed | held.payload.ends)),
            out.empty.eq(line.empty),
            out.status.eq(line.status),
            out.offset.eq(Mux(failed, 0, line.size)),
        ]
        return m
