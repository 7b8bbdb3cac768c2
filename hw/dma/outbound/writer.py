"""Streams to memory: bursts that are complete before they are announced."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, WriteBeat, WriteRequest
from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS
from cdma.hw.dma.job_faults import JobFaultFilter
from cdma.hw.dma.limits import HOST_BURST_BEATS
from cdma.hw.dma.outbound.burst_sender import SHORT_BURSTS, BurstSender
from cdma.hw.dma.outbound.write_responses import WriteResponseCollector
from cdma.hw.dma.payloads import WriteJob, WriteOutcome
from cdma.hw.lib.adder import add
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.pipeline import PipelineRegister

DEVICE_BURST_BEATS = 8


class BoundedJob(data.StructLayout):
    """A job, and the bounds of what it may write, counted from the start of its first beat.

    Members
    -------
    job
    capped
        The capacity is less than the limit, so it is met first.
    limit, capacity
        The job's, and the bytes of head padding.
    """

    def __init__(self, address_bits: int, size_bits: int, rings: int = 1) -> None:
        super().__init__(
            {
                "job": WriteJob(address_bits, size_bits, rings),
                "capped": 1,
                "limit": size_bits + 1,
                "capacity": size_bits + 1,
            }
        )


# A packet of 20 bytes (0 to 9, a to j) for `dst` = 0x1E6 with a capacity of 15 bytes, on a bus of 4
# bytes with bursts of 4 beats, beat by beat:
#
#   memory    bytes      strobe     space_left   burst
#   0x1E4     . . 0 1    0 0 1 1        17       address 0x1E4
#   0x1E8     2 3 4 5    1 1 1 1        13
#   0x1EC     6 7 8 9    1 1 1 1         9       closed after 3 beats: 0x1F0 is a boundary
#   0x1F0     a b c d    1 1 1 1         5       address 0x1F0
#   0x1F4     e f g h    1 0 0 0         1       closed after 2 beats: no space is left; overflow
#   0x1F8     i j . .    0 0 0 0         0       none: the last beat ends the packet
class StreamWriter(wiring.Component):
    """Writes packets to memory, each to any element of it, and no byte beyond its capacity.

    A packet's first beat lies at the beat of memory that holds `dst`: its bytes before `dst` are
    head padding and not written. Beats are collected to bursts.

    Latency: 4 cycles from the beat that completes a burst to the burst's request; 2 from a job to
    its first beat. Throughput: a beat per cycle.

    Resources: memory for two of the longest bursts.

    Parameters
    ----------
    data_bytes
        Width of the bus.
    bursts
        The largest number of outstanding responses.
    burst_beats
        Bursts end where an address is a multiple of so many beats, a power of two: none crosses a
        page.
    address_bits, size_bits
        Widths of addresses and of a packet's size.
    rings
        The number of rings that packets come from.
    stops_at_error
        Once a burst of a packet had an error, no other begins for it. Without, a packet is written
        to its end.

    Members
    -------
    job : `In(stream.Signature(WriteJob(address_bits, size_bits, rings)))`
        For each packet.
    i : `In(stream.Signature(Beat(data_bytes)))`
    request : `Out(stream.Signature(WriteRequest(address_bits, rings)))`
    beats : `Out(stream.Signature(WriteBeat(data_bytes)))`
        In the order of the requests, and not before them.
    response : `In(stream.Signature(BusError))`
        For each burst, in their order.
    outcome : `Out(stream.Signature(WriteOutcome(address_bits, size_bits)))`
        For each packet, after the response to its last burst.
    answered, refused : `In(1)`
        Only if the writer stops at errors: the bus has answered the oldest burst that it had not,
        with an error. `response` may come later.
    closed : `Out(1)`
        Nothing more of the packet at `i` will be written: its capacity is full, or it has failed.
    """

    def __init__(
        self,
        data_bytes: int,
        bursts: int,
        *,
        burst_beats: int = HOST_BURST_BEATS,
        address_bits: int = HOST_ADDRESS_BITS,
        size_bits: int = OFFSET_BITS,
        rings: int = 1,
        stops_at_error: bool = False,
    ) -> None:
        self.stops_at_error = stops_at_error
        self.data_bytes = data_bytes
        self.bursts = bursts
        self.burst_beats = burst_beats
        self.address_bits = address_bits
        self.size_bits = size_bits
        self.rings = rings
        super().__init__(
            {
                "job": In(stream.Signature(WriteJob(address_bits, size_bits, rings))),
                "i": In(stream.Signature(Beat(data_bytes))),
                "request": Out(stream.Signature(WriteRequest(address_bits, rings))),
                "beats": Out(stream.Signature(WriteBeat(data_bytes))),
                "response": In(stream.Signature(BusError)),
                "outcome": Out(stream.Signature(WriteOutcome(address_bits, size_bits))),
                **({"answered": In(1), "refused": In(1)} if stops_at_error else {}),
                "closed": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.sender = sender = BurstSender(
            self.data_bytes, self.address_bits, self.bursts, self.burst_beats, self.rings
        )
        m.submodules.responses = responses = WriteResponseCollector(
            self.address_bits, self.size_bits, self.bursts
        )
        m.submodules.next_job = next_job = PipelineRegister(
            BoundedJob(self.address_bits, self.size_bits, self.rings)
        )
        wiring.connect(m, sender.request, wiring.flipped(self.request))
        wiring.connect(m, sender.beats, wiring.flipped(self.beats))
        wiring.connect(m, wiring.flipped(self.response), responses.response)
        wiring.connect(m, responses.outcome, wiring.flipped(self.outcome))

        p = _Packet(self)
        m.d.comb += self.closed.eq(p.active & (p.overflow | p.failed))
        self._bound_job(m, next_job)
        self._mask_beat(m, p)
        self._collect_burst(m, p, sender, responses)
        self._advance(m, p)
        if self.stops_at_error:
            self._close(m, p, sender, next_job)
        self._start_packet(m, p, next_job)
        return m

    def _bound_job(self, m: Module, next_job: PipelineRegister) -> None:
        """Add the head padding to a job's bounds, so that none of it takes time later."""
        job, bounded = self.job.payload, next_job.i.payload
        head_pad = job.dst[: (self.data_bytes - 1).bit_length()]
        m.d.comb += [
            next_job.i.valid.eq(self.job.valid),
            self.job.ready.eq(next_job.i.ready),
            bounded.job.eq(job),
            bounded.capped.eq(job.limit > job.capacity),
            bounded.limit.eq(add(m, job.limit, head_pad, name="limit")),
            bounded.capacity.eq(add(m, job.capacity, head_pad, name="capacity")),
        ]

    def _mask_beat(self, m: Module, p: "_Packet") -> None:
        """Find the beat's bytes between `dst` and the end of what may be written."""
        width, beat = self.data_bytes, self.i.payload
        start = Signal(range(width))
        end = Signal(range(width + 1))
        m.d.comb += [
            start.eq(Mux(p.first, p.head_pad, 0)),
            end.eq(Mux(p.space_for_beat, width, p.space_left)),
            p.fills_space.eq(~p.space_for_beat & (beat.size >= end)),
            p.overflows.eq(p.capped & ~p.space_for_beat & (beat.size > end)),
            p.writes.eq((start < beat.size) & (start < end)),
            p.strobe.eq(
                Cat(
                    (j < beat.size)
                    & (j < end)
                    # The last byte is behind any padding.
                    & (1 if j == width - 1 else j >= start)
                    for j in range(width)
                )
            ),
        ]

    def _collect_burst(
        self, m: Module, p: "_Packet", sender: BurstSender, responses: WriteResponseCollector
    ) -> None:
        """Queue the beat, and close the burst at a boundary and at the end of the packet."""
        beat = self.i.payload
        width_bits = (self.data_bytes - 1).bit_length()
        burst_bits = (self.burst_beats - 1).bit_length()
        burst, pending = sender.burst.payload, responses.pending.payload
        count = Signal(range(self.burst_beats))
        burst_address = Signal(self.address_bits, reset_less=True)
        at_boundary = Signal()
        closes = Signal()
        m.d.comb += [
            at_boundary.eq(
                p.address[width_bits:].bit_select(0, burst_bits) == self.burst_beats - 1
            ),
            closes.eq(
                (p.writes & (at_boundary | p.fills_space)) | (beat.last & (p.writes | (count != 0)))
            ),
            self.i.ready.eq(
                p.active & sender.data.ready & sender.burst.ready & responses.pending.ready
            ),
            p.i_fire.eq(self.i.valid & self.i.ready),
            sender.data.valid.eq(p.i_fire & p.writes),
            sender.data.payload.data.eq(beat.data),
            sender.data.payload.strobe.eq(p.strobe),
            sender.burst.valid.eq(p.i_fire & closes),
            burst.address.eq(Mux(count == 0, p.address, burst_address)),
            burst.beats.eq(Mux(p.writes, count, count - 1)),
            burst.owner.eq(p.ring),
            responses.pending.valid.eq(p.i_fire & (closes | beat.last)),
            pending.address.eq(burst.address),
            pending.written.eq(closes),
            pending.ends.eq(beat.last),
            pending.size.eq(
                Mux(p.fills_space, p.writable, add(m, p.written, beat.size, name="so_far"))
            ),
            pending.overflow.eq(p.overflow | p.overflows),
        ]
        with m.If(p.i_fire):
            with m.If(closes):
                m.d.sync += count.eq(0)
            with m.Elif(p.writes):
                m.d.sync += count.eq(count + 1)
                with m.If(count == 0):
                    m.d.sync += burst_address.eq(p.address)

    def _advance(self, m: Module, p: "_Packet") -> None:
        """Go on to the next beat of memory."""
        width = self.data_bytes
        width_bits = (width - 1).bit_length()
        next_beat = add(m, p.address[width_bits:], C(1, 1), name="next_beat")
        with m.If(p.i_fire):
            m.d.sync += [
                p.address[width_bits:].eq(next_beat),
                p.first.eq(0),
                p.space_left.eq(Mux(p.space_for_beat, p.space_left - width, 0)),
                p.space_for_beat.eq(p.space_for_beat & (p.space_left > 2 * width)),
                p.written.eq(p.written + width),
                p.overflow.eq(p.overflow | p.overflows),
            ]

    def _close(
        self, m: Module, p: "_Packet", sender: BurstSender, next_job: PipelineRegister
    ) -> None:
        """Leave no space to a packet that has failed: a burst that is begun ends as it is."""
        m.submodules.faults = faults = JobFaultFilter(self.bursts + SHORT_BURSTS + 2)
        m.d.comb += [
            faults.begins.eq(next_job.o.ready),
            faults.asked.eq(sender.burst.valid),
            faults.ended.eq(self.answered),
            faults.failed.eq(self.refused),
        ]
        with m.If(faults.own):
            m.d.sync += [p.failed.eq(1), p.space_left.eq(0), p.space_for_beat.eq(0)]

    def _start_packet(self, m: Module, p: "_Packet", next_job: PipelineRegister) -> None:
        """Begin the next packet when there is none, or the last beat of the present one fires."""
        width_bits = (self.data_bytes - 1).bit_length()
        bounded = next_job.o.payload
        job = bounded.job
        space = Signal.like(p.space_left)
        m.d.comb += [
            next_job.o.ready.eq(~p.active | (p.i_fire & self.i.payload.last)),
            space.eq(Mux(bounded.capped, bounded.capacity, bounded.limit)),
        ]
        with m.If(next_job.o.ready):
            m.d.sync += [
                p.active.eq(next_job.o.valid),
                p.first.eq(1),
                p.head_pad.eq(job.dst[:width_bits]),
                p.address.eq(Cat(C(0, width_bits), job.dst[width_bits:])),
                p.capped.eq(bounded.capped),
                p.writable.eq(Mux(bounded.capped, job.capacity, job.limit)),
                p.space_left.eq(space),
                p.space_for_beat.eq(space > self.data_bytes),
                p.written.eq(-job.dst[:width_bits]),
                p.overflow.eq(0),
                p.failed.eq(0),
                p.ring.eq(job.ring),
            ]


class _Packet:
    """The registers of the packet that is written, and what is decided of its present beat."""

    def __init__(self, writer: StreamWriter) -> None:
        width, size_bits = writer.data_bytes, writer.size_bits
        self.active = Signal()
        self.first = Signal(reset_less=True)
        self.head_pad = Signal(range(width), reset_less=True)
        # The beat's address, and the bytes that were written before it.
        self.address: Any = Signal(writer.address_bits, reset_less=True)
        self.written = Signal(size_bits, reset_less=True)
        # Bytes that may be written, in all and from the beat's start on; `space_for_beat`: more
        # than a beat. All beats but the last are full, so nothing else counts.
        self.writable = Signal(size_bits, reset_less=True)
        self.space_left = Signal(size_bits + 1, reset_less=True)
        self.space_for_beat = Signal(reset_less=True)
        self.capped = Signal(reset_less=True)
        self.overflow = Signal()
        self.failed = Signal(name="packet_failed")
        self.ring = Signal(range(writer.rings), reset_less=True)

        self.i_fire = Signal()
        self.writes = Signal()
        self.strobe = Signal(width)
        self.fills_space = Signal()
        self.overflows = Signal()
