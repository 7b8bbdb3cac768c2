"""Lines out of the buffer, in the order of the transfer, to one stream."""

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError
from cdma.hw.codec.selection import head_sizes, is_one_of, summarizing_codecs
from cdma.hw.codec.stream.pack import OFFSET_BITS, Chunk, head_and_elements
from cdma.hw.config import EngineConfig
from cdma.hw.dma.line_crc import TransferCrc
from cdma.hw.dma.outbound.reader import LineFault
from cdma.hw.dma.outbound.unit import LineReport
from cdma.hw.dma.payloads import DrainJob, DrainOutcome, IssuedLines
from cdma.hw.lib.stream import LineBeat


class LineDrain(wiring.Component):
    """Takes lines from the units in turn, and what they tell of them.

    Two lines leave in one cycle when both are so short that they fit a chunk: the link is then busy
    at ratios at which a line per cycle would not do. The lines' CRCs are combined on the way.

    Latency: 0 cycles for lines; an outcome comes 2 + log2(line_bytes) cycles after a job's last
    chunk. Throughput: a line beat per cycle, or two lines.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job : `In(stream.Signature(DrainJob(config)))`
    ends : `In(stream.Signature(IssuedLines()))`
        Comes before the job's last line does.
    lines : `In(stream.Signature(LineBeat(config.codec))).array(config.units)`
    reports : `In(stream.Signature(LineReport(...))).array(config.units)`
    o : `Out(stream.Signature(Chunk(config.codec)))`
        The lead, then the lines.
    outcome : `Out(stream.Signature(DrainOutcome(config.codec.result_bits)))`
    starved : `Out(1)`
        In this cycle, a line would have been taken, and none was there.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "job": In(stream.Signature(DrainJob(config))),
                "ends": In(stream.Signature(IssuedLines())),
                "lines": In(stream.Signature(LineBeat(config.codec))).array(config.units),
                "reports": In(stream.Signature(LineReport(config.codec.summary_bits))).array(
                    config.units
                ),
                "o": Out(stream.Signature(Chunk(config.codec))),
                "outcome": Out(stream.Signature(DrainOutcome(config.codec.result_bits))),
                "starved": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        codec = config.codec
        units = config.units
        chunk_elements = codec.lanes + codec.head_elements

        active = Signal()
        leads = Signal()
        lead = Signal(range(codec.lanes))
        codec_index = Signal.like(self.job.payload.codec)
        heads = head_sizes(codec_index, codec)
        headed = Signal()
        m.d.comb += headed.eq(Cat(selected for _, selected in heads).any())
        head_elements: Value = C(0)
        for size, selected in heads:
            head_elements = Mux(selected, size, head_elements) if len(heads) > 1 else C(size)
        fill = Signal(range(codec.line_bytes))
        unit = Signal(range(units))
        inside = Signal()
        drained = Signal.like(self.ends.payload.lines)
        closed = Signal()
        spoiled = Signal()
        fault = Signal(LineFault(), reset_less=True)
        m.submodules.crc = crc = TransferCrc(codec)

        # The heads of this unit's queue and of the next one's.
        next_unit = Signal.like(unit)
        m.d.comb += next_unit.eq(Mux(unit == units - 1, 0, unit + 1))

        def head(port: str, which: Value, name: str) -> tuple[Signal, Signal]:
            streams = getattr(self, port)
            valid = Signal(name=f"{name}_valid")
            payload = Signal(streams[0].payload.shape(), name=name)
            m.d.comb += [
                valid.eq(Array(s.valid for s in streams)[which]),
                payload.as_value().eq(Array(s.payload.as_value() for s in streams)[which]),
            ]
            return valid, payload

        beat_valid, beat = head("lines", unit, "beat")
        report_valid, report = head("reports", unit, "report")
        mate_valid, mate = head("lines", next_unit, "mate")
        mate_report_valid, mate_report = head("reports", next_unit, "mate_report")

        # All lines are out when as many are as were issued.
        all_out = Signal()
        this_ends = Signal()
        m.d.comb += [
            all_out.eq(self.ends.valid & (drained == self.ends.payload.lines)),
            this_ends.eq(self.ends.valid & (drained + 1 == self.ends.payload.lines)),
        ]
        faulty = Signal()
        m.d.comb += faulty.eq(~inside & (report.fault.error != BusError.NONE))
        present = Signal()
        m.d.comb += present.eq(active & ~leads & ~all_out & beat_valid & (inside | report_valid))

        count = Signal(range(chunk_elements + 1))
        both = Signal(range(2 * chunk_elements + 1))
        fits = Signal()
        pairs = Signal()
        m.d.comb += [
            count.eq(beat.count + Mux(beat.sol & headed, head_elements, 0)),
            both.eq(count + mate.count + head_elements),
            fits.eq(
                beat.sol
                & beat.eol
                & mate_valid
                & mate_report_valid
                & headed
                & ~this_ends
                & (both <= chunk_elements)
                & (mate_report.fault.error == BusError.NONE)
                if units > 1
                else 0
            ),
        ]
        # A line that was offered alone leaves alone: what is offered must not change.
        waits = Signal()
        waits_alone = Signal()
        m.d.comb += pairs.eq(fits & ~(waits & waits_alone))
        m.d.sync += [waits.eq(self.o.valid & ~self.o.ready), waits_alone.eq(~pairs)]

        ends_second = Signal()
        m.d.comb += ends_second.eq(self.ends.valid & (drained + 2 == self.ends.payload.lines))

        # What goes out: the lead, lines, or an end that could not be marked on a line.
        own_heads = [(size, beat.sol & selected) for size, selected in heads]
        own = head_and_elements(m, codec, beat, own_heads, name="own")
        # A mate has a head, or goes nowhere.
        mate_heads = heads if len(heads) > 1 else [(size, C(1, 1)) for size, _ in heads]
        mates = head_and_elements(m, codec, mate, mate_heads, name="mates")
        for k in range((chunk_elements - 1).bit_length()):
            distance = 1 << k
            moved = [
                Signal(8 * codec.element_bytes, name=f"mates_by_{distance}_{j}")
                for j in range(chunk_elements)
            ]
            for j, element in enumerate(moved):
                far = mates[j - distance] if j >= distance else 0
                m.d.comb += element.eq(Mux(count[k], far, mates[j]))
            mates = list(moved)

        line_goes = Signal()
        end_goes = Signal()
        drops = Signal()
        out = self.o.payload
        m.d.comb += [
            drops.eq(present & (spoiled | faulty)),
            line_goes.eq(present & ~spoiled & ~faulty),
            end_goes.eq(active & ~leads & all_out & ~closed),
            self.o.valid.eq((active & leads) | line_goes | end_goes),
        ]
        with m.If(leads):
            m.d.comb += out.count.eq(lead)
        with m.Elif(line_goes):
            m.d.comb += [
                out.elements.as_value().eq(
                    Cat(
                        own_element | Mux(pairs, mates_element, 0)
                        for own_element, mates_element in zip(own, mates, strict=True)
                    )
                ),
                out.count.eq(Mux(pairs, both, count)),
                out.last.eq(Mux(pairs, ends_second, this_ends & beat.eol)),
            ]
        with m.Elif(end_goes):
            m.d.comb += out.last.eq(1)

        goes = Signal()
        takes = Signal()
        m.d.comb += [
            goes.eq(self.o.valid & self.o.ready),
            takes.eq(drops | (line_goes & self.o.ready)),
            self.starved.eq(active & ~leads & ~all_out & ~present & self.o.ready),
        ]
        took_two = Signal()
        m.d.comb += took_two.eq(takes & pairs & ~drops)
        for k in range(units):
            first = takes & (unit == k)
            second = took_two & (next_unit == k)
            m.d.comb += [
                self.lines[k].ready.eq(first | second),
                self.reports[k].ready.eq((first & ~inside) | second),
            ]
        with m.If(takes):
            m.d.sync += [
                inside.eq(~beat.eol),
                drained.eq(drained + Mux(took_two, 2, beat.eol)),
            ]
            with m.If(took_two):
                m.d.sync += unit.eq(Mux(next_unit == units - 1, 0, next_unit + 1))
            with m.Elif(beat.eol):
                m.d.sync += unit.eq(next_unit)
            with m.If(~inside & ~spoiled):
                m.d.sync += spoiled.eq(faulty)
                with m.If(faulty):
                    m.d.sync += fault.eq(report.fault)
        with m.If(goes):
            m.d.sync += [leads.eq(0), closed.eq(closed | out.last)]

        m.d.comb += [
            crc.lines.eq(Mux(takes & ~inside, 1 + took_two, 0)),
            crc.first.eq(report.crc32),
            crc.second.eq(mate_report.crc32),
        ]

        # What codecs tell of the job beside: each of them of all lines, whatever their codec.
        collectors = []
        place = 0
        for entry in summarizing_codecs(codec):
            m.submodules[f"{entry.name}_collector"] = collector = entry.summary_collector(codec)
            collectors.append((entry, collector))
            bits = entry.line_summary_bits
            m.d.comb += [
                collector.begins.eq(self.job.ready),
                collector.lines.eq(crc.lines),
                collector.first.eq(report.summary[place : place + bits]),
                collector.second.eq(mate_report.summary[place : place + bits]),
                collector.ends.eq(crc.ends),
            ]
            place += bits

        # How far the destination goes, a cycle behind: what ends in it is whole.
        size = Signal(OFFSET_BITS)
        capacity = Signal(OFFSET_BITS, reset_less=True)
        whole = Signal(data.StructLayout({"lines": len(drained), "size": OFFSET_BITS}))
        whole_now = Signal.like(whole)
        checked = Signal(data.ArrayLayout(whole.shape(), 2), reset_less=True)
        to_check = Signal(2)
        size_one = Signal(OFFSET_BITS)
        size_two = Signal(OFFSET_BITS)
        m.d.comb += [
            size_one.eq(size + count * codec.element_bytes),
            size_two.eq(size + both * codec.element_bytes),
            whole_now.eq(whole),
        ]
        m.d.sync += to_check.eq(Cat(takes & ~drops & beat.eol, took_two))
        with m.If(takes & ~drops):
            m.d.sync += [
                size.eq(Mux(took_two, size_two, size_one)),
                checked[0].size.eq(size_one),
                checked[0].lines.eq(drained + 1),
                checked[1].size.eq(size_two),
                checked[1].lines.eq(drained + 2),
            ]
        for k in range(2):
            with m.If(to_check[k] & (checked[k].size <= capacity)):
                m.d.comb += whole_now.eq(checked[k])
        m.d.sync += whole.eq(whole_now)

        # The outcome, less the zeros that filled the last line.
        told = Signal()
        outcome = Signal(DrainOutcome(), reset_less=True)
        settled = Signal()
        over = Signal()
        m.d.comb += [
            over.eq(active & ~leads & all_out & closed & ~told),
            self.ends.ready.eq(over),
            settled.eq(Cat(crc.settled, *(block.settled for _, block in collectors)).all()),
            self.outcome.valid.eq(told & settled),
            self.outcome.payload.eq(outcome),
            self.outcome.payload.crc32.eq(crc.crc32),
            self.job.ready.eq(~active | over),
            crc.begins.eq(self.job.ready),
            crc.ends.eq(over),
            crc.fill.eq(fill),
        ]
        with m.If(over):
            m.d.sync += [
                told.eq(1),
                outcome.lines.eq(drained),
                outcome.whole_lines.eq(whole_now.lines),
                outcome.whole_size.eq(whole_now.size),
                outcome.cut.eq(self.ends.payload.cut),
                outcome.error.eq(Mux(spoiled, fault.error, BusError.NONE)),
                outcome.address.eq(fault.address),
            ]
        with m.Elif(settled & self.outcome.ready):
            m.d.sync += told.eq(0)
        if collectors:
            ended_codec = Signal.like(codec_index)
            with m.If(over):
                m.d.sync += ended_codec.eq(codec_index)
            m.d.comb += self.outcome.payload.result.eq(0)
            for entry, collector in collectors:
                index = codec.entries.index(entry)
                with m.If(is_one_of(ended_codec, (index,), codec)):
                    m.d.comb += self.outcome.payload.result.eq(collector.result)

        with m.If(self.job.ready):
            m.d.sync += [
                active.eq(self.job.valid),
                leads.eq(self.job.payload.lead != 0),
                lead.eq(self.job.payload.lead),
                codec_index.eq(self.job.payload.codec),
                fill.eq(self.job.payload.fill),
                capacity.eq(self.job.payload.capacity),
                size.eq(0),
                whole.eq(0),
                unit.eq(self.job.payload.first_unit),
                drained.eq(0),
                closed.eq(0),
                spoiled.eq(0),
            ]
        return m
