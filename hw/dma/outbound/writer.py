"""Streams to memory: bursts that are complete before they are announced."""

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, WriteBeat, WriteRequest
from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS
from cdma.hw.dma.limits import HOST_BURST_BEATS
from cdma.hw.dma.payloads import WriteJob, WriteOutcome
from cdma.hw.lib.adder import add
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.fifo import Fifo

DEVICE_BURST_BEATS = 8


class Pending(data.StructLayout):
    """What is to be known of a burst when its response comes.

    Members
    -------
    address
    written
        There is a burst. Without one, the entry only ends its job.
    ends
        Ends its job, with `size` bytes written and `overflow`.
    """

    def __init__(self, address_bits: int, size_bits: int) -> None:
        super().__init__(
            {
                "address": address_bits,
                "written": 1,
                "ends": 1,
                "size": size_bits,
                "overflow": 1,
            }
        )


class StreamWriter(wiring.Component):
    """Writes packets to memory, each to any element of it, and no byte beyond its capacity.

    A packet's first beat stands at the beat of memory that holds `dst`: its bytes before `dst` are
    padding and not written.

    Latency: 4 cycles from the beat that completes a burst to the burst's request; 2 from a job to
    its first beat. Throughput: a beat per cycle.

    Parameters
    ----------
    data_bytes
        Width of the bus.
    bursts
        How many may wait for their response.
    burst_beats
        Bursts end where an address is a multiple of so many beats, a power of two: none crosses a
        page.
    address_bits, size_bits
        Widths of addresses and of a packet's size.

    Members
    -------
    job : `In(stream.Signature(WriteJob(address_bits, size_bits)))`
        For each packet.
    i : `In(stream.Signature(Beat(data_bytes)))`
    request : `Out(stream.Signature(WriteRequest(address_bits)))`
    beats : `Out(stream.Signature(WriteBeat(data_bytes)))`
        In the order of the requests, and not before them.
    response : `In(stream.Signature(BusError))`
        For each burst, in their order.
    outcome : `Out(stream.Signature(WriteOutcome(address_bits, size_bits)))`
        For each packet, after the response to its last burst.
    """

    def __init__(
        self,
        data_bytes: int,
        bursts: int,
        *,
        burst_beats: int = HOST_BURST_BEATS,
        address_bits: int = HOST_ADDRESS_BITS,
        size_bits: int = OFFSET_BITS,
    ) -> None:
        self.data_bytes = data_bytes
        self.bursts = bursts
        self.burst_beats = burst_beats
        self.address_bits = address_bits
        self.size_bits = size_bits
        super().__init__(
            {
                "job": In(stream.Signature(WriteJob(address_bits, size_bits))),
                "i": In(stream.Signature(Beat(data_bytes))),
                "request": Out(stream.Signature(WriteRequest(address_bits))),
                "beats": Out(stream.Signature(WriteBeat(data_bytes))),
                "response": In(stream.Signature(BusError)),
                "outcome": Out(stream.Signature(WriteOutcome(address_bits, size_bits))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.data_bytes
        width_bits = (width - 1).bit_length()
        burst_bits = (self.burst_beats - 1).bit_length()
        beat = self.i.payload

        # Two bursts of data, so that one can be filled while the other is sent.
        m.submodules.queue = queue = Fifo(
            data.StructLayout({"data": 8 * width, "strobe": width}), 2 * self.burst_beats
        )
        # Short bursts, such as those of single lines, are more than two.
        m.submodules.requests = requests = Fifo(WriteRequest(self.address_bits), 4)
        m.submodules.sizes = sizes = Fifo(unsigned(8), 4)
        m.submodules.pending = pending = Fifo(
            Pending(self.address_bits, self.size_bits), self.bursts
        )

        # The next job, and with it, so that none of it takes time later: up to which byte from the
        # first beat's start on each of its bounds lets it write, and which of them is met first.
        job = self.job.payload
        next_valid = Signal()
        next_job = Signal.like(job, reset_less=True)
        next_capped = Signal(reset_less=True)
        next_limit = Signal(self.size_bits + 1, reset_less=True)
        next_capacity = Signal(self.size_bits + 1, reset_less=True)
        starts = Signal()
        job_lead = job.dst[:width_bits]
        m.d.comb += self.job.ready.eq(~next_valid | starts)
        with m.If(self.job.ready):
            m.d.sync += [
                next_valid.eq(self.job.valid),
                next_job.eq(job),
                next_capped.eq(job.limit > job.capacity),
                next_limit.eq(add(m, job.limit, job_lead, name="limit")),
                next_capacity.eq(add(m, job.capacity, job_lead, name="capacity")),
            ]

        # The packet: which of a beat's bytes are between `dst` and the end of what may be written?
        active = Signal()
        first = Signal(reset_less=True)
        lead = Signal(width_bits, reset_less=True)
        address = Signal(self.address_bits, reset_less=True)
        capped = Signal(reset_less=True)
        writable = Signal(self.size_bits, reset_less=True)
        overflow = Signal()
        # From the beat's start on; nothing counts but beats, all of which but the last are full.
        room = Signal(self.size_bits + 1, reset_less=True)
        ample = Signal(reset_less=True)
        # Written before the beat.
        written = Signal(self.size_bits, reset_less=True)

        start = Signal(width_bits)
        near_room = Signal(range(width + 1))
        fills_room = Signal()
        overflows = Signal()
        writes = Signal()
        strobe = Signal(width)
        m.d.comb += [
            start.eq(Mux(first, lead, 0)),
            near_room.eq(Mux(ample, width, room)),
            fills_room.eq(~ample & (beat.size >= near_room)),
            overflows.eq(capped & ~ample & (beat.size > near_room)),
            writes.eq((start < beat.size) & (start < near_room)),
            strobe.eq(
                Cat(
                    (j < beat.size)
                    & (j < near_room)
                    # The last byte is behind any padding.
                    & (1 if j == width - 1 else j >= start)
                    for j in range(width)
                )
            ),
        ]

        # The burst.
        count = Signal(range(self.burst_beats))
        burst_address = Signal(self.address_bits)
        closes = Signal()
        ends = Signal()
        at_boundary = Signal()
        m.d.comb += [
            at_boundary.eq(address[width_bits:].bit_select(0, burst_bits) == self.burst_beats - 1),
            closes.eq(
                (writes & (at_boundary | fills_room)) | (beat.last & (writes | (count != 0)))
            ),
            ends.eq(beat.last),
        ]
        may_close = requests.i.ready & sizes.i.ready & pending.i.ready
        takes = Signal()
        m.d.comb += [
            self.i.ready.eq(active & queue.i.ready & may_close),
            takes.eq(self.i.valid & self.i.ready),
            queue.i.valid.eq(takes & writes),
            queue.i.payload.data.eq(beat.data),
            queue.i.payload.strobe.eq(strobe),
            requests.i.valid.eq(takes & closes),
            requests.i.payload.address.eq(Mux(count == 0, address, burst_address)),
            requests.i.payload.beats.eq(Mux(writes, count, count - 1)),
            sizes.i.valid.eq(takes & closes),
            sizes.i.payload.eq(requests.i.payload.beats),
            pending.i.valid.eq(takes & (closes | ends)),
            pending.i.payload.address.eq(requests.i.payload.address),
            pending.i.payload.written.eq(closes),
            pending.i.payload.ends.eq(ends),
            pending.i.payload.size.eq(
                Mux(fills_room, writable, add(m, written, beat.size, name="so_far"))
            ),
            pending.i.payload.overflow.eq(overflow | overflows),
        ]
        next_beat = add(m, address[width_bits:], C(1, 1), name="next_beat")
        with m.If(takes):
            m.d.sync += [
                address[width_bits:].eq(next_beat),
                first.eq(0),
                room.eq(Mux(ample, room - width, 0)),
                ample.eq(ample & (room > 2 * width)),
                written.eq(written + width),
                overflow.eq(overflow | overflows),
            ]
            with m.If(closes):
                m.d.sync += count.eq(0)
            with m.Elif(writes):
                m.d.sync += count.eq(count + 1)
                with m.If(count == 0):
                    m.d.sync += burst_address.eq(address)

        next_room = Signal.like(room)
        m.d.comb += [
            starts.eq(~active | (takes & ends)),
            next_room.eq(Mux(next_capped, next_capacity, next_limit)),
        ]
        with m.If(starts):
            m.d.sync += [
                active.eq(next_valid),
                first.eq(1),
                lead.eq(next_job.dst[:width_bits]),
                address.eq(Cat(C(0, width_bits), next_job.dst[width_bits:])),
                capped.eq(next_capped),
                writable.eq(Mux(next_capped, next_job.capacity, next_job.limit)),
                room.eq(next_room),
                ample.eq(next_room > width),
                written.eq(-next_job.dst[:width_bits]),
                overflow.eq(0),
            ]

        # Announce it, then send it.
        announced = Signal(range(self.bursts + 2))
        announces = Signal()
        sent = Signal()
        sent_beats = Signal(range(self.burst_beats))
        m.d.comb += [
            self.request.valid.eq(requests.o.valid),
            self.request.payload.eq(requests.o.payload),
            requests.o.ready.eq(self.request.ready),
            announces.eq(self.request.valid & self.request.ready),
            self.beats.valid.eq(queue.o.valid & sizes.o.valid & (announced != 0)),
            self.beats.payload.data.eq(queue.o.payload.data),
            self.beats.payload.strobe.eq(queue.o.payload.strobe),
            self.beats.payload.last.eq(sent_beats == sizes.o.payload),
            queue.o.ready.eq(self.beats.valid & self.beats.ready),
            sent.eq(queue.o.ready & self.beats.payload.last),
            sizes.o.ready.eq(sent),
        ]
        m.d.sync += announced.eq(announced + announces - sent)
        with m.If(queue.o.ready):
            m.d.sync += sent_beats.eq(Mux(sent, 0, sent_beats + 1))

        # Its response.
        oldest = pending.o.payload
        told = Signal()
        found = Signal(BusError)
        found_address = Signal(self.address_bits)
        result = Signal(WriteOutcome(self.address_bits, self.size_bits), reset_less=True)
        answered = Signal()
        fails = Signal()
        m.d.comb += [
            self.response.ready.eq(pending.o.valid & oldest.written & ~(oldest.ends & told)),
            answered.eq(
                pending.o.valid & ~(oldest.ends & told) & (~oldest.written | self.response.valid)
            ),
            pending.o.ready.eq(answered),
            fails.eq(
                oldest.written & (self.response.payload != BusError.NONE) & (found == BusError.NONE)
            ),
            self.outcome.valid.eq(told),
            self.outcome.payload.eq(result),
        ]
        with m.If(told & self.outcome.ready):
            m.d.sync += told.eq(0)
        with m.If(answered):
            m.d.sync += [
                found.eq(Mux(oldest.ends, BusError.NONE, Mux(fails, self.response.payload, found))),
                found_address.eq(Mux(fails, oldest.address, found_address)),
            ]
            with m.If(oldest.ends):
                m.d.sync += [
                    told.eq(1),
                    result.size.eq(oldest.size),
                    result.overflow.eq(oldest.overflow),
                    result.error.eq(Mux(fails, self.response.payload, found)),
                    result.address.eq(Mux(fails, oldest.address, found_address)),
                ]

        m.d.sync += Assert(announced <= self.bursts + 1)
        return m
