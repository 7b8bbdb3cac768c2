"""The issue of lines: a line is read when the buffer has reserved space for it."""

from amaranth.hdl import Array, Assert, C, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.stream.pack import LENGTH_BITS
from cdma.hw.config import EngineConfig
from cdma.hw.dma.job_faults import JobFaultFilter
from cdma.hw.dma.outbound.reader import LinePlace, LineRequest
from cdma.hw.dma.payloads import IssuedLines, ReadJob
from cdma.hw.lib.count import following
from cdma.hw.lib.countdown import Countdown
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import SkidBuffer


class LineIssuer(wiring.Component):
    """Splits jobs into lines and issues them to the units round-robin, up to two per cycle.

    A line is issued only when the buffer has space for its worst case, which is then reserved:
    whatever memory returns can be accepted at once, and only reads that have not been issued ever
    wait for the buffer. The space that compression saved is freed.

    Latency: 2 cycles from a job to its first line at a unit. Throughput: two lines per cycle.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    i : `In(stream.Signature(ReadJob(config)))`
    o : `Out(stream.Signature(LineRequest(config.codec, config.rings))).array(config.units)`
    ends : `Out(stream.Signature(IssuedLines()))`
        The end of each job, not later than 2 cycles after its last line.
    freed : `In(...).array(config.units)`
        Beats that have become free in each unit's part of the buffer.
    permits : `In(2)`
        Lines that the throttle lets through in this cycle for the job's class.
    throttle_class : `Out(1)`
        The job's class.
    ring : `Out(range(config.rings))`
        The job's ring.
    issued : `Out(2)`
        Lines issued in this cycle.
    abort, stop : `In(1)`
        Issue no more lines: end this job, since its ring aborts, or nothing more of it is written.
    line_ended, line_failed : `In(1).array(config.units)`
        At each unit, the oldest line that was issued to it has been read, and the bus answered one
        of its beats with an error, in that cycle or before. The job ends then.
    reserved : `Out(...)`
        Beats of the buffer that are reserved, of all units.
    no_credit : `Out(1)`
        In this cycle, only the buffer's lack of space stalls a line.
    throttled : `Out(1)`
        In this cycle, only the throttle stalls a line.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        line = LineRequest(config.codec, config.rings)
        super().__init__(
            {
                "i": In(stream.Signature(ReadJob(config))),
                "o": Out(stream.Signature(line)).array(config.units),
                "ends": Out(stream.Signature(IssuedLines())),
                "freed": In(range(config.codec.sectors + 2)).array(config.units),
                "permits": In(2),
                "throttle_class": Out(1),
                "ring": Out(range(config.rings)),
                "issued": Out(2),
                "abort": In(1),
                "stop": In(1),
                "line_ended": In(1).array(config.units),
                "line_failed": In(1).array(config.units),
                "reserved": Out(range(config.units * config.unit_beats + 1)),
                "no_credit": Out(1),
                "throttled": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        line_bytes = config.codec.line_bytes
        line_bits = (line_bytes - 1).bit_length()
        sectors = config.codec.sectors
        job = self.i.payload

        active = Signal()
        address = Signal.like(job.src)
        # Lines behind the next one, and bytes of the last one.
        m.submodules.behind = behind = Countdown(LENGTH_BITS - line_bits)
        last_size = Signal(range(line_bytes + 1))
        unit = Signal(range(config.units))
        codec = Signal.like(job.codec)
        parameters = Signal.like(job.parameters)
        throttle_class = Signal()
        lines = Signal.like(self.ends.payload.lines)
        # Units that have a line of the job.
        begun = Signal(range(config.units + 1))

        m.submodules.job_ends = job_ends = Fifo(IssuedLines(), self.config.transfers - 1)
        wiring.connect(m, job_ends.o, wiring.flipped(self.ends))

        has_credit = Signal(config.units)
        slot_free = Signal(config.units)
        own_fault = Signal(config.units)
        slots = []
        credits = []
        for k, output in enumerate(self.o):
            m.submodules[f"slot_{k}"] = slot = SkidBuffer(LineRequest(config.codec, config.rings))
            wiring.connect(m, slot.o, wiring.flipped(output))
            slots.append(slot)
            credit = Signal(
                range(config.unit_beats + 1), init=config.unit_beats, name=f"credit_{k}"
            )
            credits.append(credit)
            m.d.comb += [
                has_credit[k].eq(credit >= sectors),
                slot_free[k].eq(has_credit[k] & slot.i.ready),
            ]

        second_unit = Signal.like(unit)
        third_unit = Signal.like(unit)
        m.d.comb += [
            second_unit.eq(following(unit, config.units)),
            third_unit.eq(following(second_unit, config.units)),
        ]
        first = Signal()
        second = Signal()
        may_issue = Signal()
        stopped = Signal()
        halts = self.abort | stopped
        unit_free = Array(slot_free[k] for k in range(config.units))
        m.d.comb += [
            may_issue.eq(active & ~halts & job_ends.i.ready),
            first.eq(may_issue & (self.permits != 0) & unit_free[unit]),
            second.eq(
                first & (self.permits == 2) & ~behind.is_zero & unit_free[second_unit]
                if config.units > 1
                else 0
            ),
            self.issued.eq(first + second),
            self.throttle_class.eq(throttle_class),
            self.throttled.eq(may_issue & (self.permits == 0) & unit_free[unit]),
            self.no_credit.eq(
                may_issue
                & (self.permits != 0)
                & ~Array(has_credit[k] for k in range(config.units))[unit]
            ),
        ]

        first_size = Signal(range(line_bytes + 1))
        second_size = Signal(range(line_bytes + 1))
        m.d.comb += [
            first_size.eq(Mux(behind.is_zero, last_size, line_bytes)),
            second_size.eq(Mux(behind.is_one, last_size, line_bytes)),
        ]
        # The second line is never a job's first one, and may be a unit's first or last alone.
        first_place = Signal(LinePlace())
        second_place = Signal(LinePlace())
        m.d.comb += [
            first_place.begins.eq(begun == 0),
            first_place.first.eq(begun < config.units),
            first_place.last.eq(behind.count < config.units),
            second_place.first.eq(begun < config.units - 1),
            second_place.last.eq(behind.count <= config.units),
        ]
        for k, slot in enumerate(slots):
            is_second = Signal(name=f"second_to_{k}")
            m.d.comb += [
                is_second.eq(second & (second_unit == k)),
                slot.i.valid.eq((first & (unit == k)) | is_second),
                slot.i.payload.address.eq(address + Mux(is_second, line_bytes, 0)),
                slot.i.payload.size.eq(Mux(is_second, second_size, first_size)),
                slot.i.payload.codec.eq(codec),
                slot.i.payload.parameters.eq(parameters),
                slot.i.payload.place.eq(Mux(is_second, second_place, first_place)),
                slot.i.payload.ring.eq(self.ring),
            ]
            m.d.sync += [
                credits[k].eq(credits[k] - Mux(slot.i.valid, sectors, 0) + self.freed[k]),
                Assert(credits[k] <= config.unit_beats),
            ]
            m.submodules[f"faults_{k}"] = faults = JobFaultFilter(config.unit_lines)
            m.d.comb += [
                faults.begins.eq(self.i.ready),
                faults.asked.eq(slot.i.valid),
                faults.ended.eq(self.line_ended[k]),
                faults.failed.eq(self.line_failed[k]),
                own_fault[k].eq(faults.own),
            ]

        m.d.sync += self.reserved.eq(self.reserved + self.issued * sectors - sum(self.freed, C(0)))

        # What follows is known late in the cycle; a stage later it holds up no line.
        with m.If(self.stop | own_fault.any()):
            m.d.sync += stopped.eq(1)

        lines_next = Signal.like(lines)
        is_done = Signal()
        ends = Signal()
        m.d.comb += [
            is_done.eq(behind.is_zero | (second & behind.is_one)),
            behind.load.eq(self.i.ready),
            behind.value.eq((job.length - 1) >> line_bits),
            behind.one.eq(first & ~second),
            behind.two.eq(second),
            lines_next.eq(lines + self.issued),
            ends.eq(active & job_ends.i.ready & (halts | (first & is_done))),
            job_ends.i.valid.eq(ends),
            job_ends.i.payload.lines.eq(lines_next),
            job_ends.i.payload.cut.eq(~first),
            self.i.ready.eq(~active | ends),
        ]
        # Two sums of different widths: of one kind, synthesis would make one, behind the choice.
        behind_one = Cat(address[:line_bits], address[line_bits:] + 1)
        behind_two = Cat(address[: line_bits + 1], address[line_bits + 1 :] + 1)
        with m.If(first):
            m.d.sync += [
                address.eq(Mux(second, behind_two, behind_one)),
                unit.eq(Mux(second, third_unit, second_unit)),
                lines.eq(lines_next),
            ]
            with m.If(begun + self.issued > config.units):
                m.d.sync += begun.eq(config.units)
            with m.Else():
                m.d.sync += begun.eq(begun + self.issued)
        with m.If(self.i.ready):
            m.d.sync += [
                stopped.eq(0),
                active.eq(self.i.valid),
                address.eq(job.src),
                last_size.eq((job.length - 1)[:line_bits] + 1),
                unit.eq(job.first_unit),
                codec.eq(job.codec),
                parameters.eq(job.parameters),
                throttle_class.eq(job.throttle_class),
                self.ring.eq(job.ring),
                lines.eq(0),
                begun.eq(0),
            ]
        return m
