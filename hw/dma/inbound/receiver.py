"""Streams from host memory: asked for in bursts, and only when there is room for them."""

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest
from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS
from cdma.hw.dma.data_queue import DataQueue, data_queue, ecc_members, report_errors
from cdma.hw.dma.job_faults import JobFaultFilter
from cdma.hw.dma.outbound.writer import HOST_BURST_BEATS
from cdma.hw.dma.payloads import ReceiveJob, ReceiveOutcome
from cdma.hw.lib.beat import ReceivedBeat
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister, SkidBuffer


def _count_bits(width: int) -> int:
    """Bits of the number of a job's beat: beats are counted by the low bits of their addresses."""
    return OFFSET_BITS + 1 - (width - 1).bit_length()


class _AskedJob(data.StructLayout):
    """A job that has been asked for: the number of the beat behind, and whether that is not all."""

    def __init__(self, width: int) -> None:
        super().__init__({"end": _count_bits(width), "aborted": 1})


class _Job:
    """Registers of the job whose packet is given.

    A packet that has ended early is `closed`; `primed` says that `held` has the beat before.
    """

    def __init__(self, config: EngineConfig) -> None:
        width = config.host_bytes
        width_bits = (width - 1).bit_length()
        self.active = Signal()
        self.closed = Signal()
        self.offset = Signal(width_bits)
        self.beat_number = Signal(HOST_ADDRESS_BITS - width_bits)
        self.left = Signal(OFFSET_BITS)
        self.given = Signal(OFFSET_BITS)
        self.primed = Signal()
        self.held = Signal(8 * width, reset_less=True)


class _Step:
    """The next step of a packet: a beat that it gives, or one that only primes it."""

    def __init__(self, width: int, packet: SkidBuffer) -> None:
        self.packet = packet
        self.behind = Signal(range(width + 1))
        self.primes = Signal()
        self.wants_beat = Signal()
        self.cut_off = Signal()
        self.completes = Signal()
        self.closes = Signal()
        self.failed = Signal()
        self.fires = Signal()
        self.takes = Signal()
        self.done = Signal()


class StreamReceiver(wiring.Component):
    """Reads streams that may begin at any element, and gives each as a packet.

    A burst is requested only when there is room for all of its beats, so R is always accepted, and
    backpressure of the stream never reaches the bus. Reads of the next job begin when the former's
    last burst has been requested.

    At the first beat with an error the packet ends. What still comes for the job is dropped, and no
    more is requested from the second cycle after that beat on.

    Latency: 2 cycles from a job to its first request, 3 from the beat that completes a beat of the
    packet to that. Throughput: a beat per cycle; one more for each packet that begins inside a
    beat, and for a packet of one beat behind another.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job : `In(stream.Signature(ReceiveJob(config)))`
    request : `Out(stream.Signature(ReadRequest(64, config.rings)))`
        Bursts of up to 16 beats, ending where an address is a multiple of so many: none crosses a
        page.
    beats : `In(stream.Signature(ReadBeat(config.host_bytes)))`
        Always ready: room has been reserved.
    o : `Out(stream.Signature(ReceivedBeat(config.host_bytes)))`
        A packet for each job, of at least one beat; it may end with a beat of no bytes if it is
        cut off. Never torn.
    outcome : `Out(stream.Signature(ReceiveOutcome()))`
        For each job, not before the end of its packet is next or next but one at `o`, and all that
        was asked for came.
    ring : `Out(range(config.rings))`
        The ring of the job that is being asked for.
    begins : `Out(1)`
        In this cycle a job begins to be asked for.
    abort, stop : `In(1)`
        Ask for no more: that job ends with what has been asked for, since its ring aborts, or
        nothing behind that counts.
    starved : `Out(1)`
        In this cycle, a beat would have been taken, and none was there.
    corrected, uncorrectable : `Out(1)`
        Only with ECC: of a beat that came from memory in the cycle before.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        request = ReadRequest(HOST_ADDRESS_BITS, config.rings)
        super().__init__(
            {
                "job": In(stream.Signature(ReceiveJob(config))),
                "request": Out(stream.Signature(request)),
                "beats": In(stream.Signature(ReadBeat(config.host_bytes))),
                "o": Out(stream.Signature(ReceivedBeat(config.host_bytes))),
                "outcome": Out(stream.Signature(ReceiveOutcome())),
                "ring": Out(range(config.rings)),
                "begins": Out(1),
                "abort": In(1),
                "stop": In(1),
                "starved": Out(1),
                **ecc_members(config),
            }
        )

    # A job of 10 elements from element 2 of a beat on, four elements per beat:
    #
    #     memory     .  .  a  b | c  d  e  f | g  h  i  j      three beats of one burst
    #     held                    .  .  a  b   c  d  e  f      the beat before, once primed
    #     packet                  a  b  c  d   e  f  g  h | i  j     `behind` = 2 of the last beat
    #
    # The first beat only primes; the packet's last beat needs none.

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.config.host_bytes
        m.submodules.jobs = jobs = Fifo(ReceiveJob(self.config), self.config.transfers)
        m.submodules.asked = asked = Fifo(_AskedJob(width), self.config.transfers)
        queue = data_queue(self.config, ReadBeat(width), self.config.read_beats)
        m.submodules.queue = queue
        report_errors(m, self.config, self, [queue])
        wiring.connect(m, wiring.flipped(self.beats), queue.i)
        with m.If(self.beats.valid):
            m.d.sync += Assert(self.beats.ready)

        job = _Job(self.config)
        asking = self._ask(m, jobs, asked, queue)
        step = self._find_step(m, job, jobs, asked, queue)
        self._give(m, job, step, queue)
        self._end(m, job, step, asked, queue)
        m.d.comb += self.starved.eq(
            (asking | jobs.o.valid | (job.active & ~job.closed)) & self.o.ready & ~self.o.valid
        )
        with m.If(jobs.o.ready):
            width_bits = (width - 1).bit_length()
            m.d.sync += [
                job.active.eq(jobs.o.valid),
                job.offset.eq(jobs.o.payload.src[:width_bits]),
                job.beat_number.eq(jobs.o.payload.src[width_bits:]),
                job.left.eq(jobs.o.payload.size),
                job.given.eq(0),
                job.primed.eq(0),
                job.closed.eq(0),
            ]
        return m

    def _ask(self, m: Module, jobs: Fifo, asked: Fifo, queue: DataQueue) -> Signal:
        """Ask for a job's beats, burst by burst, while there is space for them.

        Returns whether a job is being asked for.
        """
        width = self.config.host_bytes
        width_bits = (width - 1).bit_length()
        burst_bits = (HOST_BURST_BEATS - 1).bit_length()
        job = self.job.payload
        m.submodules.requests = requests = PipelineRegister(self.request.payload.shape())
        wiring.connect(m, requests.o, wiring.flipped(self.request))

        asking = Signal()
        next_beat = Signal(HOST_ADDRESS_BITS - width_bits)
        beats_left = Signal(_count_bits(width))
        room = Signal(range(self.config.read_beats + 1), init=self.config.read_beats)
        to_boundary = Signal(range(HOST_BURST_BEATS + 1))
        final = Signal()
        burst = Signal.like(to_boundary)
        m.d.comb += [
            to_boundary.eq(HOST_BURST_BEATS - next_beat[:burst_bits]),
            final.eq(beats_left <= to_boundary),
            burst.eq(Mux(final, beats_left, to_boundary)),
        ]
        stopped = Signal()
        stops = Signal()
        request_fire = Signal()
        asked_all = Signal()
        m.submodules.faults = faults = JobFaultFilter(self.config.read_beats, HOST_BURST_BEATS)
        m.d.comb += [
            self.begins.eq(self.job.valid & self.job.ready),
            faults.begins.eq(self.begins),
            faults.asked.eq(Mux(request_fire, burst, 0)),
            faults.ended.eq(self.beats.valid),
            faults.failed.eq(self.beats.valid & (self.beats.payload.error != BusError.NONE)),
            stops.eq(self.abort | stopped),
            request_fire.eq(asking & ~stops & (room >= burst) & requests.i.ready & asked.i.ready),
            asked_all.eq(asking & asked.i.ready & (stops | (request_fire & final))),
            requests.i.valid.eq(request_fire),
            requests.i.payload.address.eq(Cat(C(0, width_bits), next_beat)),
            requests.i.payload.beats.eq(burst - 1),
            requests.i.payload.owner.eq(self.ring),
            asked.i.valid.eq(asked_all),
            asked.i.payload.end.eq(next_beat + Mux(request_fire, burst, 0)),
            asked.i.payload.aborted.eq(self.abort),
            self.job.ready.eq((~asking | asked_all) & jobs.i.ready),
            jobs.i.valid.eq(self.job.valid & (~asking | asked_all)),
            jobs.i.payload.eq(job),
        ]
        with m.If(request_fire):
            m.d.sync += [next_beat.eq(next_beat + burst), beats_left.eq(beats_left - burst)]
        with m.If(asked_all):
            m.d.sync += asking.eq(0)
        with m.If(self.stop | faults.own):
            m.d.sync += stopped.eq(1)
        with m.If(self.begins):
            m.d.sync += [
                asking.eq(1),
                stopped.eq(0),
                self.ring.eq(job.ring),
                next_beat.eq(job.src[width_bits:]),
                beats_left.eq((job.size + (job.src[:width_bits] + (width - 1))) >> width_bits),
            ]
        m.d.sync += [
            room.eq(room - Mux(request_fire, burst, 0) + (queue.o.valid & queue.o.ready)),
            Assert(room <= self.config.read_beats),
        ]
        return asking

    def _find_step(self, m: Module, job: _Job, jobs: Fifo, asked: Fifo, queue: DataQueue) -> _Step:
        """Find what the next beat of the packet needs, and whether it is there.

        The beats of a job that begins inside one are one behind: a beat of the packet is the end of
        the beat before and the beginning of the present one.
        """
        width = self.config.host_bytes
        # Units and their queues decide about `o.ready`, late in the cycle.
        m.submodules.packet = packet = SkidBuffer(ReceivedBeat(width))
        wiring.connect(m, packet.o, wiring.flipped(self.o))
        step = _Step(width, packet)
        all_in = Signal()
        fails = Signal()
        present = Signal()
        emits = Signal()
        m.d.comb += [
            step.behind.eq(width - job.offset),
            step.primes.eq((job.offset != 0) & ~job.primed),
            step.wants_beat.eq((job.offset == 0) | step.primes | (job.left > step.behind)),
            all_in.eq(
                asked.o.valid & (asked.o.payload.end == job.beat_number[: _count_bits(width)])
            ),
            fails.eq(step.wants_beat & (queue.o.payload.error != BusError.NONE)),
            step.cut_off.eq(step.wants_beat & (all_in | fails)),
            step.completes.eq(~step.primes & ~step.cut_off & (job.left <= width)),
            step.closes.eq(step.cut_off | step.completes),
            step.failed.eq(step.cut_off & ~all_in),
            present.eq(
                job.active
                & ~job.closed
                & (queue.o.valid | ~step.wants_beat | all_in)
                & ~(step.closes & self.outcome.valid)
            ),
            emits.eq(~step.primes | step.cut_off),
            packet.i.valid.eq(present & emits),
            step.fires.eq(present & (packet.i.ready | ~emits)),
            # The rest of a packet that has ended early is dropped.
            step.takes.eq(
                ~all_in & Mux(job.closed, job.active & queue.o.valid, step.fires & step.wants_beat)
            ),
            queue.o.ready.eq(step.takes),
            step.done.eq((step.fires & step.completes) | (job.active & job.closed & all_in)),
            asked.o.ready.eq(step.done),
            jobs.o.ready.eq(~job.active | step.done),
        ]
        return step

    def _give(self, m: Module, job: _Job, step: _Step, queue: DataQueue) -> None:
        """Give a beat of the packet, turned so that it begins where the job does."""
        width = self.config.host_bytes
        element_bytes = self.config.codec.element_bytes
        lanes = width // element_bytes
        data_in = queue.o.payload.data
        window = [
            Mux(job.primed, job.held, data_in).word_select(i, 8 * element_bytes)
            for i in range(lanes)
        ] + [data_in.word_select(i, 8 * element_bytes) for i in range(lanes)]
        for k in reversed(range((lanes - 1).bit_length())):
            distance = 1 << k
            far = job.offset[(element_bytes - 1).bit_length() + k]
            turned = [
                Signal(8 * element_bytes, name=f"turned_{distance}_{i}")
                for i in range(lanes + distance - 1)
            ]
            for i, element in enumerate(turned):
                m.d.comb += element.eq(Mux(far, window[i + distance], window[i]))
            window = list(turned)
        out = step.packet.i.payload
        m.d.comb += [
            out.data.eq(Cat(window[:lanes])),
            out.size.eq(
                Mux(
                    step.cut_off,
                    Mux(job.primed, step.behind, 0),
                    Mux(step.completes, job.left, width),
                )
            ),
            out.last.eq(step.closes),
        ]
        with m.If(step.takes):
            m.d.sync += [job.held.eq(data_in), job.beat_number.eq(job.beat_number + 1)]
        with m.If(step.fires):
            m.d.sync += [job.primed.eq(job.offset != 0), job.closed.eq(step.cut_off)]
            with m.If(~step.primes):
                m.d.sync += [job.left.eq(job.left - width), job.given.eq(job.given + width)]

    def _end(self, m: Module, job: _Job, step: _Step, asked: Fifo, queue: DataQueue) -> None:
        """Report the outcome, once the packet has ended and all that was asked for has come."""
        width_bits = (self.config.host_bytes - 1).bit_length()
        outcome_valid = Signal()
        outcome = Signal(ReceiveOutcome(), reset_less=True)
        with m.If(step.fires & step.closes):
            m.d.sync += [
                outcome.size.eq(job.given + step.packet.i.payload.size),
                outcome.error.eq(Mux(step.failed, queue.o.payload.error, BusError.NONE)),
                outcome.address.eq(Cat(C(0, width_bits), job.beat_number)),
            ]
        with m.If(step.done):
            m.d.sync += [
                outcome_valid.eq(1),
                outcome.aborted.eq(asked.o.payload.aborted),
                Assert(asked.o.valid),
            ]
        with m.Elif(self.outcome.ready):
            m.d.sync += outcome_valid.eq(0)
        m.d.comb += [self.outcome.valid.eq(outcome_valid), self.outcome.payload.eq(outcome)]
