"""A compression unit beside a memory controller: lines leave it compressed.

So the crossbar to the DMA engine carries compressed lines only, which is why the units are not in
the engine itself (cDMA, §V-B).
"""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest
from cdma.hw.codec.payloads import LineBeat, Sector
from cdma.hw.codec.selection import line_compressor, lossy_codecs, summarizing_codecs
from cdma.hw.config import CodecConfig
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS
from cdma.hw.dma.line_crc import LineCrc
from cdma.hw.dma.outbound.reader import LineEnd, LineReader, LineRequest
from cdma.hw.dma.outbound.unit_crc import UnitCrc
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.fork import Fork


class LineReport(data.StructLayout):
    """A unit's report on a line, beside its data.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    error, beat
        The bus's error, if there was one, and the number of the line's beat that has it.
    last
        It is the last line of its job that the unit reads; a job that is cut may have none.
    summary
        Summaries by all codecs that have a result, in the configuration's order, from bit 0.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "error": BusError,
                "beat": range(config.sectors + 1),
                "last": 1,
                "summary": config.summary_bits,
            }
        )


class UnitReport(data.StructLayout):
    """A unit's report on a line, and the checksum that may go with it.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    line
        What is queued beside the line.
    crc32
        The CRC-32 of the job's lines that the unit has read, this one included, as they will come
        back, and of their padding; as of `UnitCrc`.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"line": LineReport(config), "crc32": 32})


class CompressionUnit(wiring.Component):
    """Reads lines from its memory, and compresses them.

    Latency: a line's first beat comes 2 cycles after the compressor's `line_latency`, counted from
    the line's first beat from memory. Throughput: a line in as many cycles as it has sectors, one
    more if it begins inside a beat; lines of two or three sectors take four without a lossy codec.

    Parameters
    ----------
    config : CodecConfig
    lines
        The largest number of lines outstanding in memory.
    units
        The number of units that a job's lines go to in turn, of which this is one.
    rings
        The number of rings that lines come from.

    Members
    -------
    i : `In(stream.Signature(LineRequest(config, rings)))`
    request : `Out(stream.Signature(ReadRequest(40, rings)))`
    beats : `In(stream.Signature(ReadBeat(config.sector_bytes)))`
    o : `Out(stream.Signature(LineBeat(config)))`
        The lines. Plain copies are full ones.
    report : `Out(stream.Signature(UnitReport(config)))`
        For each line, before its last beat. Must not wait for that: no report is queued here.
    ended, failed : `Out(1)`
        As of `LineReader`.
    """

    def __init__(self, config: CodecConfig, lines: int, units: int = 1, rings: int = 1) -> None:
        self.config = config
        self.lines = lines
        self.units = units
        self.rings = rings
        super().__init__(
            {
                "i": In(stream.Signature(LineRequest(config, rings))),
                "request": Out(stream.Signature(ReadRequest(DEVICE_ADDRESS_BITS, rings))),
                "beats": In(stream.Signature(ReadBeat(config.sector_bytes))),
                "o": Out(stream.Signature(LineBeat(config))),
                "report": Out(stream.Signature(UnitReport(config))),
                "ended": Out(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.reader = reader = LineReader(self.config, self.lines, self.rings)
        summarizing = summarizing_codecs(self.config)
        m.submodules.fork = fork = Fork(Sector(self.config), 2 + len(summarizing))
        m.submodules.crc = crc = LineCrc(self.config)
        m.submodules.unit_crc = unit_crc = UnitCrc(self.config, self.units)
        m.submodules.compressor = compressor = line_compressor(self.config)

        wiring.connect(m, wiring.flipped(self.i), reader.i)
        wiring.connect(m, reader.request, wiring.flipped(self.request))
        wiring.connect(m, wiring.flipped(self.beats), reader.beats)
        wiring.connect(m, reader.o, fork.i)
        m.d.comb += [self.ended.eq(reader.ended), self.failed.eq(reader.failed)]
        wiring.connect(m, fork.o[0], compressor.i)
        returning, end = fork.o[1], reader.end
        lossy = lossy_codecs(self.config)
        for entry in lossy:
            m.submodules[f"{entry.identifier}_restorer"] = restorer = entry.line_restorer(
                self.config
            )
            wiring.connect(m, returning, restorer.i)
            returning = restorer.o
        wiring.connect(m, returning, crc.i)
        if lossy or self.config.sectors == 1:
            # Lines have been read before they have come through the restorers, and before the CRC
            # is there; behind a line of one sector the next one's end comes meanwhile.
            m.submodules.ends = ends = Fifo(LineEnd(self.config), 8)
            wiring.connect(m, end, ends.i)
            end = ends.o
        wiring.connect(m, compressor.o, wiring.flipped(self.o))
        summaries = []
        for entry, sectors in zip(summarizing, fork.o[2:], strict=True):
            m.submodules[f"{entry.identifier}_summary"] = summary = entry.line_summary(self.config)
            wiring.connect(m, sectors, summary.i)
            summaries.append(summary.o)
        parts = (crc.o, end, *summaries)
        m.d.comb += [
            self.report.valid.eq(Cat(part.valid for part in parts).all()),
            self.report.payload.line.error.eq(end.payload.error),
            self.report.payload.line.beat.eq(end.payload.beat),
            self.report.payload.line.last.eq(end.payload.place.last),
            self.report.payload.line.summary.eq(Cat(summary.payload for summary in summaries)),
            *(part.ready.eq(self.report.valid & self.report.ready) for part in parts),
            unit_crc.valid.eq(self.report.valid & self.report.ready),
            unit_crc.line.eq(crc.o.payload),
            unit_crc.place.eq(end.payload.place),
            self.report.payload.crc32.eq(unit_crc.crc),
        ]
        return m
