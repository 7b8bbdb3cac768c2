"""A stream from the host to lines, each to its unit."""

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS, StreamTail, Unpacker
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.payloads import IssuedLines, LineCommand, SplitJob
from cdma.hw.lib.stream import Damage, LineBeat, ReceivedBeat, Register


class DenseUnpacker(wiring.Component):
    """Makes lines of a stream that is not compressed: an `Unpacker` for data without masks.

    The lines get full masks; the last one may be shorter. What a packet lacks ends it in damage, as
    the `Unpacker` does: behind what is there of the line, or on a line of its own.

    Latency: 0 cycles. Throughput: a beat per cycle.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    command : `In(stream.Signature(32))`
        Bytes that the packet should have, at least 1.
    i : `In(stream.Signature(ReceivedBeat(config.sector_bytes)))`
        A packet per command. All of it is taken, whatever is in it.
    o : `Out(stream.Signature(LineBeat(config)))`
        The lines, as far as they are there. `last` ends each packet.
    tail : `Out(stream.Signature(StreamTail()))`
        After each packet.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(LENGTH_BITS)),
                "i": In(stream.Signature(ReceivedBeat(config.sector_bytes))),
                "o": Out(stream.Signature(LineBeat(config))),
                "tail": Out(stream.Signature(StreamTail())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        width = config.sector_bytes
        element_bytes = config.element_bytes
        beat = self.i.payload

        # The packet. It is closed by its last beat, or by a torn one: then the rest is dropped.
        active = Signal()
        left = Signal(LENGTH_BITS)
        sector = Signal(range(config.sectors))
        lines_done = Signal()
        closed = Signal()
        ended = Signal()
        torn = Signal()
        trailing = Signal()
        size = Signal(OFFSET_BITS)

        wanted = Signal(range(width + 1))
        there = Signal(range(width + 1))
        short = Signal()
        whole = Signal(range(width + 1))
        line_size = Signal(range(config.line_bytes + 1))
        m.d.comb += [
            wanted.eq(Mux(left > width, width, left)),
            there.eq(Mux(closed, 0, Mux(beat.size > wanted, wanted, beat.size))),
            short.eq(there < wanted),
            # Of a packet that ends inside an element, this does not count.
            whole.eq(Mux(short, there // element_bytes * element_bytes, there)),
            line_size.eq(Mux(left > config.line_bytes, config.line_bytes, left)),
        ]
        out = self.o.payload
        m.d.comb += [
            self.o.valid.eq(active & ~lines_done & (closed | self.i.valid)),
            out.count.eq((whole + element_bytes - 1) // element_bytes),
            out.sol.eq(sector == 0),
            out.eol.eq(short | (left <= width) | (sector == config.sectors - 1)),
            out.last.eq(short | (left <= width)),
            out.damage.eq(Mux(short, Damage.PAYLOAD, Damage.NONE)),
            out.elements.as_value().eq(
                Cat(Mux(j < whole, beat.data.word_select(j, 8), 0) for j in range(width))
            ),
        ]
        with m.If(out.sol):
            m.d.comb += out.mask.eq(
                Cat(i * element_bytes < line_size for i in range(config.elements))
            )

        steps = Signal()
        drops = Signal()
        m.d.comb += [
            steps.eq(self.o.valid & self.o.ready),
            drops.eq(closed | lines_done),
            self.i.ready.eq(active & ~ended & (drops | self.o.ready)),
        ]
        with m.If(steps):
            m.d.sync += [
                left.eq(left - wanted),
                sector.eq(Mux(out.eol, 0, sector + 1)),
                lines_done.eq(out.last),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += ended.eq(beat.last)
            with m.If(~closed):
                m.d.sync += [
                    size.eq(size + beat.size),
                    closed.eq(beat.last | beat.torn),
                    torn.eq(beat.torn),
                    trailing.eq(trailing | (beat.size > wanted)),
                ]

        tail = self.tail.payload
        done = Signal()
        m.d.comb += [
            self.tail.valid.eq(lines_done & ended),
            tail.trailing.eq(trailing),
            tail.torn.eq(torn),
            tail.size.eq(size),
            done.eq(self.tail.valid & self.tail.ready),
            self.command.ready.eq(~active | done),
        ]
        with m.If(self.command.ready):
            m.d.sync += [active.eq(self.command.valid), left.eq(self.command.payload)]
        with m.If(done):
            m.d.sync += [
                register.eq(0)
                for register in (sector, lines_done, closed, ended, torn, trailing, size)
            ]
        return m


class LineSplitter(wiring.Component):
    """Splits streams into lines and hands them to the units in turn, with what to make of them.

    A line that is split off waits for its own unit only, and those behind it wait for it. Two lines
    that stand together in a beat and a mask leave in one cycle, if the configuration says so.

    Latency: 2 cycles from the beat that completes a line beat to that; 1 if dense. Throughput: a
    beat per cycle, and as many lines as the `Unpacker` gives. Between jobs no beat is taken for
    2 cycles; for 1 behind dense ones.

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
        m.submodules.unpacker = unpacker = Unpacker(codec, lines_per_cycle=config.split_lines)
        m.submodules.dense_unpacker = dense_unpacker = DenseUnpacker(codec)
        m.submodules.tails = tails = Register(StreamTail())
        m.submodules.job_ends = job_ends = Register(IssuedLines())
        wiring.connect(m, tails.o, wiring.flipped(self.tail))
        wiring.connect(m, job_ends.o, wiring.flipped(self.ends))

        active = Signal()
        dense = Signal()
        over = Signal()
        unit = Signal(range(units))
        address = Signal.like(job.dst)
        left = Signal.like(job.length)
        capacity = Signal.like(job.capacity)
        lines = Signal.like(job_ends.i.payload.lines)

        # The packet goes to one of the two, and lines come from there.
        valid = Signal()
        first = Signal(LineBeat(codec))
        second = Signal(LineBeat(codec))
        paired = Signal()
        taken = Signal()
        m.d.comb += [
            unpacker.i.payload.eq(self.i.payload),
            unpacker.i.valid.eq(self.i.valid & ~dense),
            dense_unpacker.i.payload.eq(self.i.payload),
            dense_unpacker.i.valid.eq(self.i.valid & dense),
            self.i.ready.eq(Mux(dense, dense_unpacker.i.ready, unpacker.i.ready)),
            valid.eq(Mux(dense, dense_unpacker.o.valid, unpacker.o.valid)),
            unpacker.o.ready.eq(taken & ~dense),
            dense_unpacker.o.ready.eq(taken & dense),
        ]
        compressed = unpacker.o.payload
        if config.split_lines == 2:
            m.d.comb += [
                second.eq(unpacker.o.payload.second),
                paired.eq(unpacker.o.payload.paired & ~dense),
            ]
            compressed = unpacker.o.payload.first
        m.d.comb += first.eq(Mux(dense, dense_unpacker.o.payload, compressed))

        # Which units can take a line? Of a line that has begun, its unit has the command already.
        line_slots = []
        command_slots = []
        begins = Signal()
        m.d.comb += begins.eq(first.sol)
        can_take = Signal(units)
        for k in range(units):
            m.submodules[f"line_slot_{k}"] = line_slot = Register(LineBeat(codec))
            m.submodules[f"command_slot_{k}"] = command_slot = Register(LineCommand(codec))
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
                command.dense.eq(dense),
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
        told = Signal()
        m.d.comb += [
            told.eq(tails.i.ready & job_ends.i.ready),
            done.eq(active & told & Mux(dense, dense_unpacker.tail.valid, unpacker.tail.valid)),
            unpacker.tail.ready.eq(told & ~dense),
            dense_unpacker.tail.ready.eq(told & dense),
            tails.i.valid.eq(done),
            tails.i.payload.eq(Mux(dense, dense_unpacker.tail.payload, unpacker.tail.payload)),
            job_ends.i.valid.eq(done),
            job_ends.i.payload.lines.eq(lines),
            self.job.ready.eq(~active | done),
            unpacker.command.valid.eq(self.job.valid & self.job.ready & ~job.dense),
            unpacker.command.payload.eq((job.length + (codec.line_bytes - 1)) >> line_bits),
            dense_unpacker.command.valid.eq(self.job.valid & self.job.ready & job.dense),
            dense_unpacker.command.payload.eq(job.length),
        ]
        with m.If(self.job.ready):
            m.d.sync += [
                active.eq(self.job.valid),
                dense.eq(job.dense),
                over.eq(0),
                unit.eq(job.first_unit),
                address.eq(job.dst),
                left.eq(job.length),
                capacity.eq(job.capacity),
                lines.eq(0),
                Assert(unpacker.command.ready),
                Assert(dense_unpacker.command.ready),
            ]
        with m.If(valid):
            m.d.sync += Assert(active & ~over)
        return m
