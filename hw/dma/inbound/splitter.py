"""A stream from the host to lines, each to its unit."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.interface import LineCodec
from cdma.hw.codec.payloads import LineBeat
from cdma.hw.codec.selection import is_one_of
from cdma.hw.codec.stream.unpack import StreamTail
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.inbound.expansion import REPORTS, unchecked_lines
from cdma.hw.dma.job_faults import JobFaultFilter
from cdma.hw.dma.payloads import IssuedLines, LineCommand, SplitJob
from cdma.hw.lib.beat import ReceivedBeat
from cdma.hw.lib.countdown import LateCountdown
from cdma.hw.lib.pipeline import LateValidRegister, PipelineRegister


class _Job:
    """Registers of the job whose lines are split off.

    `left` counts the whole lines from the next one on, `left_over` are the bytes behind them, and
    `room` and `room_over` are those of the capacity; `over` is set behind the last line. `bounded`:
    lines behind the capacity are dropped. `failed`: the job has failed, and the line that is being
    sent is its last. `inside`: that line goes on. `cut`: a line was dropped. `surplus`: bytes came
    behind the last line. `chosen` has a bit for each codec: which has the packet. `ended_lately`:
    lines that ended in the last cycle, which `address` and `lines` have counted, and not those
    `_before`.
    """

    def __init__(self, config: EngineConfig, job: data.View) -> None:
        line_bits = (config.codec.line_bytes - 1).bit_length()
        self.active = Signal()
        self.index = Signal.like(job.codec, name="index")
        self.chosen = Signal(len(config.codec.codecs), name="chosen")
        self.parameters = Signal.like(job.parameters, name="parameters")
        self.ring = Signal.like(job.ring, name="ring")
        self.over = Signal()
        self.unit = Signal(range(config.units))
        self.address = Signal.like(job.dst, name="address")
        self.address_before = Signal.like(job.dst, name="address_before")
        self.left = LateCountdown(len(job.length) - line_bits)
        self.left_over = Signal(line_bits)
        self.room = LateCountdown(len(job.capacity) - line_bits)
        self.room_over = Signal(line_bits)
        self.lines = Signal(IssuedLines()["lines"].shape)
        self.lines_before = Signal.like(self.lines)
        self.ended_lately = Signal(2)
        self.bounded = Signal()
        self.failed = Signal(name="job_failed")
        self.inside = Signal()
        self.cut = Signal()
        self.surplus = Signal()


class _FoundLines:
    """The lines that the codec's unpacker offers, and the end of its packet.

    `first_ready` says that a line without another one would be taken, or the first of two, and
    `pair_ready` that then none would be left of two. `second` is anything if they are not `paired`.
    `may_come` and `may_pair` are known early: without them, there is no line in this cycle, and no
    second one.
    """

    def __init__(self, codec: CodecConfig) -> None:
        self.valid = Signal()
        self.first = Signal(LineBeat(codec))
        self.second = Signal(LineBeat(codec))
        self.paired = Signal()
        self.line_fire = Signal()
        self.first_ready = Signal()
        self.pair_ready = Signal()
        self.may_come = Signal()
        self.may_pair = Signal()
        self.tail_valid = Signal()
        self.tail_ready = Signal()


class _SentLines:
    """The lines that go to their units in this cycle, and the unit of the line behind the first.

    A line that was found goes when it is sent, or dropped.
    """

    def __init__(self, unit: Signal, units: int) -> None:
        self.first_goes = Signal()
        self.first_drops = Signal()
        self.second_goes = Signal()
        self.second_drops = Signal()
        self.first = Signal(name="first_fires")
        self.second = Signal(name="second_fires")
        self.next_unit = Signal.like(unit, name="next_unit")
        self.begins = Signal(units, name="unit_begins")


class LineSplitter(wiring.Component):
    """Splits streams into lines and hands them to the units round-robin, with commands.

    A line that is split off waits for its own unit only, and those behind it wait for it. Two lines
    that stand together in a beat and a mask leave in one cycle, if the configuration says so; with
    two `split_beats`, so do any line's last beat and the next line's first.

    Lines behind the first one that lies behind the capacity are dropped, and those behind a fault
    of the job once it is known; the rest of the packet is then taken as fast as it comes.

    Latency: a cycle more than the codec's unpacker, from the beat that completes a line beat to
    that; 1 if copied. Throughput: a beat per cycle, and as many lines as the codec's unpacker
    gives. Between jobs no beat is taken for as many cycles.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job : `In(stream.Signature(SplitJob(config)))`
    i : `In(stream.Signature(ReceivedBeat(config.codec.sector_bytes)))`
        A packet for each job.
    lines : `Out(stream.Signature(LineBeat(config.codec))).array(config.units)`
        Each line's last beat is marked as a transfer's. A damaged line is a job's last.
    commands : `Out(stream.Signature(LineCommand(config.codec, config.rings))).array(config.units)`
        For each line, not later than its first beat.
    line_checked, line_wrong, line_answered, line_refused : `In(1).array(config.units)`
        As of each unit: `ExpansionUnit`.
    stop : `Out(1)`
        Nothing that is still to come of the job's packet counts.
    ends : `Out(stream.Signature(IssuedLines()))`
        For each job, after its packet.
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
                "i": In(stream.Signature(ReceivedBeat(config.codec.sector_bytes))),
                "lines": Out(stream.Signature(LineBeat(codec))).array(units),
                "commands": Out(stream.Signature(LineCommand(codec, config.rings))).array(units),
                "line_checked": In(1).array(units),
                "line_wrong": In(1).array(units),
                "line_answered": In(1).array(units),
                "line_refused": In(1).array(units),
                "stop": Out(1),
                "ends": Out(stream.Signature(IssuedLines())),
                "tail": Out(stream.Signature(StreamTail())),
                "split": Out(2),
                "starved": Out(1),
            }
        )

    # Three units, the next line is unit 2's. What comes from the unpacker, cycle by cycle:
    #
    #     first A, second B, paired      A to unit 2 and B to unit 0, in one cycle
    #     first C (sol, not eol)         C's first beat to unit 1, with C's command
    #     first C (eol)                  the rest of C to unit 1; no command again
    #     first D, second E, paired      unit 0 takes nothing: D goes to unit 2 alone, `halfway`
    #                                    is set, and E follows to unit 0 when that takes it
    #
    # With two `split_beats`, also:
    #
    #     first C (eol), second F (sol)  the rest of C to unit 1, F's first beat and its command to
    #                                    unit 2, where F's other beats come as first ones

    def elaborate(self, platform) -> Module:
        m = Module()
        codec = self.config.codec
        m.submodules.tails = tails = PipelineRegister(StreamTail())
        m.submodules.job_ends = job_ends = PipelineRegister(IssuedLines())
        wiring.connect(m, tails.o, wiring.flipped(self.tail))
        wiring.connect(m, job_ends.o, wiring.flipped(self.ends))

        job = _Job(self.config, self.job.payload)
        m.submodules.left = job.left
        m.submodules.room = job.room
        found = _FoundLines(codec)
        unpackers = self._unpackers(m)
        self._choose_unpacker(m, job, found, unpackers, tails)
        sent = self._send_lines(m, job, found)

        self._step(m, job, sent)
        self._stop_early(m, job, found, sent)
        with m.If(found.line_fire & Mux(found.paired, found.second.last, found.first.last)):
            m.d.sync += job.over.eq(1)
        self._end_job(m, job, found, unpackers, tails, job_ends)
        with m.If(found.valid):
            m.d.sync += Assert(job.active & ~job.over)
        return m

    def _unpackers(self, m: Module) -> list[tuple[LineCodec, Any, int]]:
        """An unpacker for each codec, with the lines that it gives per cycle."""
        codec = self.config.codec
        unpackers = []
        for entry in codec.entries:
            lines_per_cycle = min(self.config.split_lines, entry.lines_per_cycle)
            unpacker = entry.unpacker(
                codec, lines_per_cycle=lines_per_cycle, chunk_beats=self.config.split_beats
            )
            m.submodules[f"{entry.identifier}_unpacker"] = unpacker
            unpackers.append((entry, unpacker, lines_per_cycle))
        return unpackers

    def _choose_unpacker(
        self,
        m: Module,
        job: _Job,
        found: _FoundLines,
        unpackers: Sequence[tuple[LineCodec, Any, int]],
        tails: PipelineRegister,
    ) -> None:
        """Give the packet to the unpacker of its codec, and take lines from there."""
        for i, (entry, unpacker, lines_per_cycle) in enumerate(unpackers):
            selected = Signal(name=f"{entry.identifier}_selected")
            m.d.comb += [
                selected.eq(job.chosen[i]),
                unpacker.i.payload.eq(self.i.payload),
                unpacker.i.valid.eq(self.i.valid & selected),
                # Whether it is taken does not follow from what is there, but for a pair.
                unpacker.o.ready.eq(found.first_ready & selected),
                unpacker.tail.ready.eq(found.tail_ready & selected),
            ]
            if lines_per_cycle == 2:
                with m.If(unpacker.o.payload.paired):
                    m.d.comb += unpacker.o.ready.eq(found.pair_ready & selected)
            offers = [
                self.i.ready.eq(unpacker.i.ready),
                found.valid.eq(unpacker.o.valid),
                found.tail_valid.eq(unpacker.tail.valid),
                tails.i.payload.eq(unpacker.tail.payload),
            ]
            if lines_per_cycle == 2:
                offers += [
                    found.first.eq(unpacker.o.payload.first),
                    found.paired.eq(unpacker.o.payload.paired),
                    # Whether the line is all there is known late.
                    found.may_come.eq(job.active & ~job.over),
                    found.may_pair.eq(found.first.sol if self.config.split_beats == 1 else 1),
                ]
            else:
                offers += [
                    found.first.eq(unpacker.o.payload),
                    found.paired.eq(0),
                    found.may_come.eq(unpacker.o.valid),
                    found.may_pair.eq(0),
                ]
            # If no other one has the packet, it is the first one's: between packets it offers none.
            if i == 0:
                m.d.comb += offers
            else:
                with m.If(selected):
                    m.d.comb += offers
        # What does not come in pairs has no second line, whatever stands here.
        pairs = [
            (i, unpacker)
            for i, (_, unpacker, lines_per_cycle) in enumerate(unpackers)
            if lines_per_cycle == 2
        ]
        if len(pairs) == 1:
            m.d.comb += found.second.eq(pairs[0][1].second)
        else:
            for i, unpacker in pairs:
                with m.If(job.chosen[i]):
                    m.d.comb += found.second.eq(unpacker.second)

    def _send_lines(self, m: Module, job: _Job, found: _FoundLines) -> _SentLines:
        """Send each line to its unit; the second of two lines goes with the first, or follows it.

        A unit can take a line if it can take its command too, which goes with the first beat.
        """
        codec, units = self.config.codec, self.config.units
        line_slots = []
        command_slots = []
        # `halfway`: the first line of a pair has gone, and the second is to follow.
        halfway = Signal()
        seconds = []
        begins = []
        can_take = Signal(units)
        for k in range(units):
            m.submodules[f"line_slot_{k}"] = line_slot = LateValidRegister(LineBeat(codec))
            m.submodules[f"command_slot_{k}"] = command_slot = LateValidRegister(
                LineCommand(codec, self.config.rings)
            )
            wiring.connect(m, line_slot.o, wiring.flipped(self.lines[k]))
            wiring.connect(m, command_slot.o, wiring.flipped(self.commands[k]))
            line_slots.append(line_slot)
            command_slots.append(command_slot)
            is_second = Signal(name=f"second_to_{k}")
            unit_begins = Signal(name=f"begins_at_{k}")
            m.d.comb += [
                is_second.eq(halfway | (job.unit != k)),
                # Both begin if they are whole lines; in chunks of two beats, the first one may not.
                unit_begins.eq(found.first.sol | (is_second if self.config.split_beats > 1 else 0)),
                can_take[k].eq(line_slot.i.ready & (command_slot.i.ready | ~unit_begins)),
            ]
            seconds.append(is_second)
            begins.append(unit_begins)
        takes = Array(can_take[k] for k in range(units))

        sent = _SentLines(job.unit, units)
        dropping = Signal()
        second_unit = Signal.like(job.unit)
        first_ends = Signal()
        second_ends = Signal()
        m.d.comb += [
            sent.next_unit.eq(Mux(job.unit == units - 1, 0, job.unit + 1)),
            second_unit.eq(Mux(halfway, job.unit, sent.next_unit)),
            dropping.eq(job.failed | job.cut | (job.bounded & job.room.is_over)),
            sent.first_drops.eq(dropping & ~job.inside),
            sent.second_drops.eq(dropping | (job.bounded & job.room.is_zero & ~halfway)),
            found.first_ready.eq(~halfway & (takes[job.unit] | sent.first_drops)),
            sent.first_goes.eq(found.valid & found.first_ready),
            sent.first.eq(sent.first_goes & ~sent.first_drops),
            found.pair_ready.eq(
                (halfway | (found.first_ready if units > 1 else 0))
                & (takes[second_unit] | sent.second_drops)
            ),
            sent.second_goes.eq(found.valid & found.paired & found.pair_ready),
            sent.second.eq(sent.second_goes & ~sent.second_drops),
            found.line_fire.eq(Mux(found.paired, sent.second_goes, sent.first_goes)),
            first_ends.eq(sent.first & found.first.eol),
            second_ends.eq(sent.second & found.second.eol),
            self.split.eq(Cat(first_ends ^ second_ends, first_ends & second_ends)),
            self.starved.eq(job.active & ~job.over & ~found.valid & takes[job.unit]),
        ]
        m.d.sync += halfway.eq((halfway | (sent.first_goes & found.paired)) & ~sent.second_goes)

        command, next_command = self._commands(m, job)
        for k in range(units):
            # What stands here must not depend on whether it goes: the network is slow enough.
            is_second = seconds[k]
            fires = Signal(name=f"line_{k}_fires")
            may_fire = Signal(name=f"line_{k}_may_fire")
            line = line_slots[k].i.payload
            m.d.comb += [
                fires.eq(Mux(is_second, sent.second & (second_unit == k), sent.first)),
                may_fire.eq(
                    found.may_come & ((job.unit == k) | ((sent.next_unit == k) & found.may_pair))
                ),
                line_slots[k].i.valid.eq(fires),
                line_slots[k].i_maybe.eq(may_fire),
                line.eq(Mux(is_second, found.second, found.first)),
                line.last.eq(Mux(is_second, found.second.eol, found.first.eol)),
                command_slots[k].i.valid.eq(fires & begins[k]),
                command_slots[k].i_maybe.eq(may_fire),
                sent.begins[k].eq(command_slots[k].i.valid),
            ]
            with m.If(job.unit == k):
                m.d.comb += command_slots[k].i.payload.eq(command)
            with m.Else():
                m.d.comb += command_slots[k].i.payload.eq(next_command)
        return sent

    def _commands(self, m: Module, job: _Job) -> tuple[data.View, data.View]:
        """The commands of the line that comes next and of the one behind it.

        Behind the job's last line, what is left of it is meaningless.
        """
        codec = self.config.codec
        # Of the first line that is not whole, and of the first one that has no room as a whole.
        both_over = Mux(job.room_over > job.left_over, job.left_over, job.room_over)
        commands = []
        for before, name in enumerate(("this_command", "next_command")):
            command = Signal(LineCommand(codec, self.config.rings), name=name)
            is_whole = ~(job.left.is_zero | (job.left.is_one if before else 0))
            has_part = job.room.is_one if before else job.room.is_zero
            has_none = job.room.is_over | (job.room.is_zero if before else 0)
            # Of its own, as a command whose fields depend on each other looks like a loop.
            size = Signal.like(command.size, name=f"{name}_size")
            m.d.comb += [
                size.eq(Mux(is_whole, codec.line_bytes, job.left_over)),
                command.size.eq(size),
                command.writable.eq(size),
                command.address.eq(
                    job.address_before + (job.ended_lately + before) * codec.line_bytes
                ),
                command.codec.eq(job.index),
                command.parameters.eq(job.parameters),
                command.ring.eq(job.ring),
            ]
            with m.If(has_none):
                m.d.comb += command.writable.eq(0)
            with m.Elif(has_part):
                m.d.comb += command.writable.eq(Mux(is_whole, job.room_over, both_over))
            commands.append(command)
        return commands[0], commands[1]

    def _step(self, m: Module, job: _Job, sent: _SentLines) -> None:
        """Go on to the line behind those that ended in this cycle."""
        line_bytes, units = self.config.codec.line_bytes, self.config.units
        m.d.comb += [Cat(count.one, count.two).eq(self.split) for count in (job.left, job.room)]
        following = Mux(sent.next_unit == units - 1, 0, sent.next_unit + 1)
        # Lines that end are known late in the cycle: they choose last, and what is wide follows a
        # cycle later. None ends in the cycle before a job.
        with m.If(self.job.ready):
            m.d.sync += job.unit.eq(self.job.payload.first_unit)
        for ended, unit in zip(self.split, (sent.next_unit, following), strict=True):
            with m.If(ended):
                m.d.sync += job.unit.eq(unit)
        m.d.comb += [
            job.address.eq(job.address_before + job.ended_lately * line_bytes),
            job.lines.eq(job.lines_before + job.ended_lately),
        ]
        m.d.sync += [
            job.ended_lately.eq(self.split),
            job.address_before.eq(job.address),
            job.lines_before.eq(job.lines),
        ]

    def _stop_early(self, m: Module, job: _Job, found: _FoundLines, sent: _SentLines) -> None:
        """Find out that the job has failed, or that its packet goes on behind its last line.

        The receiver may cut the packet only when no line of it is to be sent any more.
        """
        unchecked = unchecked_lines(self.config.codec)
        unanswered = unchecked + self.config.unit_lines + REPORTS
        for k in range(self.config.units):
            for name, lines, ended, failed in (
                ("wrong", unchecked, self.line_checked[k], self.line_wrong[k]),
                ("refused", unanswered, self.line_answered[k], self.line_refused[k]),
            ):
                m.submodules[f"{name}_{k}"] = faults = JobFaultFilter(lines)
                m.d.comb += [
                    faults.begins.eq(self.job.ready),
                    faults.asked.eq(sent.begins[k]),
                    faults.ended.eq(ended),
                    faults.failed.eq(failed),
                ]
                with m.If(faults.own):
                    m.d.sync += job.failed.eq(1)
        with m.If(sent.second):
            m.d.sync += job.inside.eq(~found.second.eol)
        with m.Elif(sent.first):
            m.d.sync += job.inside.eq(~found.first.eol)
        with m.If((sent.first_goes & sent.first_drops) | (sent.second_goes & sent.second_drops)):
            m.d.sync += job.cut.eq(1)
        with m.If(job.over & self.i.valid & self.i.ready & (self.i.payload.size != 0)):
            m.d.sync += job.surplus.eq(1)
        m.d.comb += self.stop.eq(job.active & (job.cut | job.surplus))

    def _end_job(
        self,
        m: Module,
        job: _Job,
        found: _FoundLines,
        unpackers: Sequence[tuple[LineCodec, Any, int]],
        tails: PipelineRegister,
        job_ends: PipelineRegister,
    ) -> None:
        """Report the end of a job, and begin the next one in the same cycle."""
        codec = self.config.codec
        line_bits = (codec.line_bytes - 1).bit_length()
        arriving = self.job.payload
        done = Signal()
        x_begins = Signal()
        job_lines = Signal.like(job.lines)
        m.d.comb += [
            found.tail_ready.eq(tails.i.ready & job_ends.i.ready),
            done.eq(job.active & found.tail_ready & found.tail_valid),
            tails.i.valid.eq(done),
            job_ends.i.valid.eq(done),
            job_ends.i.payload.lines.eq(job.lines),
            job_ends.i.payload.cut.eq(job.cut),
            self.job.ready.eq(~job.active | done),
            x_begins.eq(self.job.valid & self.job.ready),
            job.left.load.eq(self.job.ready),
            job.left.value.eq(arriving.length[line_bits:]),
            job.room.load.eq(self.job.ready),
            job.room.value.eq(arriving.capacity[line_bits:]),
            job_lines.eq((arriving.length + (codec.line_bytes - 1)) >> line_bits),
        ]
        codec_begins = []
        for i, (entry, unpacker, _) in enumerate(unpackers):
            amount = arriving.length if entry.commanded_by == "bytes" else job_lines
            begins = is_one_of(arriving.codec, (i,), codec)
            m.d.comb += [
                unpacker.command.valid.eq(x_begins & begins),
                unpacker.command.payload.eq(amount),
            ]
            codec_begins.append(begins)
        with m.If(self.job.ready):
            m.d.sync += [
                job.active.eq(self.job.valid),
                job.index.eq(arriving.codec),
                job.chosen.eq(Cat(codec_begins)),
                job.parameters.eq(arriving.parameters),
                job.ring.eq(arriving.ring),
                job.over.eq(0),
                job.address_before.eq(arriving.dst),
                job.left_over.eq(arriving.length[:line_bits]),
                job.room_over.eq(arriving.capacity[:line_bits]),
                job.lines_before.eq(0),
                job.ended_lately.eq(0),
                job.bounded.eq(arriving.capacity != 0),
                job.failed.eq(0),
                job.inside.eq(0),
                job.cut.eq(0),
                job.surplus.eq(0),
                *(Assert(unpacker.command.ready) for _, unpacker, _ in unpackers),
            ]
