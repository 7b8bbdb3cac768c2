"""Miss status holding registers: outstanding fetches, and lines until they are used."""

from amaranth.hdl import Assert, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.line import ROW_BITS, ROW_BYTES, LineShape
from cdma.hw.buddy.payloads import MetadataError
from cdma.hw.bus.burst import BusError, ReadBeat
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.count import following
from cdma.hw.lib.ram import Ram


class MshrFile(wiring.Component):
    """Allocates a register and a line's buffer space to each miss, and holds the fetched lines.

    Space is allocated with each request, so beats are always accepted. Lines are released
    in the order of their requests.

    Latency: 1 cycle from a line's last beat to `complete`. Cost: a memory of `misses` lines.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    free : `Out(1)`
        A register is free.
    allocate : `In(1)`
        A register is allocated to a miss. Only while `free`.
    beats : `In(stream.Signature(ReadBeat(32)))`
        Always ready.
    complete : `Out(1)`
        The oldest miss has its line, or its fetch has earlier_error.
    error : `Out(MetadataError)`
        Error of the oldest miss, once it is complete.
    row : `In(row_bits)`, read : `In(1)`
        Row `row` of the oldest line is read.
    data : `Out(256)`
        The row, one cycle later.
    deallocate : `In(1)`
        The oldest register is released. Only if it is complete.
    idle : `Out(1)`
        No miss is outstanding.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        super().__init__(
            {
                "free": Out(1),
                "allocate": In(1),
                "beats": In(stream.Signature(ReadBeat(ROW_BYTES))),
                "complete": Out(1),
                "error": Out(MetadataError),
                "row": In(LineShape(config).row_bits),
                "read": In(1),
                "data": Out(ROW_BITS),
                "deallocate": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = LineShape(self.config)
        lines = self.config.misses
        m.submodules.rows = rows = Ram(ROW_BITS, max(2, lines << shape.row_bits))

        allocated = Signal(range(lines + 1))
        complete = Signal(range(lines + 1))
        filled = Signal(range(lines))
        oldest = Signal(range(lines))
        row = Signal(shape.row_bits)
        last = Signal()
        line_done = Signal()
        beat_fire = Signal()
        earlier_error = Signal(MetadataError)
        error = Signal(MetadataError)
        outcomes = [
            Signal(MetadataError, name=f"outcome_{k}", reset_less=True) for k in range(lines)
        ]
        m.d.comb += [
            self.free.eq(allocated != lines),
            self.idle.eq(allocated == 0),
            self.beats.ready.eq(1),
            beat_fire.eq(self.beats.valid),
            last.eq(row.all() if shape.row_bits else 1),
            line_done.eq(beat_fire & last),
            rows.write_enable.eq(beat_fire),
            rows.write_address.eq(Cat(row, filled)),
            rows.write_data.eq(self.beats.payload.data),
            rows.read_enable.eq(self.read),
            rows.read_address.eq(Cat(self.row, oldest)),
            self.data.eq(rows.read_data),
            self.complete.eq(complete != 0),
            error.eq(earlier_error),
        ]
        # The first error of a line's beats is the line's.
        with m.If(earlier_error == MetadataError.NONE):
            with m.If(self.beats.payload.error == BusError.TIMEOUT):
                m.d.comb += error.eq(MetadataError.TIMEOUT)
            with m.Elif(self.beats.payload.error != BusError.NONE):
                m.d.comb += error.eq(MetadataError.READ)
        with m.Switch(oldest):
            for k, outcome in enumerate(outcomes):
                with m.Case(k):
                    m.d.comb += self.error.eq(outcome)
        with m.If(beat_fire):
            m.d.sync += [row.eq(row + 1), earlier_error.eq(error)]
            with m.If(last):
                m.d.sync += earlier_error.eq(MetadataError.NONE)
        for k, outcome in enumerate(outcomes):
            with m.If(line_done & (filled == k)):
                m.d.sync += outcome.eq(error)
        with m.If(line_done):
            m.d.sync += filled.eq(following(filled, lines))
        with m.If(self.deallocate):
            m.d.sync += oldest.eq(following(oldest, lines))
        m.d.sync += [
            allocated.eq(allocated + self.allocate - self.deallocate),
            complete.eq(complete + line_done - self.deallocate),
            Assert(~self.allocate | self.free),
            Assert(~self.deallocate | self.complete),
            Assert(~beat_fire | (allocated != complete)),
        ]
        return m
