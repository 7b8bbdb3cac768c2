"""Lines wait here until all of them was looked at: a wrong one gives no data."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.codec.payloads import ExpandedSector
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import registered


class LineVerdict(data.StructLayout):
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


class HeldSector(data.StructLayout):
    """A sector's data, and whether it is its line's first and last one."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"elements": 8 * config.sector_bytes, "begins": 1, "ends": 1})


class LineRelease(wiring.Component):
    """Holds a line's sectors until its verdict has come, and lets them go if nothing is wrong.

        sectors   0 1 2 3 | 0 1 2 3
        wrong?    . . . . | . x . .
        out               0 1 2 3 | status

    Latency: `depth` cycles, or a line's verdict. Throughput: a sector per cycle.

    Resources: `depth` sectors of registers.

    Parameters
    ----------
    config : CodecConfig
    depth : int
        Sectors that can be held. With fewer than come in before their line's verdict, nothing
        moves.

    Members
    -------
    i : `In(stream.Signature(HeldSector(config)))`
    verdict : `In(stream.Signature(LineVerdict(config)))`
        For each line.
    o : `Out(stream.Signature(ExpandedSector(config)))`
        All sectors of each line; of one that is wrong, a sector with its status. `last` is that of
        the line.
    """

    def __init__(self, config: CodecConfig, depth: int) -> None:
        self.config = config
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(HeldSector(config))),
                "verdict": In(stream.Signature(LineVerdict(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        held = registered(m, wiring.flipped(self.i), self.depth, name="held")

        # Of a line that is wrong, the first sector's place has the status.
        line, out = self.verdict.payload, self.o.payload
        failed = Signal()
        shows = Signal()
        m.d.comb += [
            failed.eq(line.status != StreamStatus.OK),
            shows.eq(~failed | held.payload.begins),
            self.o.valid.eq(held.valid & self.verdict.valid & shows),
            held.ready.eq(self.verdict.valid & (self.o.ready | ~shows)),
            self.verdict.ready.eq(held.valid & held.ready & held.payload.ends),
            out.elements.as_value().eq(Mux(failed, 0, held.payload.elements)),
            out.present.eq(0),
            out.sol.eq(held.payload.begins),
            out.last.eq(line.last & (failed | held.payload.ends)),
            out.empty.eq(line.empty),
            out.status.eq(line.status),
            out.offset.eq(Mux(failed, 0, line.size)),
        ]
        return m
