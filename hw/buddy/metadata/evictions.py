"""The eviction buffer: dirty lines, from their eviction until memory has answered."""

from amaranth.hdl import Assert, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.line import ROW_BITS, EvictedRow, LineShape
from cdma.hw.bus.burst import BusError, WriteBeat
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.count import following
from cdma.hw.lib.fifo import Fifo


class EvictionBuffer(wiring.Component):
    """Tracks outstanding evictions, and writes each line once all of its data is there.

    A line whose eviction is outstanding must not be fetched, for reads may overtake writes;
    `conflict` tells.

    Latency: 2 cycles for rows and requests. Throughput: a row per cycle. Cost: a memory of two
    lines, and a comparator for each eviction that may be outstanding.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    free : `Out(1)`
        An eviction may be allocated.
    allocate : `In(1)`, line : `In(line_bits)`
        An eviction of `line` is allocated. Only while `free`.
    number : `Out(eviction_bits)`
        Number of the next eviction to be allocated.
    query : `In(line_bits)`, conflict : `Out(1)`
        The eviction of line `query` is outstanding.
    rows : `In(stream.Signature(EvictedRow(config)))`
        Rows, line by line; not always in the order of allocation.
    drop : `In(1)`, dropped : `In(eviction_bits)`
        Eviction `dropped` is cancelled, for its line was never fetched.
    request : `Out(stream.Signature(line_bits))`
    beats : `Out(stream.Signature(WriteBeat(32)))`
    response : `In(stream.Signature(BusError))`
        In the order of the requests. Always ready from two cycles after a request on.
    refused : `Out(1)`
        Memory answered the write of a line with an error.
    idle : `Out(1)`
        No eviction is outstanding.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        shape = LineShape(config)
        super().__init__(
            {
                "free": Out(1),
                "allocate": In(1),
                "line": In(shape.line_bits),
                "number": Out(shape.eviction_bits),
                "query": In(shape.line_bits),
                "conflict": Out(1),
                "rows": In(stream.Signature(EvictedRow(config))),
                "drop": In(1),
                "dropped": In(shape.eviction_bits),
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
        count = shape.evictions
        m.submodules.beats = beats = Fifo(WriteBeat(ROW_BITS // 8), 2 * shape.rows)
        m.submodules.requests = requests = Fifo(unsigned(shape.eviction_bits), count)
        m.submodules.unanswered = unanswered = Fifo(unsigned(shape.eviction_bits), count)

        outstanding = Signal(count)
        next_number = Signal(shape.eviction_bits)
        lines = [Signal(shape.line_bits, name=f"line_{k}", reset_less=True) for k in range(count)]
        query_match = Signal(count)
        response_fire = Signal()
        m.d.comb += [
            self.number.eq(next_number),
            self.free.eq(~outstanding.bit_select(next_number, 1)),
            self.idle.eq(outstanding == 0),
            self.conflict.eq((outstanding & query_match).any()),
            response_fire.eq(self.response.valid & self.response.ready),
        ]
        with m.If(self.allocate):
            m.d.sync += next_number.eq(following(next_number, count))
        for k, line in enumerate(lines):
            m.d.comb += query_match[k].eq(line == self.query)
            with m.If(self.allocate & (next_number == k)):
                m.d.sync += [line.eq(self.line), outstanding[k].eq(1)]
            with m.If(response_fire & (unanswered.o.payload == k)):
                m.d.sync += outstanding[k].eq(0)
            with m.If(self.drop & (self.dropped == k)):
                m.d.sync += outstanding[k].eq(0)
        m.d.sync += Assert(~self.allocate | self.free)

        # There are no more requests than numbers, so these FIFOs never overflow.
        row = self.rows.payload
        m.d.comb += [
            beats.i.valid.eq(self.rows.valid),
            beats.i.payload.data.eq(row.data),
            beats.i.payload.strobe.eq(-1),
            beats.i.payload.last.eq(row.last),
            self.rows.ready.eq(beats.i.ready),
            requests.i.valid.eq(self.rows.valid & self.rows.ready & row.last),
            requests.i.payload.eq(row.eviction),
        ]
        wiring.connect(m, beats.o, wiring.flipped(self.beats))
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

        # A response comes long after its request; none is accepted before that has been recorded.
        m.d.comb += [
            self.response.ready.eq(unanswered.o.valid),
            unanswered.o.ready.eq(self.response.valid),
            self.refused.eq(response_fire & (self.response.payload != BusError.NONE)),
        ]
        return m
