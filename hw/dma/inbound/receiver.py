"""Streams from host memory: asked for in bursts, and only when there is room for them."""

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest
from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS
from cdma.hw.dma.outbound.issue import JOBS
from cdma.hw.dma.outbound.writer import HOST_BURST_BEATS
from cdma.hw.dma.payloads import ReceiveJob, ReceiveOutcome
from cdma.hw.lib.beat import ReceivedBeat
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister


class StreamReceiver(wiring.Component):
    """Reads streams that may begin at any element, and gives each as a packet.

    A burst is asked for only when there is room for all of its beats, so what comes can always be
    taken, and the bus is never kept waiting for whoever takes the stream. Reads of the next job
    begin when the former's last burst has been asked for.

    At the first beat with an error the packet ends. What still comes for the job is dropped, and no
    more is asked for.

    Latency: 2 cycles from a job to its first request, 3 from the beat that completes a beat of the
    packet to that. Throughput: a beat per cycle; one more for each packet that begins inside a
    beat, and for a packet of one beat behind another.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job : `In(stream.Signature(ReceiveJob()))`
    request : `Out(stream.Signature(ReadRequest(64)))`
        Bursts of up to 16 beats, ending where an address is a multiple of so many: none crosses a
        page.
    beats : `In(stream.Signature(ReadBeat(config.host_bytes)))`
        Always ready: room has been reserved.
    o : `Out(stream.Signature(ReceivedBeat(config.host_bytes)))`
        A packet for each job, of at least one beat; it may end with a beat of no bytes if it is
        cut off. Never torn.
    outcome : `Out(stream.Signature(ReceiveOutcome()))`
        For each job, not before the end of its packet is offered and all that was asked for came.
    abort : `In(1)`
        Ask for no more: this job and all that come end with what has been asked for.
    starved : `Out(1)`
        In this cycle, a beat would have been taken, and none was there.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "job": In(stream.Signature(ReceiveJob())),
                "request": Out(stream.Signature(ReadRequest(HOST_ADDRESS_BITS))),
                "beats": In(stream.Signature(ReadBeat(config.host_bytes))),
                "o": Out(stream.Signature(ReceivedBeat(config.host_bytes))),
                "outcome": Out(stream.Signature(ReceiveOutcome())),
                "abort": In(1),
                "starved": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.config.host_bytes
        lanes = self.config.codec.lanes
        element_bytes = self.config.codec.element_bytes
        width_bits = (width - 1).bit_length()
        burst_bits = (HOST_BURST_BEATS - 1).bit_length()
        # Beats of a job are counted by the low bits of their numbers in memory.
        count_bits = OFFSET_BITS + 1 - width_bits
        job = self.job.payload

        m.submodules.jobs = jobs = Fifo(ReceiveJob(), JOBS)
        # How far each job was asked for: the number of the beat behind.
        m.submodules.asked = asked = Fifo(
            data.StructLayout({"end": count_bits, "aborted": 1}), JOBS
        )
        m.submodules.requests = requests = PipelineRegister(ReadRequest(HOST_ADDRESS_BITS))
        m.submodules.queue = queue = Fifo(ReadBeat(width), self.config.read_beats)
        wiring.connect(m, requests.o, wiring.flipped(self.request))
        wiring.connect(m, wiring.flipped(self.beats), queue.i)
        with m.If(self.beats.valid):
            m.d.sync += Assert(self.beats.ready)

        # Ask, burst by burst.
        asking = Signal()
        next_beat = Signal(HOST_ADDRESS_BITS - width_bits)
        beats_left = Signal(count_bits)
        room = Signal(range(self.config.read_beats + 1), init=self.config.read_beats)
        to_boundary = Signal(range(HOST_BURST_BEATS + 1))
        final = Signal()
        burst = Signal.like(to_boundary)
        m.d.comb += [
            to_boundary.eq(HOST_BURST_BEATS - next_beat[:burst_bits]),
            final.eq(beats_left <= to_boundary),
            burst.eq(Mux(final, beats_left, to_boundary)),
        ]
        # `closed`: the packet that is being given has ended early. If no job has been asked for to
        # its end, it is of the job that is being asked for, and an error is the reason.
        closed = Signal()
        jobs_asked = Signal(range(JOBS + 2))
        stops = Signal()
        asks = Signal()
        asked_all = Signal()
        m.d.comb += [
            stops.eq(self.abort | (closed & (jobs_asked == 0))),
            asks.eq(asking & ~stops & (room >= burst) & requests.i.ready & asked.i.ready),
            asked_all.eq(asking & asked.i.ready & (stops | (asks & final))),
            requests.i.valid.eq(asks),
            requests.i.payload.address.eq(Cat(C(0, width_bits), next_beat)),
            requests.i.payload.beats.eq(burst - 1),
            asked.i.valid.eq(asked_all),
            asked.i.payload.end.eq(next_beat + Mux(asks, burst, 0)),
            asked.i.payload.aborted.eq(self.abort),
            self.job.ready.eq((~asking | asked_all) & jobs.i.ready),
            jobs.i.valid.eq(self.job.valid & (~asking | asked_all)),
            jobs.i.payload.eq(job),
        ]
        with m.If(asks):
            m.d.sync += [next_beat.eq(next_beat + burst), beats_left.eq(beats_left - burst)]
        with m.If(asked_all):
            m.d.sync += asking.eq(0)
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [
                asking.eq(1),
                next_beat.eq(job.src[width_bits:]),
                beats_left.eq((job.size + (job.src[:width_bits] + (width - 1))) >> width_bits),
            ]
        m.d.sync += room.eq(room - Mux(asks, burst, 0) + (queue.o.valid & queue.o.ready))

        # Give. The beats of a job that begins inside one are one behind: a beat of the packet is
        # the end of the beat before and the beginning of the present one.
        active = Signal()
        offset = Signal(width_bits)
        beat_number = Signal.like(next_beat)
        left = Signal(OFFSET_BITS)
        given = Signal(OFFSET_BITS)
        primed = Signal()
        told = Signal()
        held = Signal(8 * width, reset_less=True)
        result = Signal(ReceiveOutcome(), reset_less=True)
        m.submodules.packet = packet = PipelineRegister(ReceivedBeat(width))
        wiring.connect(m, packet.o, wiring.flipped(self.o))

        behind = Signal(range(width + 1))
        primes = Signal()
        wants_beat = Signal()
        all_in = Signal()
        fails = Signal()
        cut_off = Signal()
        completes = Signal()
        closes = Signal()
        m.d.comb += [
            behind.eq(width - offset),
            primes.eq((offset != 0) & ~primed),
            wants_beat.eq((offset == 0) | primes | (left > behind)),
            all_in.eq(asked.o.valid & (asked.o.payload.end == beat_number[:count_bits])),
            fails.eq(wants_beat & (queue.o.payload.error != BusError.NONE)),
            cut_off.eq(wants_beat & (all_in | fails)),
            completes.eq(~primes & ~cut_off & (left <= width)),
            closes.eq(cut_off | completes),
        ]
        present = Signal()
        gives = Signal()
        steps = Signal()
        takes = Signal()
        done = Signal()
        m.d.comb += [
            present.eq(
                active & ~closed & (queue.o.valid | ~wants_beat | all_in) & ~(closes & told)
            ),
            gives.eq(~primes | cut_off),
            packet.i.valid.eq(present & gives),
            steps.eq(present & (packet.i.ready | ~gives)),
            # What is left when a packet has ended early is dropped.
            takes.eq(~all_in & Mux(closed, active & queue.o.valid, steps & wants_beat)),
            queue.o.ready.eq(takes),
            done.eq((steps & completes) | (active & closed & all_in)),
            asked.o.ready.eq(done),
            jobs.o.ready.eq(~active | done),
        ]

        window = [
            Mux(primed, held, queue.o.payload.data).word_select(i, 8 * element_bytes)
            for i in range(lanes)
        ] + [queue.o.payload.data.word_select(i, 8 * element_bytes) for i in range(lanes)]
        for k in reversed(range((lanes - 1).bit_length())):
            distance = 1 << k
            far = offset[(element_bytes - 1).bit_length() + k]
            turned = [
                Signal(8 * element_bytes, name=f"turned_{distance}_{i}")
                for i in range(lanes + distance - 1)
            ]
            for i, element in enumerate(turned):
                m.d.comb += element.eq(Mux(far, window[i + distance], window[i]))
            window = list(turned)
        out = packet.i.payload
        m.d.comb += [
            out.data.eq(Cat(window[:lanes])),
            out.size.eq(Mux(cut_off, Mux(primed, behind, 0), Mux(completes, left, width))),
            out.last.eq(closes),
            self.starved.eq(
                (asking | jobs.o.valid | (active & ~closed)) & self.o.ready & ~self.o.valid
            ),
        ]

        with m.If(takes):
            m.d.sync += [held.eq(queue.o.payload.data), beat_number.eq(beat_number + 1)]
        with m.If(steps):
            m.d.sync += [
                primed.eq(offset != 0),
                closed.eq(cut_off),
            ]
            with m.If(~primes):
                m.d.sync += [left.eq(left - width), given.eq(given + width)]
            with m.If(closes):
                m.d.sync += [
                    result.size.eq(given + out.size),
                    result.error.eq(Mux(cut_off & ~all_in, queue.o.payload.error, BusError.NONE)),
                    result.address.eq(Cat(C(0, width_bits), beat_number)),
                ]
        with m.If(done):
            m.d.sync += [
                told.eq(1),
                result.aborted.eq(asked.o.payload.aborted),
                Assert(asked.o.valid),
            ]
        with m.Elif(self.outcome.ready):
            m.d.sync += told.eq(0)
        m.d.comb += [self.outcome.valid.eq(told), self.outcome.payload.eq(result)]

        with m.If(jobs.o.ready):
            m.d.sync += [
                active.eq(jobs.o.valid),
                offset.eq(jobs.o.payload.src[:width_bits]),
                beat_number.eq(jobs.o.payload.src[width_bits:]),
                left.eq(jobs.o.payload.size),
                given.eq(0),
                primed.eq(0),
                closed.eq(0),
            ]
        m.d.sync += [
            jobs_asked.eq(jobs_asked + asked_all - done),
            Assert(room <= self.config.read_beats),
        ]
        return m
