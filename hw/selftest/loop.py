"""The codec between a generator and a comparator: out through one half, back through the other."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.bus.axi import AxiStreamSignature
from cdma.hw.codec.stream.status import TransferStatus
from cdma.hw.codec.zvc.axis import ZvcCompressorAxis, ZvcDecompressorAxis
from cdma.hw.selftest.comparator import COUNT_BITS, BeatComparator, StreamMeter
from cdma.hw.selftest.config import SelfTestConfig
from cdma.hw.selftest.gate import StallGate
from cdma.hw.selftest.generator import SectorGenerator
from cdma.hw.selftest.plan import RoundPlan

GATE_SEEDS = {"source": 0xACE1, "middle": 0x1D2B, "sink": 0x7A35}


class Checks(data.StructLayout):
    """Errors in what the codec reports, beside the data.

    Members
    -------
    compressor
        It reports an error, or accepted another length.
    decompressor
        It reports an error, or sent another length.
    crc32
        The two do not tell the same CRC-32 of the uncompressed data.
    size
        The number of bytes that passed is not the one that the compressor reports.
    """

    def __init__(self) -> None:
        super().__init__({"compressor": 1, "decompressor": 1, "crc32": 1, "size": 1})


class CodecLoop(wiring.Component):
    """A round: a packet from a generator through compressor and decompressor to the comparator.

    The packet may be stalled before the compressor, between the two and behind the decompressor.
    Nothing of one round is left in the codec for the next, but that both begin with commands and
    packets that follow at once.

    Latency: `done` comes after both have reported the end of the packet, and the comparator has
    received all of it. `moved` is high in each cycle in which a sector is sent or compared or a
    status is accepted; a round in which it stays low hangs.

    Parameters
    ----------
    config : SelfTestConfig

    Members
    -------
    start : `In(1)`
        Begin a round; the one before has ended.
    plan : `In(RoundPlan())`
        Stays as it is during the round.
    fault : `In(1)`
        At `start`: in this round, flip the top bit of the compressed stream's first beat.
    stuck : `In(1)`
        At `start`: in this round, let nothing through between compressor and decompressor.
    sectors : `Out(32)`
        That the compressor took.
    compressed : `Out(32)`
        Bytes that it gave.
    wrong : `Out(32)`
        Sectors that came back wrong, or not at all.
    checks : `Out(Checks())`
    compressor_status, decompressor_status : `Out(4)`
        Numbers of `golden.StreamStatus`.
    moved : `Out(1)`
    done : `Out(1)`
        The round has ended, and the figures are complete.
    """

    def __init__(self, config: SelfTestConfig) -> None:
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "plan": In(RoundPlan()),
                "fault": In(1),
                "stuck": In(1),
                "sectors": Out(COUNT_BITS),
                "compressed": Out(COUNT_BITS),
                "wrong": Out(COUNT_BITS),
                "checks": Out(Checks()),
                "compressor_status": Out(4),
                "decompressor_status": Out(4),
                "moved": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, codec, width = self.config, self.config.codec, self.config.codec.sector_bytes
        m.submodules.source = source = SectorGenerator(codec, config.lines)
        m.submodules.source_gate = source_gate = StallGate(width, GATE_SEEDS["source"])
        m.submodules.compressor = compressor = ZvcCompressorAxis(codec)
        m.submodules.middle_gate = middle_gate = StallGate(width, GATE_SEEDS["middle"])
        m.submodules.meter = meter = StreamMeter(width)
        m.submodules.decompressor = decompressor = ZvcDecompressorAxis(codec)
        m.submodules.sink_gate = sink_gate = StallGate(width, GATE_SEEDS["sink"])
        m.submodules.expected = expected = SectorGenerator(codec, config.lines)
        m.submodules.comparator = comparator = BeatComparator(codec)

        fault = Signal()
        stuck = Signal()
        with m.If(self.start):
            m.d.sync += [fault.eq(self.fault), stuck.eq(self.stuck)]

        for generator in (source, expected):
            m.d.comb += [generator.start.eq(self.start), generator.plan.eq(self.plan)]
        for gate in (source_gate, middle_gate, sink_gate):
            m.d.comb += gate.stalls.eq(self.plan.stalls)
        m.d.comb += middle_gate.closed.eq(stuck)

        # The generator's beats are whole.
        sends = Signal()
        m.d.comb += [
            source_gate.i.tvalid.eq(source.o.valid),
            source_gate.i.tdata.eq(source.o.payload.data),
            source_gate.i.tkeep.eq((1 << width) - 1),
            source_gate.i.tlast.eq(source.o.payload.last),
            source.o.ready.eq(source_gate.i.tready),
            sends.eq(source.o.valid & source.o.ready),
        ]
        wiring.connect(m, source_gate.o, compressor.s_axis)
        wiring.connect(m, compressor.m_axis, middle_gate.i)

        # The link between the two, where a fault can be planted.
        link = AxiStreamSignature(width).create()
        wiring.connect(m, middle_gate.o, wiring.flipped(link))
        first = Signal(init=1)
        passes = Signal()
        m.d.comb += [
            passes.eq(link.tvalid & link.tready),
            decompressor.s_axis.tvalid.eq(link.tvalid),
            decompressor.s_axis.tdata.eq(link.tdata ^ ((fault & first) << (8 * width - 1))),
            decompressor.s_axis.tkeep.eq(link.tkeep),
            decompressor.s_axis.tlast.eq(link.tlast),
            link.tready.eq(decompressor.s_axis.tready),
            meter.start.eq(self.start),
            meter.passes.eq(passes),
            meter.tkeep.eq(link.tkeep),
            self.compressed.eq(meter.count),
        ]
        with m.If(passes):
            m.d.sync += first.eq(link.tlast)

        wiring.connect(m, decompressor.m_axis, sink_gate.i)
        wiring.connect(m, sink_gate.o, comparator.i)
        wiring.connect(m, expected.o, comparator.expected)
        m.d.comb += [comparator.start.eq(self.start), self.wrong.eq(comparator.wrong)]

        # Commands stay valid until they are accepted; status records are accepted at once.
        for command in (compressor.s_cmd, decompressor.s_cmd):
            with m.If(self.start):
                m.d.sync += command.valid.eq(1)
            with m.Elif(command.ready):
                m.d.sync += command.valid.eq(0)
            m.d.comb += command.length.eq(config.length)
        record_done = Signal(2)
        records = []
        for k, (name, port) in enumerate(
            (("compressor", compressor.m_sts), ("decompressor", decompressor.m_sts))
        ):
            record = Signal(TransferStatus(), name=f"{name}_record")
            m.d.comb += port.ready.eq(1)
            with m.If(self.start):
                m.d.sync += [record_done[k].eq(0), record.eq(0)]
            with m.Elif(port.valid):
                m.d.sync += record_done[k].eq(1)
                m.d.sync += (record[field].eq(getattr(port, field)) for field, _ in record.shape())
            records.append(record)
        compressed, expanded = records

        length = config.length
        m.d.sync += [
            self.checks.compressor.eq(
                (compressed.status != StreamStatus.OK) | (compressed.offset != length)
            ),
            self.checks.decompressor.eq(
                (expanded.status != StreamStatus.OK) | (expanded.out_size != length)
            ),
            self.checks.crc32.eq(compressed.crc32 != expanded.crc32),
            self.checks.size.eq(compressed.out_size != self.compressed),
            self.sectors.eq(Mux(self.start, 0, self.sectors + sends)),
        ]
        ended = Signal()
        m.d.comb += [
            ended.eq(record_done.all() & comparator.done),
            self.moved.eq(
                sends
                | comparator.took
                | (~record_done & Cat(compressor.m_sts.valid, decompressor.m_sts.valid)).any()
            ),
            self.compressor_status.eq(compressed.status),
            self.decompressor_status.eq(expanded.status),
        ]
        # The checks are a cycle behind.
        m.d.sync += self.done.eq(ended & ~self.start)
        return m
