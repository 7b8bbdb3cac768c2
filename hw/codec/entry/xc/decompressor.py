"""The third code of entries, restored: see `cdma.golden.buddy.xc_entry`."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.xc_entry import CODE_BITS, KEPT_BYTES
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.entry.checker import first_one
from cdma.hw.codec.entry.payloads import ENTRY_BITS, EntrySector, RestoredSector
from cdma.hw.codec.stream.line_collector import LineBody
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.codec.xc.compressor.meter import DENSE_LINE, SPARSE_LINE
from cdma.hw.codec.xc.decompressor.class_reader import ClassReader, WidthCounter
from cdma.hw.codec.xc.decompressor.escape_reader import DecodedSector, EscapeReader, status_of
from cdma.hw.codec.xc.decompressor.head import HeadReader, front_bits
from cdma.hw.codec.xc.decompressor.index_reader import IndexReader
from cdma.hw.codec.xc.payloads import own_config
from cdma.hw.config import CodecConfig, EntryConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import PipelineRegister, registered

SECTORS_READ = 6
"""Sectors that can be between an entry's head and its elements."""


class XcEntry(data.StructLayout):
    """A kept entry, as far as it is one of XC.

    Members
    -------
    of_xc
        It is one.
    parameters
        Its page's.
    data
        What is kept of it.
    """

    def __init__(self) -> None:
        super().__init__({"of_xc": 1, "parameters": Parameters(), "data": 8 * KEPT_BYTES})


class XcResult(data.StructLayout):
    """What is wrong with an entry of XC: a `StreamStatus`, and the byte that it is at."""

    def __init__(self) -> None:
        super().__init__({"status": StreamStatus, "offset": range(KEPT_BYTES)})


class XcEntryChecker(wiring.Component):
    """Gathers what is wrong with an entry's sectors up to its end, and looks at what is behind.

    Latency: 0 cycles. Throughput: a sector per cycle.

    Parameters
    ----------
    config : EntryConfig
    codec : CodecConfig
        The line coder's.

    Members
    -------
    i : `In(stream.Signature(DecodedSector(codec, CODE_BITS)))`
    o : `Out(stream.Signature(EntrySector(config)))`
        Sectors, right or wrong.
    result : `Out(stream.Signature(XcResult()))`
        For each entry, with its last sector.
    """

    def __init__(self, config: EntryConfig, codec: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(DecodedSector(codec, CODE_BITS))),
                "o": Out(stream.Signature(EntrySector(config))),
                "result": Out(stream.Signature(XcResult())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sector, layout, result = self.i.payload, self.i.payload.layout, self.result.payload
        wrong_before, wrong = Signal(), Signal()
        goes_on, x_fire = Signal(), Signal()
        fill = Signal(KEPT_BYTES)
        status = Signal(StreamStatus)
        m.d.comb += [
            wrong.eq(
                wrong_before
                | sector.wrong.any()
                | sector.miscounted
                | sector.misfilled
                | (layout.misfilled & sector.ends)
            ),
            goes_on.eq(~sector.ends | self.result.ready),
            self.o.valid.eq(self.i.valid & goes_on),
            self.o.payload.data.eq(sector.elements.as_value()),
            x_fire.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(x_fire),
            self.result.valid.eq(self.i.valid & sector.ends & self.o.ready),
            status.eq(status_of(layout.status, C(0), wrong)),
            fill.eq(sector.nonzero & (C((1 << KEPT_BYTES) - 1, KEPT_BYTES) << sector.end)),
            result.status.eq(status),
        ]
        with m.If(layout.zero):
            m.d.comb += result.status.eq(StreamStatus.OK)
        with m.Elif((status == StreamStatus.OK) & fill.any()):
            m.d.comb += [
                result.status.eq(StreamStatus.NONZERO_FILL),
                result.offset.eq(first_one(m, fill, "fill")),
            ]
        with m.If(x_fire):
            m.d.sync += wrong_before.eq(wrong & ~sector.ends)
        return m


class XcEntryDecompressor(wiring.Component):
    """Restores a sector per cycle; zeros of entries that are none of XC, and of damaged ones.

    The pieces are those of `XcDecompressor`. An entry is there as a whole, so that its head needs
    no collector; there are neither raw lines nor truncated ones.

        XcEntry -+- head -> HeadReader -> ClassReader -> WidthCounter --+
                 +- body ----------------------> IndexReader <----------+
                                                   | +--- body ---+
                 XcEntryChecker <--- EscapeReader <---------------+
                      +-> sectors, result

    Stages: layout; classes; sums; extras picked; split; split; escapes; elements, and their check.

    Latency: `entry_latency` = 11 cycles from an entry to its first sector at sectors of 32 B, since
    all of them have to be looked at before; at most as many with wider ones. Throughput: a sector
    per cycle.

    Resources: two or three entries of registers, those of the stages, and a memory of 8, 6 or 5
    sectors of 32, 64 or 128 B.

    Parameters
    ----------
    config : EntryConfig

    Attributes
    ----------
    entry_latency : int
        Cycles from an entry to its first sector, at most.

    Members
    -------
    i : `In(stream.Signature(XcEntry()))`
    o : `Out(stream.Signature(RestoredSector(config)))`
        All sectors of each entry.
    """

    entry_latency = 11

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(XcEntry())),
                "o": Out(stream.Signature(RestoredSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        codec = own_config(self.config.zvc)
        sectors = codec.sectors
        m.submodules.fork = fork = Fork(XcEntry(), 2)
        m.submodules.head_reader = head_reader = HeadReader(codec)
        m.submodules.class_reader = class_reader = ClassReader(codec)
        m.submodules.index_reader = index_reader = IndexReader(codec)
        ahead = index_reader.stages + 1
        m.submodules.width_counter = width_counter = WidthCounter(codec, ahead=ahead)
        m.submodules.escape_reader = escape_reader = EscapeReader(codec, code_bits=CODE_BITS)
        m.submodules.checker = checker = XcEntryChecker(self.config, codec)
        # With those in the stages, as many as come in until the first one leaves.
        depth = self.entry_latency + sectors - SECTORS_READ - 1
        m.submodules.held = held = Fifo(EntrySector(self.config), depth)
        # In one of four cycles a result comes, and the entry leaves with the next one.
        m.submodules.results = results = (
            PipelineRegister(XcResult()) if sectors == 4 else Fifo(XcResult(), depth)
        )
        wiring.connect(m, wiring.flipped(self.i), fork.i)

        # The head: a header of the kind alone. The payload has the kind's bit cleared.
        headed, bodied = fork.o
        entry, head = headed.payload, head_reader.i.payload
        kind = Mux(entry.data[CODE_BITS], SPARSE_LINE, DENSE_LINE)
        m.d.comb += [
            head_reader.i.valid.eq(headed.valid),
            headed.ready.eq(head_reader.i.ready),
            head.header.eq(Cat(C(0, 6), Mux(entry.of_xc, kind, 0))),
            head.front.eq(entry.data[: front_bits(codec)]),
            head.parameters.eq(entry.parameters),
        ]
        bodies = stream.Signature(LineBody(codec)).create()
        m.d.comb += [
            bodies.valid.eq(bodied.valid),
            bodied.ready.eq(bodies.ready),
            bodies.payload.payload.as_value().eq(
                Cat(bodied.payload.data[:CODE_BITS], C(0, ENTRY_BITS - CODE_BITS))
            ),
        ]
        # As many as can be on their way to the index reader by their heads.
        waiting = registered(m, bodies, 3 if sectors == 1 else 2, name="body")
        wiring.connect(m, head_reader.o, class_reader.i)
        wiring.connect(m, class_reader.o, width_counter.i)
        wiring.connect(m, width_counter.o, index_reader.i)
        wiring.connect(m, waiting, index_reader.line)
        # The entry follows its sectors to the escapes, behind those of the entries before.
        line = registered(m, index_reader.passed, -(-index_reader.stages // sectors), name="line")
        wiring.connect(m, line, escape_reader.line)
        wiring.connect(m, width_counter.total, escape_reader.total)
        wiring.connect(m, index_reader.o, escape_reader.i)
        wiring.connect(m, escape_reader.o, checker.i)
        wiring.connect(m, checker.o, held.i)
        wiring.connect(m, checker.result, results.i)

        position = Signal(range(sectors))
        x_fire = Signal()
        ends = Signal()
        result, out = results.o.payload, self.o.payload
        m.d.comb += [
            ends.eq(position == sectors - 1),
            self.o.valid.eq(held.o.valid & results.o.valid),
            x_fire.eq(self.o.valid & self.o.ready),
            held.o.ready.eq(x_fire),
            results.o.ready.eq(x_fire & ends),
            out.data.eq(Mux(result.status == StreamStatus.OK, held.o.payload.data, 0)),
            out.status.eq(result.status),
            out.offset.eq(result.offset),
        ]
        with m.If(x_fire):
            m.d.sync += position.eq(Mux(ends, 0, position + 1))
        return m
