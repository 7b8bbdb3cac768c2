"""An expansion unit beside a memory controller: compressed lines come in, plain ones are written.

So the crossbar from the DMA engine carries compressed lines only, as it does to it (cDMA, §V-B).
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, WriteBeat, WriteRequest
from cdma.hw.codec.payloads import ExpandedSector, LineBeat
from cdma.hw.codec.selection import (
    SelectedDecompressor,
    expanding_lines,
    is_counted,
    locates_errors,
    pipelines,
)
from cdma.hw.codec.stream.checker import LineError, StreamChecker, status_shape
from cdma.hw.config import CodecConfig
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS
from cdma.hw.dma.limits import QUEUED_LINES
from cdma.hw.dma.line_crc import LineCrc
from cdma.hw.dma.outbound.writer import DEVICE_BURST_BEATS, StreamWriter
from cdma.hw.dma.payloads import ExpansionReport, LineCommand
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import PipelineRegister
from cdma.hw.lib.places import turned_up

LINES_IN_FLIGHT = 4
"""Lines in the stages before the one that writes, beside those that a codec looks at as a whole."""

REPORTS = 4
"""Reports that may wait for those of other units."""


MOST_HELD_LINES = 64
"""Lines that a codec may look at as a whole before one of them has been checked."""


def unchecked_lines(config: CodecConfig) -> int:
    """The most lines that a unit may have been given and not have checked."""
    held = MOST_HELD_LINES if config.locates_errors else 0
    return QUEUED_LINES * config.sectors + LINES_IN_FLIGHT + held + 4


class PacketShifter(wiring.Component):
    """Puts padding before each packet, so that its beats stand as memory at its destination does.

    Latency: 1 cycle. Throughput: a beat per cycle; one more cycle for a packet that the padding
    makes a beat longer.

    Resources: two beats of registers, and a rotating network of a beat's elements.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    lead : `In(stream.Signature(range(config.lanes)))`
        Elements of padding before each packet.
    i : `In(stream.Signature(Beat(config.sector_bytes)))`
    o : `Out(stream.Signature(Beat(config.sector_bytes)))`
        The padding's bytes may be anything.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "lead": In(stream.Signature(range(config.lanes))),
                "i": In(stream.Signature(Beat(config.sector_bytes))),
                "o": Out(stream.Signature(Beat(config.sector_bytes))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes = config.lanes
        width = config.sector_bytes
        element_bits = 8 * config.element_bytes
        beat = self.i.payload
        lead = self.lead.payload

        m.submodules.beats = beats = PipelineRegister(Beat(width))
        wiring.connect(m, beats.o, wiring.flipped(self.o))

        # Turned: the elements that stay behind come to stand where the next beat has room for them.
        elements = [beat.data.word_select(i, element_bits) for i in range(lanes)]
        turned = turned_up(m, elements, lead, name="turned")
        held = [Signal(element_bits, name=f"held_{i}", reset_less=True) for i in range(lanes)]

        flushes = Signal()
        rest = Signal(range(width + 1), reset_less=True)
        end = Signal(range(2 * width + 1))
        spills = Signal()
        out = beats.i.payload
        beat_fire = Signal()
        m.d.comb += [
            end.eq(beat.size + lead * config.element_bytes),
            spills.eq(end > width),
            beats.i.valid.eq(self.lead.valid & (flushes | self.i.valid)),
            beat_fire.eq(beats.i.valid & beats.i.ready),
            self.i.ready.eq(beat_fire & ~flushes),
            self.lead.ready.eq(beat_fire & out.last),
            out.size.eq(Mux(flushes, rest, Mux(spills, width, end))),
            out.last.eq(flushes | (beat.last & ~spills)),
        ]
        for i in range(lanes):
            stays = flushes | (i < lead) if i < lanes - 1 else flushes
            m.d.comb += out.data.word_select(i, element_bits).eq(Mux(stays, held[i], turned[i]))
        with m.If(beat_fire):
            m.d.sync += flushes.eq(~flushes & beat.last & spills)
        with m.If(self.i.ready):
            m.d.sync += [
                *(register.eq(element) for register, element in zip(held, turned, strict=True)),
                rest.eq(end - width),
            ]
        return m


class ExpansionUnit(wiring.Component):
    """Expands lines, and writes them to its memory.

    Bytes from the first thing that is wrong with a line on are not written.

    Latency: the request for a line of one beat comes `request_latency` = 8 cycles after it (9 if
    the codec's latency is "fast"), and one more for each sector. Throughput: a sector per cycle;
    one more cycle for a line that does not begin with a beat of memory. A line takes 2 cycles at
    least.

    Parameters
    ----------
    config : CodecConfig
    bursts
        How many may be under way to memory.
    rings
        The number of rings that lines come from.

    Attributes
    ----------
    request_latency : int
        Cycles from a line of one beat to its request, beside its sectors.

    Members
    -------
    commands : `In(stream.Signature(LineCommand(config, rings)))`
        For each line, not later than its last beat.
    i : `In(stream.Signature(LineBeat(config)))`
        Each line's last beat has `last` set.
    request : `Out(stream.Signature(WriteRequest(40, rings)))`
    beats : `Out(stream.Signature(WriteBeat(config.sector_bytes)))`
    response : `In(stream.Signature(BusError))`
    report : `Out(stream.Signature(ExpansionReport(config)))`
        For each line, after the response to its last burst.
    checked, wrong : `Out(1)`
        In this cycle the oldest line that had not been checked has been; its stream has an error.
    answered, refused : `Out(1)`
        In this cycle the oldest line that had not been answered has been; a write of it was
        answered with an error, in this cycle or before.
    """

    def __init__(self, config: CodecConfig, bursts: int, rings: int = 1) -> None:
        self.config = config
        self.request_latency = 9 if config.latency == "fast" else 8
        self.bursts = bursts
        self.rings = rings
        super().__init__(
            {
                "commands": In(stream.Signature(LineCommand(config, rings))),
                "i": In(stream.Signature(LineBeat(config))),
                "request": Out(stream.Signature(WriteRequest(DEVICE_ADDRESS_BITS, rings))),
                "beats": Out(stream.Signature(WriteBeat(config.sector_bytes))),
                "response": In(stream.Signature(BusError)),
                "report": Out(stream.Signature(ExpansionReport(config))),
                "checked": Out(1),
                "wrong": Out(1),
                "answered": Out(1),
                "refused": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        choices = pipelines(config)
        alone = len(choices) == 1 and not config.parameter_bits
        queued = QUEUED_LINES * config.sectors
        m.submodules.queue = queue = Fifo(LineBeat(config), queued)
        command = LineCommand(config, self.rings)
        m.submodules.command_queue = command_queue = Fifo(command, queued)
        m.submodules.fork = fork = Fork(command, 3 if alone else 4)
        decompressor = choices[0][0].decompressor(config) if alone else SelectedDecompressor(config)
        m.submodules.decompressor = decompressor
        m.submodules.sectors = sectors = Fork(ExpandedSector(config), 2)
        m.submodules.crc = crc = LineCrc(config)
        m.submodules.checker = checker = StreamChecker(
            config, length_bits=self._length_bits, offset_bits=self._offset_bits
        )
        m.submodules.shifter = shifter = PacketShifter(config)
        m.submodules.writer = writer = StreamWriter(
            config.sector_bytes,
            self.bursts,
            burst_beats=DEVICE_BURST_BEATS,
            address_bits=DEVICE_ADDRESS_BITS,
            size_bits=self._length_bits,
            rings=self.rings,
        )

        wiring.connect(m, wiring.flipped(self.i), queue.i)
        wiring.connect(m, queue.o, decompressor.i)
        wiring.connect(m, decompressor.o, sectors.i)
        wiring.connect(m, wiring.flipped(self.commands), command_queue.i)
        wiring.connect(m, command_queue.o, fork.i)
        to_checker, to_writer, to_report, *to_decompressor = fork.o
        for format_command in to_decompressor:
            m.d.comb += [
                decompressor.format.valid.eq(format_command.valid),
                decompressor.format.payload.codec.eq(format_command.payload.codec),
                decompressor.format.payload.parameters.eq(format_command.payload.parameters),
                format_command.ready.eq(decompressor.format.ready),
            ]
        lines = LINES_IN_FLIGHT
        if config.locates_errors:
            # The checker takes a line when the one before has passed, and the decompressor many
            # lines before that.
            held = expanding_lines(decompressor.sector_latency, config)
            assert held <= MOST_HELD_LINES
            m.submodules.expanding = expanding = Fifo(command, held)
            wiring.connect(m, to_checker, expanding.i)
            to_checker = expanding.o
            lines += held
        self._check(m, to_checker, sectors, crc, checker)
        self._write(m, to_writer, lines, checker, shifter, writer)
        check_results = self._join_results(m, to_report, lines, crc, checker)
        self._report(m, check_results, writer)
        return m

    @property
    def _length_bits(self) -> int:
        """Bits of a number of a line's bytes."""
        return self.config.line_bytes.bit_length()

    @property
    def _offset_bits(self) -> int:
        """Bits of a position in a line's stream."""
        return self.config.worst_line_bytes.bit_length()

    def _check(
        self, m: Module, command: Any, sectors: Fork, crc: LineCrc, checker: StreamChecker
    ) -> None:
        """Check a line. Where no mask announces elements, whatever the stream has is right."""
        index = Signal.like(command.payload.codec, name="index", reset_less=True)
        to_crc, expanded = sectors.o
        m.d.comb += [
            crc.i.valid.eq(to_crc.valid),
            crc.i.payload.elements.eq(to_crc.payload.elements),
            crc.i.payload.last.eq(to_crc.payload.last),
            to_crc.ready.eq(crc.i.ready),
            checker.i.valid.eq(expanded.valid),
            checker.i.payload.eq(expanded.payload),
            checker.i.payload.present.eq(
                Mux(is_counted(index, self.config), expanded.payload.present, 0)
            ),
            expanded.ready.eq(checker.i.ready),
            checker.length.valid.eq(command.valid),
            checker.length.payload.eq(command.payload.size),
            command.ready.eq(checker.length.ready),
        ]
        with m.If(command.valid & command.ready):
            m.d.sync += index.eq(command.payload.codec)

    def _write(
        self,
        m: Module,
        command: Any,
        lines: int,
        checker: StreamChecker,
        shifter: PacketShifter,
        writer: StreamWriter,
    ) -> None:
        """Write a line's bytes before its first error, placed as memory has them."""
        config = self.config
        width_bits = (config.sector_bytes - 1).bit_length()
        element_bits = (config.element_bytes - 1).bit_length()
        m.submodules.places = places = Fifo(LineCommand(config, self.rings), lines - 1)
        m.submodules.place_fork = place_fork = Fork(LineCommand(config, self.rings), 2)
        wiring.connect(m, command, places.i)
        wiring.connect(m, places.o, place_fork.i)
        to_shifter, to_job = place_fork.o
        # So that the writer knows of a line before the shifter begins it.
        m.submodules.leads = leads = PipelineRegister(range(config.lanes))
        wiring.connect(m, leads.o, shifter.lead)
        m.d.comb += [
            leads.i.valid.eq(to_shifter.valid),
            leads.i.payload.eq(to_shifter.payload.address[element_bits:width_bits]),
            to_shifter.ready.eq(leads.i.ready),
            writer.job.valid.eq(to_job.valid),
            writer.job.payload.dst.eq(to_job.payload.address),
            writer.job.payload.capacity.eq(to_job.payload.writable),
            writer.job.payload.limit.eq(to_job.payload.size),
            writer.job.payload.ring.eq(to_job.payload.ring),
            to_job.ready.eq(writer.job.ready),
        ]
        wiring.connect(m, checker.o, shifter.i)
        wiring.connect(m, shifter.o, writer.i)
        wiring.connect(m, writer.request, wiring.flipped(self.request))
        wiring.connect(m, writer.beats, wiring.flipped(self.beats))
        wiring.connect(m, wiring.flipped(self.response), writer.response)

    def _join_results(
        self, m: Module, command: Any, lines: int, crc: LineCrc, checker: StreamChecker
    ) -> Fifo:
        """Join what checker and CRC give of a line, which then waits for memory's answers."""
        config = self.config
        # Enough to tell how far from a line's beginning one of its bursts begins.
        place = signed(self._length_bits)
        origin = data.StructLayout({"place": place, "codec": range(len(config.codecs))})
        check_result = data.StructLayout(
            {
                "line_error": LineError,
                "status": status_shape(config),
                "offset": self._offset_bits,
                "size": self._length_bits,
                "crc32": 32,
                "place": place,
            }
        )
        m.submodules.origins = origins = Fifo(origin, lines - 1)
        m.submodules.check_results = check_results = Fifo(check_result, self.bursts)
        result = checker.result.payload
        joined = Signal()
        # Where no element was counted, the stream is as long as the data, or the codec tells. What
        # fills a line stands nowhere in the stream: its place is the line's.
        codec = origins.o.payload.codec
        offset = Mux(is_counted(codec, config), result.offset, result.size)
        size = result.size
        if config.locates_errors:
            located = locates_errors(codec, config)
            fill = result.line_error == LineError.FILL_NONZERO
            offset = Mux(located, Mux(fill, 0, result.located_offset), offset)
            # Such a codec takes or refuses a line as a whole.
            size = Mux(located & fill, 0, size)
        m.d.comb += [
            origins.i.valid.eq(command.valid),
            origins.i.payload.place.eq(command.payload.address[: self._length_bits].as_signed()),
            origins.i.payload.codec.eq(command.payload.codec),
            command.ready.eq(origins.i.ready),
            check_results.i.valid.eq(origins.o.valid & checker.result.valid & crc.o.valid),
            check_results.i.payload.line_error.eq(result.line_error),
            check_results.i.payload.status.eq(result.status),
            check_results.i.payload.offset.eq(offset),
            check_results.i.payload.size.eq(size),
            check_results.i.payload.crc32.eq(crc.o.payload),
            check_results.i.payload.place.eq(origins.o.payload.place),
            joined.eq(check_results.i.valid & check_results.i.ready),
            origins.o.ready.eq(joined),
            checker.result.ready.eq(joined),
            crc.o.ready.eq(joined),
            self.checked.eq(joined),
            self.wrong.eq(joined & (result.line_error != LineError.NONE)),
        ]
        return check_results

    def _report(self, m: Module, check_results: Fifo, writer: StreamWriter) -> None:
        """Report a line, after the response to its last burst."""
        config = self.config
        # All of `ExpansionReport` but the address. That of an error is kept until its report has
        # been taken, and the next error waits for that.
        queued = data.StructLayout(
            {
                "line_error": LineError,
                "status": status_shape(config),
                "offset": self._offset_bits,
                "size": self._length_bits,
                "crc32": 32,
                "error": BusError,
            }
        )
        m.submodules.reports = reports = Fifo(queued, REPORTS - 1)
        fault_held = Signal()
        fault_address = Signal(DEVICE_ADDRESS_BITS, reset_less=True)
        fault_reported = Signal()
        result = check_results.o.payload
        written = writer.outcome.payload
        before = Signal(signed(self._length_bits))
        failed = Signal()
        reported = Signal()
        report, oldest = reports.i.payload, reports.o.payload
        # The first burst may begin before the line.
        nothing = before < 0
        if self.config.locates_errors:
            nothing |= result.size == 0
        m.d.comb += [
            before.eq(written.address[: self._length_bits].as_signed() - result.place),
            failed.eq(written.error != BusError.NONE),
            reports.i.valid.eq(
                check_results.o.valid & writer.outcome.valid & ~(failed & fault_held)
            ),
            report.line_error.eq(result.line_error),
            report.status.eq(result.status),
            report.offset.eq(result.offset),
            report.size.eq(Mux(failed, Mux(nothing, 0, before), result.size)),
            report.crc32.eq(result.crc32),
            report.error.eq(written.error),
            reported.eq(reports.i.valid & reports.i.ready),
            self.answered.eq(reported),
            self.refused.eq(writer.outcome.valid & failed),
            check_results.o.ready.eq(reported),
            writer.outcome.ready.eq(reported),
            self.report.valid.eq(reports.o.valid),
            reports.o.ready.eq(self.report.ready),
            *(self.report.payload[name].eq(oldest[name]) for name, _ in queued),
            self.report.payload.address.eq(fault_address),
            fault_reported.eq(
                self.report.valid & self.report.ready & (oldest.error != BusError.NONE)
            ),
        ]
        with m.If(reported & failed):
            m.d.sync += [fault_held.eq(1), fault_address.eq(written.address)]
        with m.If(fault_reported):
            m.d.sync += fault_held.eq(0)
