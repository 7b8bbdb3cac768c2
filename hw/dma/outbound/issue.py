"""Which line is read when: never before there is room for it."""

from amaranth.hdl import Array, Assert, C, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.stream.pack import LENGTH_BITS
from cdma.hw.config import EngineConfig
from cdma.hw.dma.outbound.reader import LineRequest
from cdma.hw.dma.payloads import IssuedLines, ReadJob
from cdma.hw.lib.stream import Fifo, Register

JOBS = 4
"""Jobs whose lines may be under way at once."""


class LineIssuer(wiring.Component):
    """Splits jobs into lines and hands them to the units in turn, up to two a cycle.

    A line is issued only when the buffer has room for its worst case, which is then reserved:
    whatever comes back from memory can be taken at once, and only reads that have not been issued
    ever wait for the buffer. What compression saved is given back.

    Latency: 2 cycles from a job to its first line at a unit. Throughput: two lines per cycle.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    i : `In(stream.Signature(ReadJob(config)))`
    o : `Out(stream.Signature(LineRequest(config.codec))).array(config.units)`
    ends : `Out(stream.Signature(IssuedLines()))`
        The end of each job, not later than 2 cycles after its last line.
    freed : `In(...).array(config.units)`
        Beats that have become free in each unit's part of the buffer.
    permits : `In(2)`
        Lines that the throttle lets through in this cycle for the job's class.
    throttle_class : `Out(1)`
        The job's class.
    issued : `Out(2)`
        Lines issued in this cycle.
    abort : `In(1)`
        Issue no more: end this job and all that come.
    reserved : `Out(...)`
        Beats of the buffer that are reserved, of all units.
    no_credit : `Out(1)`
        In this cycle, only the buffer's lack of room keeps a line back.
    throttled : `Out(1)`
        In this cycle, only the throttle keeps a line back.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(ReadJob(config))),
                "o": Out(stream.Signature(LineRequest(config.codec))).array(config.units),
                "ends": Out(stream.Signature(IssuedLines())),
                "freed": In(range(config.codec.sectors + 2)).array(config.units),
                "permits": In(2),
                "throttle_class": Out(1),
                "issued": Out(2),
                "abort": In(1),
                "reserved": Out(range(config.units * config.unit_beats + 1)),
                "no_credit": Out(1),
                "throttled": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        line_bytes = config.codec.line_bytes
        sectors = config.codec.sectors
        job = self.i.payload

        active = Signal()
        address = Signal.like(job.src)
        left = Signal(LENGTH_BITS)
        unit = Signal(range(config.units))
        codec = Signal.like(job.codec)
        parameters = Signal.like(job.parameters)
        throttle_class = Signal()
        lines = Signal.like(self.ends.payload.lines)

        m.submodules.job_ends = job_ends = Fifo(IssuedLines(), JOBS)
        wiring.connect(m, job_ends.o, wiring.flipped(self.ends))

        has_room = Signal(config.units)
        can_take = Signal(config.units)
        slots = []
        credits = []
        for k, output in enumerate(self.o):
            m.submodules[f"slot_{k}"] = slot = Register(LineRequest(config.codec))
            wiring.connect(m, slot.o, wiring.flipped(output))
            slots.append(slot)
            credit = Signal(
                range(config.unit_beats + 1), init=config.unit_beats, name=f"credit_{k}"
            )
            credits.append(credit)
            m.d.comb += [
                has_room[k].eq(credit >= sectors),
                can_take[k].eq(has_room[k] & slot.i.ready),
            ]

        second_unit = Signal.like(unit)
        third_unit = Signal.like(unit)
        m.d.comb += [
            second_unit.eq(Mux(unit == config.units - 1, 0, unit + 1)),
            third_unit.eq(Mux(second_unit == config.units - 1, 0, second_unit + 1)),
        ]
        first = Signal()
        second = Signal()
        willing = Signal()
        takes = Array(can_take[k] for k in range(config.units))
        m.d.comb += [
            willing.eq(active & ~self.abort & (left != 0) & job_ends.i.ready),
            first.eq(willing & (self.permits != 0) & takes[unit]),
            second.eq(
                first & (self.permits == 2) & (left > line_bytes) & takes[second_unit]
                if config.units > 1
                else 0
            ),
            self.issued.eq(first + second),
            self.throttle_class.eq(throttle_class),
            self.throttled.eq(willing & (self.permits == 0) & takes[unit]),
            self.no_credit.eq(
                willing
                & (self.permits != 0)
                & ~Array(has_room[k] for k in range(config.units))[unit]
            ),
        ]

        behind_first = Signal(LENGTH_BITS)
        first_size = Signal(range(line_bytes + 1))
        second_size = Signal(range(line_bytes + 1))
        m.d.comb += [
            first_size.eq(Mux(left > line_bytes, line_bytes, left)),
            behind_first.eq(left - first_size),
            second_size.eq(Mux(behind_first > line_bytes, line_bytes, behind_first)),
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
            ]
            m.d.sync += [
                credits[k].eq(credits[k] - Mux(slot.i.valid, sectors, 0) + self.freed[k]),
                Assert(credits[k] <= config.unit_beats),
            ]

        m.d.sync += self.reserved.eq(self.reserved + self.issued * sectors - sum(self.freed, C(0)))

        left_behind = Signal(LENGTH_BITS)
        lines_then = Signal.like(lines)
        ends = Signal()
        m.d.comb += [
            left_behind.eq(behind_first - Mux(second, second_size, 0)),
            lines_then.eq(lines + self.issued),
            ends.eq(active & job_ends.i.ready & (self.abort | (first & (left_behind == 0)))),
            job_ends.i.valid.eq(ends),
            job_ends.i.payload.lines.eq(lines_then),
            job_ends.i.payload.cut.eq(~first),
            self.i.ready.eq(~active | ends),
        ]
        with m.If(first):
            m.d.sync += [
                address.eq(address + Mux(second, 2 * line_bytes, line_bytes)),
                left.eq(left_behind),
                unit.eq(Mux(second, third_unit, second_unit)),
                lines.eq(lines_then),
            ]
        with m.If(self.i.ready):
            m.d.sync += [
                active.eq(self.i.valid),
                address.eq(job.src),
                left.eq(job.length),
                unit.eq(job.first_unit),
                codec.eq(job.codec),
                parameters.eq(job.parameters),
                throttle_class.eq(job.throttle_class),
                lines.eq(0),
            ]
        return m
