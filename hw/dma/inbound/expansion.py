"""An expansion unit beside a memory controller: compressed lines come in, plain ones are written.

So the crossbar from the DMA engine carries compressed lines only, as it does to it (cDMA, §V-B).
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, WriteBeat, WriteRequest
from cdma.hw.codec.payloads import ExpandedSector, LineBeat
from cdma.hw.codec.selection import SelectedDecompressor, is_counted, pipelines
from cdma.hw.codec.stream.checker import Finding, SectorJudge
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

LINES_UNDER_WAY = 4
"""Lines in the stages before the one that writes."""

REPORTS = 8
"""Reports that may wait for those of other units."""


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
        turned = [beat.data.word_select(i, element_bits) for i in range(lanes)]
        for k in range((lanes - 1).bit_length()):
            distance = 1 << k
            further = [Signal(element_bits, name=f"turned_{distance}_{i}") for i in range(lanes)]
            for i, element in enumerate(further):
                m.d.comb += element.eq(Mux(lead[k], turned[i - distance], turned[i]))
            turned = list(further)
        held = [Signal(element_bits, name=f"held_{i}", reset_less=True) for i in range(lanes)]

        flushes = Signal()
        rest = Signal(range(width + 1), reset_less=True)
        end = Signal(range(2 * width + 1))
        spills = Signal()
        out = beats.i.payload
        goes = Signal()
        m.d.comb += [
            end.eq(beat.size + lead * config.element_bytes),
            spills.eq(end > width),
            beats.i.valid.eq(self.lead.valid & (flushes | self.i.valid)),
            goes.eq(beats.i.valid & beats.i.ready),
            self.i.ready.eq(goes & ~flushes),
            self.lead.ready.eq(goes & out.last),
            out.size.eq(Mux(flushes, rest, Mux(spills, width, end))),
            out.last.eq(flushes | (beat.last & ~spills)),
        ]
        for i in range(lanes):
            stays = flushes | (i < lead) if i < lanes - 1 else flushes
            m.d.comb += out.data.word_select(i, element_bits).eq(Mux(stays, held[i], turned[i]))
        with m.If(goes):
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

    Attributes
    ----------
    request_latency : int
        Cycles from a line of one beat to its request, beside its sectors.

    Members
    -------
    commands : `In(stream.Signature(LineCommand(config)))`
        For each line, not later than its last beat.
    i : `In(stream.Signature(LineBeat(config)))`
        Each line's last beat has `last` set.
    request : `Out(stream.Signature(WriteRequest(40)))`
    beats : `Out(stream.Signature(WriteBeat(config.sector_bytes)))`
    response : `In(stream.Signature(BusError))`
    report : `Out(stream.Signature(ExpansionReport(config)))`
        For each line, after the response to its last burst.
    """

    def __init__(self, config: CodecConfig, bursts: int) -> None:
        self.config = config
        self.request_latency = 9 if config.latency == "fast" else 8
        self.bursts = bursts
        super().__init__(
            {
                "commands": In(stream.Signature(LineCommand(config))),
                "i": In(stream.Signature(LineBeat(config))),
                "request": Out(stream.Signature(WriteRequest(DEVICE_ADDRESS_BITS))),
                "beats": Out(stream.Signature(WriteBeat(config.sector_bytes))),
                "response": In(stream.Signature(BusError)),
                "report": Out(stream.Signature(ExpansionReport(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        width_bits = (config.sector_bytes - 1).bit_length()
        element_bits = (config.element_bytes - 1).bit_length()
        length_bits = config.line_bytes.bit_length()
        offset_bits = config.worst_line_bytes.bit_length()
        # Enough to tell how far from a line's beginning one of its bursts begins.
        place = signed(length_bits)

        choices = pipelines(config)
        alone = len(choices) == 1
        queued = QUEUED_LINES * config.sectors
        m.submodules.queue = queue = Fifo(LineBeat(config), queued)
        m.submodules.command_queue = command_queue = Fifo(LineCommand(config), queued)
        m.submodules.fork = fork = Fork(LineCommand(config), 3 if alone else 4)
        decompressor = choices[0][0].decompressor(config) if alone else SelectedDecompressor(config)
        m.submodules.decompressor = decompressor
        m.submodules.sectors = sectors = Fork(ExpandedSector(config), 2)
        m.submodules.crc = crc = LineCrc(config)
        m.submodules.judge = judge = SectorJudge(
            config, length_bits=length_bits, offset_bits=offset_bits
        )
        m.submodules.shifter = shifter = PacketShifter(config)
        m.submodules.writer = writer = StreamWriter(
            config.sector_bytes,
            self.bursts,
            burst_beats=DEVICE_BURST_BEATS,
            address_bits=DEVICE_ADDRESS_BITS,
            size_bits=length_bits,
        )

        def connect(source: Any, sink: Any) -> None:
            wiring.connect(m, source, sink)

        connect(wiring.flipped(self.i), queue.i)
        connect(queue.o, decompressor.i)
        connect(decompressor.o, sectors.i)
        connect(wiring.flipped(self.commands), command_queue.i)
        connect(command_queue.o, fork.i)
        to_judge, to_writer, to_report, *to_decompressor = fork.o
        for command in to_decompressor:
            m.d.comb += [
                decompressor.codec.valid.eq(command.valid),
                decompressor.codec.payload.eq(command.payload.codec),
                command.ready.eq(decompressor.codec.ready),
            ]

        # Judge a line. Where no mask announces elements, whatever the stream has is right.
        index = Signal.like(to_judge.payload.codec, reset_less=True)
        to_crc, judged = sectors.o
        m.d.comb += [
            crc.i.valid.eq(to_crc.valid),
            crc.i.payload.elements.eq(to_crc.payload.elements),
            crc.i.payload.last.eq(to_crc.payload.last),
            to_crc.ready.eq(crc.i.ready),
            judge.i.valid.eq(judged.valid),
            judge.i.payload.eq(judged.payload),
            judge.i.payload.present.eq(Mux(is_counted(index, config), judged.payload.present, 0)),
            judged.ready.eq(judge.i.ready),
            judge.length.valid.eq(to_judge.valid),
            judge.length.payload.eq(to_judge.payload.size),
            to_judge.ready.eq(judge.length.ready),
        ]
        with m.If(to_judge.valid & to_judge.ready):
            m.d.sync += index.eq(to_judge.payload.codec)

        # Write it.
        m.submodules.places = places = Fifo(LineCommand(config), LINES_UNDER_WAY)
        m.submodules.place_fork = place_fork = Fork(LineCommand(config), 2)
        connect(to_writer, places.i)
        connect(places.o, place_fork.i)
        to_shifter, to_job = place_fork.o
        # So that the writer knows of a line before the shifter begins it.
        m.submodules.leads = leads = PipelineRegister(range(config.lanes))
        connect(leads.o, shifter.lead)
        m.d.comb += [
            leads.i.valid.eq(to_shifter.valid),
            leads.i.payload.eq(to_shifter.payload.address[element_bits:width_bits]),
            to_shifter.ready.eq(leads.i.ready),
            writer.job.valid.eq(to_job.valid),
            writer.job.payload.dst.eq(to_job.payload.address),
            writer.job.payload.capacity.eq(to_job.payload.writable),
            writer.job.payload.limit.eq(to_job.payload.size),
            to_job.ready.eq(writer.job.ready),
        ]
        connect(judge.o, shifter.i)
        connect(shifter.o, writer.i)
        connect(writer.request, wiring.flipped(self.request))
        connect(writer.beats, wiring.flipped(self.beats))
        connect(wiring.flipped(self.response), writer.response)

        # What the stages tell, joined as it comes: the judgement waits for memory.
        origin = data.StructLayout({"place": place, "codec": range(len(config.codecs))})
        judgement = data.StructLayout(
            {
                "finding": Finding,
                "offset": offset_bits,
                "size": length_bits,
                "crc32": 32,
                "place": place,
            }
        )
        m.submodules.origins = origins = Fifo(origin, LINES_UNDER_WAY)
        m.submodules.judgements = judgements = Fifo(judgement, self.bursts)
        m.submodules.reports = reports = Fifo(ExpansionReport(config), REPORTS)
        verdict = judge.verdict.payload
        judges = Signal()
        m.d.comb += [
            origins.i.valid.eq(to_report.valid),
            origins.i.payload.place.eq(to_report.payload.address[:length_bits].as_signed()),
            origins.i.payload.codec.eq(to_report.payload.codec),
            to_report.ready.eq(origins.i.ready),
            judgements.i.valid.eq(origins.o.valid & judge.verdict.valid & crc.o.valid),
            judgements.i.payload.finding.eq(verdict.finding),
            # Otherwise no element was counted, and the stream is as long as the data.
            judgements.i.payload.offset.eq(
                Mux(is_counted(origins.o.payload.codec, config), verdict.offset, verdict.size)
            ),
            judgements.i.payload.size.eq(verdict.size),
            judgements.i.payload.crc32.eq(crc.o.payload),
            judgements.i.payload.place.eq(origins.o.payload.place),
            judges.eq(judgements.i.valid & judgements.i.ready),
            origins.o.ready.eq(judges),
            judge.verdict.ready.eq(judges),
            crc.o.ready.eq(judges),
        ]
        told = judgements.o.payload
        written = writer.outcome.payload
        before = Signal(place)
        failed = Signal()
        tells = Signal()
        report = reports.i.payload
        m.d.comb += [
            before.eq(written.address[:length_bits].as_signed() - told.place),
            failed.eq(written.error != BusError.NONE),
            reports.i.valid.eq(judgements.o.valid & writer.outcome.valid),
            report.finding.eq(told.finding),
            report.offset.eq(told.offset),
            # The first burst may begin before the line.
            report.size.eq(Mux(failed, Mux(before < 0, 0, before), told.size)),
            report.crc32.eq(told.crc32),
            report.error.eq(written.error),
            report.address.eq(written.address),
            tells.eq(reports.i.valid & reports.i.ready),
            judgements.o.ready.eq(tells),
            writer.outcome.ready.eq(tells),
        ]
        connect(reports.o, wiring.flipped(self.report))
        return m
