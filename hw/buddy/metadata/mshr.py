"""Lines of metadata that have been fetched, until it is their turn."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.line import ROW_BITS, ROW_BYTES, LineShape
from cdma.hw.buddy.payloads import MetadataError
from cdma.hw.bus.burst import BusError, ReadBeat
from cdma.hw.config import MetadataCacheConfig


class FillBuffer(wiring.Component):
    """Takes fetched lines as they come, in the order of their requests, and keeps them.

    Room is reserved with each request, so that beats never wait.

    Latency: 1 cycle from a line's last beat to `complete`. Cost: a memory of `misses` lines.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    free : `Out(1)`
        There is room for another line.
    reserve : `In(1)`
        It is reserved. Only if it is free.
    beats : `In(stream.Signature(ReadBeat(32)))`
        Always ready.
    complete : `Out(1)`
        The oldest line is all there, or its fetch has failed.
    error : `Out(MetadataError)`
        Of the oldest line, once it is complete.
    row : `In(row_bits)`, read : `In(1)`
        A row of the oldest line is to be read.
    data : `Out(256)`
        It, one cycle later.
    released : `In(1)`
        The oldest line is not needed any more. Only if it is complete.
    idle : `Out(1)`
        No room is reserved.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        super().__init__(
            {
                "free": Out(1),
                "reserve": In(1),
                "beats": In(stream.Signature(ReadBeat(ROW_BYTES))),
                "complete": Out(1),
                "error": Out(MetadataError),
                "row": In(LineShape(config).row_bits),
                "read": In(1),
                "data": Out(ROW_BITS),
                "released": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = LineShape(self.config)
        lines = self.config.misses
        m.submodules.rows = rows = memory.Memory(
            shape=ROW_BITS, depth=max(2, lines << shape.row_bits), init=[]
        )
        write = rows.write_port()
        read = rows.read_port()

        reserved = Signal(range(lines + 1))
        complete = Signal(range(lines + 1))
        filled = Signal(range(lines))
        oldest = Signal(range(lines))
        row = Signal(shape.row_bits)
        last = Signal()
        ends = Signal()
        takes = Signal()
        failed = Signal(MetadataError)
        error = Signal(MetadataError)
        outcomes = [
            Signal(MetadataError, name=f"outcome_{k}", reset_less=True) for k in range(lines)
        ]
        m.d.comb += [
            self.free.eq(reserved != lines),
            self.idle.eq(reserved == 0),
            self.beats.ready.eq(1),
            takes.eq(self.beats.valid),
            last.eq(row.all() if shape.row_bits else 1),
            ends.eq(takes & last),
            write.addr.eq(Cat(row, filled)),
            write.data.eq(self.beats.payload.data),
            write.en.eq(takes),
            read.addr.eq(Cat(self.row, oldest)),
            read.en.eq(self.read),
            self.data.eq(read.data),
            self.complete.eq(complete != 0),
            error.eq(failed),
        ]
        # The first error of a line is the line's.
        with m.If(failed == MetadataError.NONE):
            with m.If(self.beats.payload.error == BusError.TIMEOUT):
                m.d.comb += error.eq(MetadataError.TIMEOUT)
            with m.Elif(self.beats.payload.error != BusError.NONE):
                m.d.comb += error.eq(MetadataError.READ)
        with m.Switch(oldest):
            for k, outcome in enumerate(outcomes):
                with m.Case(k):
                    m.d.comb += self.error.eq(outcome)
        with m.If(takes):
            m.d.sync += [row.eq(row + 1), failed.eq(error)]
            with m.If(last):
                m.d.sync += failed.eq(MetadataError.NONE)
        for k, outcome in enumerate(outcomes):
            with m.If(ends & (filled == k)):
                m.d.sync += outcome.eq(error)
        with m.If(ends):
            m.d.sync += filled.eq(Mux(filled == lines - 1, 0, filled + 1))
        with m.If(self.released):
            m.d.sync += oldest.eq(Mux(oldest == lines - 1, 0, oldest + 1))
        m.d.sync += [
            reserved.eq(reserved + self.reserve - self.released),
            complete.eq(complete + ends - self.released),
            Assert(~self.reserve | self.free),
            Assert(~self.released | self.complete),
            Assert(~takes | (reserved != complete)),
        ]
        return m
