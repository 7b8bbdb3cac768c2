"""Lines of metadata on their way to memory, from the decision until memory has answered."""

from amaranth.hdl import Assert, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.line import ROW_BITS, EvictedRow, LineShape
from cdma.hw.bus.burst import BusError, WriteBeat
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.stream import Fifo


class WriteBacks(wiring.Component):
    """Knows which lines are on their way, and sends them once all of their data is there.

    A line that is on its way must not be fetched, for reads may overtake writes: `conflict` tells.

    Latency: 2 cycles for rows and requests. Throughput: a row per cycle. Cost: a memory of two
    lines, and a comparison for each line that may be on its way.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    free : `Out(1)`
        Another line may set out.
    take : `In(1)`, line : `In(line_bits)`
        It does. Only if one may.
    number : `Out(write_back_bits)`
        Under this number.
    query : `In(line_bits)`, conflict : `Out(1)`
        Whether this line is on its way.
    rows : `In(stream.Signature(EvictedRow(config)))`
        Line by line; not always in the order in which they set out, nor must all come.
    drop : `In(1)`, dropped : `In(write_back_bits)`
        This one does not come: it was no line.
    request : `Out(stream.Signature(line_bits))`
    beats : `Out(stream.Signature(WriteBeat(32)))`
    response : `In(stream.Signature(BusError))`
        In the order of the requests. Taken at once, but for the two cycles behind a request.
    refused : `Out(1)`
        Memory did not take a line.
    idle : `Out(1)`
        None is on its way.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        shape = LineShape(config)
        super().__init__(
            {
                "free": Out(1),
                "take": In(1),
                "line": In(shape.line_bits),
                "number": Out(shape.write_back_bits),
                "query": In(shape.line_bits),
                "conflict": Out(1),
                "rows": In(stream.Signature(EvictedRow(config))),
                "drop": In(1),
                "dropped": In(shape.write_back_bits),
                "request": Out(stream.Signature(shape.line_bits)),
                "beats": Out(stream.Signature(WriteBeat(ROW_BITS // 8))),
                "response": In(stream.Signature(BusError)),
                "refused": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = LineShape(self.config)
        count = shape.write_backs
        m.submodules.queue = queue = Fifo(WriteBeat(ROW_BITS // 8), 2 * shape.rows)
        m.submodules.requests = requests = Fifo(unsigned(shape.write_back_bits), count)
        m.submodules.unanswered = unanswered = Fifo(unsigned(shape.write_back_bits), count)

        under_way = Signal(count)
        next_number = Signal(shape.write_back_bits)
        lines = [Signal(shape.line_bits, name=f"line_{k}", reset_less=True) for k in range(count)]
        is_asked = Signal(count)
        answers = Signal()
        m.d.comb += [
            self.number.eq(next_number),
            self.free.eq(~under_way.bit_select(next_number, 1)),
            self.idle.eq(under_way == 0),
            self.conflict.eq((under_way & is_asked).any()),
            answers.eq(self.response.valid & self.response.ready),
        ]
        with m.If(self.take):
            m.d.sync += next_number.eq(Mux(next_number == count - 1, 0, next_number + 1))
        for k, line in enumerate(lines):
            m.d.comb += is_asked[k].eq(line == self.query)
            with m.If(self.take & (next_number == k)):
                m.d.sync += [line.eq(self.line), under_way[k].eq(1)]
            with m.If(answers & (unanswered.o.payload == k)):
                m.d.sync += under_way[k].eq(0)
            with m.If(self.drop & (self.dropped == k)):
                m.d.sync += under_way[k].eq(0)
        m.d.sync += Assert(~self.take | self.free)

        # There are no more requests than numbers, so these queues always have room.
        row = self.rows.payload
        m.d.comb += [
            queue.i.valid.eq(self.rows.valid),
            queue.i.payload.data.eq(row.data),
            queue.i.payload.strobe.eq(-1),
            queue.i.payload.last.eq(row.last),
            self.rows.ready.eq(queue.i.ready),
            requests.i.valid.eq(self.rows.valid & self.rows.ready & row.last),
            requests.i.payload.eq(row.write_back),
        ]
        wiring.connect(m, queue.o, wiring.flipped(self.beats))
        m.d.comb += [
            self.request.valid.eq(requests.o.valid),
            requests.o.ready.eq(self.request.ready),
            unanswered.i.valid.eq(requests.o.valid & self.request.ready),
            unanswered.i.payload.eq(requests.o.payload),
        ]
        with m.Switch(requests.o.payload):
            for k, line in enumerate(lines):
                with m.Case(k):
                    m.d.comb += self.request.payload.eq(line)
        m.d.sync += [
            Assert(~requests.i.valid | requests.i.ready),
            Assert(~unanswered.i.valid | unanswered.i.ready),
        ]

        # A response comes long after its request; but what is not known yet must not be taken.
        m.d.comb += [
            self.response.ready.eq(unanswered.o.valid),
            unanswered.o.ready.eq(self.response.valid),
            self.refused.eq(answers & (self.response.payload != BusError.NONE)),
        ]
        return m
