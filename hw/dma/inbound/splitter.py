"""A stream from the host to lines, each to its unit."""

from amaranth.hdl import Array, Assert, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat
from cdma.hw.codec.selection import is_one_of
from cdma.hw.codec.stream.pack import StreamTail
from cdma.hw.config import EngineConfig
from cdma.hw.dma.payloads import IssuedLines, LineCommand, SplitJob
from cdma.hw.lib.beat import ReceivedBeat
from cdma.hw.lib.pipeline import PipelineRegister


class LineSplitter(wiring.Component):
    """Splits streams into lines and hands them to the units in turn, with what to make of them.

    A line that is split off waits for its own unit only, and those behind it wait for it. Two lines
    that stand together in a beat and a mask leave in one cycle, if the configuration says so.

    Latency: 2 cycles from the beat that completes a line beat to that; 1 if copied. Throughput: a
    beat per cycle, and as many lines as the codec's unpacker gives. Between jobs no beat is taken
    for 2 cycles; for 1 behind copied ones.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job : `In(stream.Signature(SplitJob(config)))`
    i : `In(stream.Signature(ReceivedBeat(config.host_bytes)))`
        A packet for each job.
    lines : `Out(stream.Signature(LineBeat(config.codec))).array(config.units)`
        Each line's last beat is marked as a transfer's. A damaged line is a job's last.
    commands : `Out(stream.Signature(LineCommand(config.codec))).array(config.units)`
        For each line, not later than its first beat.
    ends : `Out(stream.Signature(IssuedLines()))`
        For each job, after its packet. Never cut.
    tail : `Out(stream.Signature(StreamTail()))`
        For each job, after its packet.
    split : `Out(2)`
        Lines that ended in this cycle.
    starved : `Out(1)`
        In this cycle, a line would have been taken, and none was there.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        codec, units = config.codec, config.units
        super().__init__(
            {
                "job": In(stream.Signature(SplitJob(config))),
                "i": In(stream.Signature(ReceivedBeat(config.host_bytes))),
                "lines": Out(stream.Signature(LineBeat(codec))).array(units),
                "commands": Out(stream.Signature(LineCommand(codec))).array(units),
                "ends": Out(stream.Signature(IssuedLines())),
                "tail": Out(stream.Signature(StreamTail())),
                "split": Out(2),
                "starved": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        codec, units = config.codec, config.units
        line_bits = (codec.line_bytes - 1).bit_length()
        job = self.job.payload
        unpackers = []
        for entry in codec.entries:
            lines_per_cycle = min(config.split_lines, entry.lines_per_cycle)
            unpacker = entry.unpacker(codec, lines_per_cycle=lines_per_cycle)
            m.submodules[f"{entry.name}_unpacker"] = unpacker
            unpackers.append((entry, unpacker, lines_per_cycle))
        m.submodules.tails = tails = PipelineRegister(StreamTail())
        m.submodules.job_ends = job_ends = PipelineRegister(IssuedLines())
        wiring.connect(m, tails.o, wiring.flipped(self.tail))
        wiring.connect(m, job_ends.o, wiring.flipped(self.ends))

        active = Signal()
        index = Signal.like(job.codec)
        over = Signal()
        unit = Signal(range(units))
        address = Signal.like(job.dst)
        left = Signal.like(job.length)
        capacity = Signal.like(job.capacity)
        lines = Signal.like(job_ends.i.payload.lines)

        # The packet goes to the unpacker of its codec, and lines come from there.
        valid = Signal()
        first = Signal(LineBeat(codec))
        second = Signal(LineBeat(codec))
        paired = Signal()
        taken = Signal()
        tail_valid = Signal()
        told = Signal()
        for i, (entry, unpacker, lines_per_cycle) in enumerate(unpackers):
            here = Signal(name=f"{entry.name}_selected")
            m.d.comb += [
                here.eq(is_one_of(index, (i,), codec)),
                unpacker.i.payload.eq(self.i.payload),
                unpacker.i.valid.eq(self.i.valid & here),
                unpacker.o.ready.eq(taken & here),
                unpacker.tail.ready.eq(told & here),
            ]
            with m.If(here):
                m.d.comb += [
                    self.i.ready.eq(unpacker.i.ready),
                    valid.eq(unpacker.o.valid),
                    tail_valid.eq(unpacker.tail.valid),
                    tails.i.payload.eq(unpacker.tail.payload),
                ]
                if lines_per_cycle == 2:
                    m.d.comb += [
                        first.eq(unpacker.o.payload.first),
                        paired.eq(unpacker.o.payload.paired),
                    ]
                else:
                    m.d.comb += first.eq(unpacker.o.payload)
        # What does not come in pairs has no second line, whatever stands here.
        pairs = [unpacker for _, unpacker, lines_per_cycle in unpackers if lines_per_cycle == 2]
        if len(pairs) == 1:
            m.d.comb += second.eq(pairs[0].o.payload.second)
        else:
            for i, (_, unpacker, lines_per_cycle) in enumerate(unpackers):
                if lines_per_cycle == 2:
                    with m.If(index == i):
                        m.d.comb += second.eq(unpacker.o.payload.second)

        # Which units can take a line? Of a line that has begun, its unit has the command already.
        line_slots = []
        command_slots = []
        begins = Signal()
        m.d.comb += begins.eq(first.sol)
        can_take = Signal(units)
        for k in range(units):
            m.submodules[f"line_slot_{k}"] = line_slot = PipelineRegister(LineBeat(codec))
            m.submodules[f"command_slot_{k}"] = command_slot = PipelineRegister(LineCommand(codec))
            wiring.connect(m, line_slot.o, wiring.flipped(self.lines[k]))
            wiring.connect(m, command_slot.o, wiring.flipped(self.commands[k]))
            line_slots.append(line_slot)
            command_slots.append(command_slot)
            m.d.comb += can_take[k].eq(line_slot.i.ready & (command_slot.i.ready | ~begins))
        takes = Array(can_take[k] for k in range(units))

        # The second of two lines goes with the first, or follows it. `halfway`: it is to follow.
        halfway = Signal()
        next_unit = Signal.like(unit)
        second_unit = Signal.like(unit)
        first_goes = Signal()
        second_goes = Signal()
        m.d.comb += [
            next_unit.eq(Mux(unit == units - 1, 0, unit + 1)),
            second_unit.eq(Mux(halfway, unit, next_unit)),
            first_goes.eq(valid & ~halfway & takes[unit]),
            second_goes.eq(
                valid & paired & (halfway | (first_goes if units > 1 else 0)) & takes[second_unit]
            ),
            taken.eq(Mux(paired, second_goes, first_goes)),
        ]
        m.d.sync += halfway.eq((halfway | (first_goes & paired)) & ~second_goes)

        # The line that comes next, and the one behind it. Behind the job's last one, `left` is
        # worthless.
        size = Signal(range(codec.line_bytes + 1))
        writable = Signal.like(size)
        left_behind = Signal.like(left)
        capacity_behind = Signal.like(capacity)
        next_size = Signal.like(size)
        next_writable = Signal.like(size)
        m.d.comb += [
            size.eq(Mux(left > codec.line_bytes, codec.line_bytes, left)),
            writable.eq(Mux(capacity > size, size, capacity)),
            left_behind.eq(left - codec.line_bytes),
            capacity_behind.eq(capacity - writable),
            next_size.eq(Mux(left_behind > codec.line_bytes, codec.line_bytes, left_behind)),
            next_writable.eq(Mux(capacity_behind > next_size, next_size, capacity_behind)),
        ]
        for k in range(units):
            # What stands here must not depend on whether it goes: the network is slow enough.
            is_second = Signal(name=f"second_to_{k}")
            goes = Signal(name=f"goes_to_{k}")
            line = line_slots[k].i.payload
            command = command_slots[k].i.payload
            m.d.comb += [
                is_second.eq(halfway | (unit != k)),
                goes.eq(Mux(is_second, second_goes & (second_unit == k), first_goes)),
                line_slots[k].i.valid.eq(goes),
                line.eq(Mux(is_second, second, first)),
                line.last.eq(Mux(is_second, second.eol, first.eol)),
                command_slots[k].i.valid.eq(goes & begins),
                command.codec.eq(index),
            ]
            with m.If(unit == k):
                m.d.comb += [
                    command.address.eq(address),
                    command.size.eq(size),
                    command.writable.eq(writable),
                ]
            with m.Else():
                m.d.comb += [
                    command.address.eq(address + codec.line_bytes),
                    command.size.eq(next_size),
                    command.writable.eq(next_writable),
                ]

        m.d.comb += [
            self.split.eq((first_goes & first.eol) + second_goes),
            self.starved.eq(active & ~over & ~valid & takes[unit]),
        ]
        with m.If(self.split == 1):
            m.d.sync += [
                unit.eq(next_unit),
                address.eq(address + codec.line_bytes),
                left.eq(left_behind),
                capacity.eq(capacity_behind),
            ]
        with m.If(self.split == 2):
            m.d.sync += [
                unit.eq(Mux(next_unit == units - 1, 0, next_unit + 1)),
                address.eq(address + 2 * codec.line_bytes),
                left.eq(left - 2 * codec.line_bytes),
                capacity.eq(capacity_behind - next_writable),
            ]
        m.d.sync += lines.eq(lines + self.split)
        with m.If(taken & Mux(paired, second.last, first.last)):
            m.d.sync += over.eq(1)

        # The job's end, and the next job.
        done = Signal()
        x_begins = Signal()
        job_lines = Signal.like(lines)
        m.d.comb += [
            told.eq(tails.i.ready & job_ends.i.ready),
            done.eq(active & told & tail_valid),
            tails.i.valid.eq(done),
            job_ends.i.valid.eq(done),
            job_ends.i.payload.lines.eq(lines),
            self.job.ready.eq(~active | done),
            x_begins.eq(self.job.valid & self.job.ready),
            job_lines.eq((job.length + (codec.line_bytes - 1)) >> line_bits),
        ]
        for i, (entry, unpacker, _) in enumerate(unpackers):
            amount = job.length if entry.commanded_by == "bytes" else job_lines
            m.d.comb += [
                unpacker.command.valid.eq(x_begins & is_one_of(job.codec, (i,), codec)),
                unpacker.command.payload.eq(amount),
            ]
        with m.If(self.job.ready):
            m.d.sync += [
                active.eq(self.job.valid),
                index.eq(job.codec),
                over.eq(0),
                unit.eq(job.first_unit),
                address.eq(job.dst),
                left.eq(job.length),
                capacity.eq(job.capacity),
                lines.eq(0),
                *(Assert(unpacker.command.ready) for _, unpacker, _ in unpackers),
            ]
        with m.If(valid):
            m.d.sync += Assert(active & ~over)
        return m
