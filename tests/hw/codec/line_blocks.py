"""Pipelines of byte lines between the framing of the AXI4-Stream blocks, for `Pipeline`.

Commands of these blocks have no parameters: the transfers take a power of two of them in turn.
"""

from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Array, C, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.bus.axi import AxiStreamReceiver, AxiStreamSender, AxiStreamSignature
from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Sector
from cdma.hw.codec.stream.checker import LineError, StreamChecker
from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.codec.stream.status import DecompressorStatus, Expectation, TransferStatus
from cdma.hw.codec.stream.unpack import StreamTail, Unpacker
from cdma.hw.codec.zvc.axis import CompressCommand, DecompressCommand, ZvcCompressorAxis
from cdma.hw.emit.netlist import to_verilog
from cdma.hw.lib.codes.crc import Crc32
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import PipelineRegister
from cdma.hw.lib.ports import RecordPortSignature, RecordReceiver, RecordSender
from cdma.sim.machine import Pipeline

LINE = 128

BAD_TOKEN = StreamStatus.ZERO_ELEMENT
"""What the blocks say instead: their status records know ZVC's errors only."""


def _in_turn(m, parameters, ends):
    """The parameters of the transfer that comes, and then of the next one."""
    number = Signal(range(len(parameters)))
    with m.If(ends):
        m.d.sync += number.eq(number + 1)
    return Array(C(value, max(parameters).bit_length()) for value in parameters)[number]


class TurningCompressor(wiring.Component):
    """A line compressor that gives each transfer the next parameters."""

    def __init__(self, compressor, config, parameters):
        self.compressor = compressor
        self.config = config
        self.parameters = parameters
        self.line_latency = 0
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.compressor = compressor = self.compressor
        ends = self.i.valid & self.i.ready & self.i.payload.last
        parameters = _in_turn(m, self.parameters, ends)
        m.d.comb += [
            compressor.i.payload.eq(self.i.payload),
            compressor.i.payload.parameters.eq(parameters),
            compressor.i.valid.eq(self.i.valid),
            self.i.ready.eq(compressor.i.ready),
        ]
        wiring.connect(m, compressor.o, wiring.flipped(self.o))
        return m


class Places(data.StructLayout):
    """Places of a transfer's first wrong line, its last line and its end in the stream."""

    def __init__(self):
        super().__init__({"wrong": OFFSET_BITS, "line": OFFSET_BITS, "end": OFFSET_BITS})


class TurningDecompressor(wiring.Component):
    """A line decompressor that gives each transfer the next parameters."""

    def __init__(self, decompressor, config, parameters):
        self.decompressor = decompressor
        self.config = config
        self.parameters = parameters
        self.sector_latency = 0
        super().__init__(
            {
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
                "places": Out(stream.Signature(Places())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.decompressor = decompressor = self.decompressor
        m.submodules.told = told = Fifo(Places(), 16)
        ends = self.i.valid & self.i.ready & self.i.payload.last
        m.d.comb += decompressor.parameters.eq(_in_turn(m, self.parameters, ends))
        sector = self.o.payload
        m.d.comb += [
            decompressor.i.payload.eq(self.i.payload),
            decompressor.i.valid.eq(self.i.valid),
            self.i.ready.eq(decompressor.i.ready),
            sector.eq(decompressor.o.payload),
            self.o.valid.eq(decompressor.o.valid & told.i.ready),
            decompressor.o.ready.eq(self.o.ready & told.i.ready),
        ]
        wiring.connect(m, told.o, wiring.flipped(self.places))

        place, line, wrong = (Signal(OFFSET_BITS, name=n) for n in ("place", "line", "wrong"))
        failed = Signal()
        here, fails = Signal(OFFSET_BITS), Signal()
        m.d.comb += [
            here.eq(Mux(sector.sol, place, line)),
            fails.eq(~failed & (sector.status != StreamStatus.OK)),
            told.i.valid.eq(decompressor.o.valid & self.o.ready & sector.last),
            told.i.payload.wrong.eq(Mux(fails, here, wrong)),
            told.i.payload.line.eq(here),
            told.i.payload.end.eq(here + sector.offset),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                line.eq(here),
                place.eq(Mux(sector.last, 0, here + sector.offset)),
                failed.eq(~sector.last & (failed | fails)),
                wrong.eq(told.i.payload.wrong),
            ]
        return m


class CompressorBlock(ZvcCompressorAxis):
    """As `ZvcCompressorAxis`, with another compressor in it."""

    def __init__(self, compressor, config, parameters):
        self.config = config
        self._compressor = TurningCompressor(compressor, config, parameters)
        width = config.sector_bytes
        wiring.Component.__init__(
            self,
            {
                "s_cmd": In(RecordPortSignature(CompressCommand())),
                "s_axis": In(AxiStreamSignature(width)),
                "m_axis": Out(AxiStreamSignature(width)),
                "m_sts": Out(RecordPortSignature(TransferStatus())),
            },
        )


class DecompressorBlock(wiring.Component):
    """As `ZvcDecompressorAxis`, with places in the stream that come from the lines' own."""

    def __init__(self, decompressor, config, parameters):
        self.config = config
        self.decompressor = TurningDecompressor(decompressor, config, parameters)
        width = config.sector_bytes
        super().__init__(
            {
                "s_cmd": In(RecordPortSignature(DecompressCommand())),
                "s_axis": In(AxiStreamSignature(width)),
                "m_axis": Out(AxiStreamSignature(width)),
                "m_sts": Out(RecordPortSignature(TransferStatus())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        width = config.sector_bytes
        m.submodules.command = command = RecordReceiver(DecompressCommand())
        m.submodules.fork = fork = Fork(DecompressCommand(), 3)
        m.submodules.receiver = receiver = AxiStreamReceiver(width)
        m.submodules.unpacker = unpacker = Unpacker(config)
        m.submodules.decompressor = decompressor = self.decompressor
        m.submodules.checker = checker = StreamChecker(config)
        m.submodules.crc = crc = Crc32(width)
        m.submodules.sender = sender = AxiStreamSender(width)
        m.submodules.expectation = expectation = PipelineRegister(Expectation())
        m.submodules.tail = tail = PipelineRegister(StreamTail())
        m.submodules.joiner = joiner = DecompressorStatus()
        m.submodules.status = status = RecordSender(TransferStatus())

        wiring.connect(m, wiring.flipped(self.s_cmd), command.port)
        wiring.connect(m, wiring.flipped(self.s_axis), receiver.axis)
        wiring.connect(m, command.o, fork.i)
        to_unpacker, to_checker, to_joiner = fork.o
        m.d.comb += [
            unpacker.command.valid.eq(to_unpacker.valid),
            unpacker.command.payload.eq((to_unpacker.payload.length + (LINE - 1)) // LINE),
            to_unpacker.ready.eq(unpacker.command.ready),
            checker.length.valid.eq(to_checker.valid),
            checker.length.payload.eq(to_checker.payload.length),
            to_checker.ready.eq(checker.length.ready),
            expectation.i.valid.eq(to_joiner.valid),
            expectation.i.payload.crc32.eq(to_joiner.payload.crc32),
            expectation.i.payload.check.eq(to_joiner.payload.check_crc),
            to_joiner.ready.eq(expectation.i.ready),
        ]
        crc.watch(m, checker.o, sender.i, data=checker.o.payload.data)
        for source, sink in (
            (receiver.o, unpacker.i),
            (unpacker.o, decompressor.i),
            (decompressor.o, checker.i),
            (sender.axis, wiring.flipped(self.m_axis)),
            (expectation.o, joiner.expectation),
            (unpacker.tail, tail.i),
            (tail.o, joiner.tail),
            (crc.result, joiner.crc32),
            (joiner.o, status.i),
            (status.port, wiring.flipped(self.m_sts)),
        ):
            wiring.connect(m, source, sink)

        found, result = checker.result.payload, joiner.checked.payload
        places = decompressor.places
        m.d.comb += [
            joiner.checked.valid.eq(checker.result.valid & places.valid),
            checker.result.ready.eq(joiner.checked.ready & places.valid),
            places.ready.eq(joiner.checked.ready & checker.result.valid),
            result.line_error.eq(found.line_error),
            result.offset.eq(places.payload.end),
            result.size.eq(found.size),
        ]
        with m.If(found.line_error == LineError.FILL_NONZERO):
            m.d.comb += result.offset.eq(places.payload.line)
        with m.Elif(found.line_error == LineError.CODEC):
            m.d.comb += [result.offset.eq(places.payload.wrong)]
            with m.Switch(found.status):
                with m.Case(StreamStatus.MASK_TRUNCATED):
                    m.d.comb += result.line_error.eq(LineError.MASK_MISSING)
                with m.Case(StreamStatus.PAYLOAD_TRUNCATED):
                    m.d.comb += result.line_error.eq(LineError.ELEMENT_MISSING)
                with m.Default():
                    m.d.comb += result.line_error.eq(LineError.ELEMENT_ZERO)
        return m


@dataclass(frozen=True)
class VerilogText:
    name: str
    text: str


def block_rtl(block, name):
    modules = to_verilog(block, name, assertions=True)
    return VerilogText(name, "\n".join(module.text for module in modules))


def pipeline(block, codec, config, parameters):
    """A block as a `Pipeline`.

    Parameters
    ----------
    block : type
        `CompressorBlock` or `DecompressorBlock`.
    codec : Component
        The line compressor or decompressor in it.
    config : CodecConfig
    parameters : sequence of int
        As the codec's ports have them.
    """
    return Pipeline.of_verilog(block_rtl(block(codec, config, parameters), "line_block"))


def damaged(rng, packets, streams, *, value_bytes=1):
    """Streams that differ from good ones in a few bits or bytes, in length, or in all; lengths.

    Parameters
    ----------
    rng : Generator
    packets, streams : Packets
        Data, and the good streams of it.
    value_bytes : int
        Lengths that are announced are multiples of it.
    """
    out, lengths = [], []
    for i, size in enumerate(packets.sizes.tolist()):
        stream = streams.packet(i).copy()
        kind = rng.integers(0, 9)
        if kind == 1 and stream.size:
            stream = stream[: rng.integers(0, stream.size)]
        elif kind == 2:
            stream = np.concatenate([stream, rng.integers(0, 256, rng.integers(1, 40), np.uint8)])
        elif kind == 3:
            stream = rng.integers(0, 256, rng.integers(0, 300), np.uint8)
        elif kind in (4, 5) and stream.size:
            for _ in range(rng.integers(1, 4)):
                stream[rng.integers(0, stream.size)] ^= 1 << rng.integers(0, 8)
        elif kind == 6 and stream.size:
            start = rng.integers(0, stream.size)
            stream[start : start + 8] = rng.integers(0, 256, stream[start : start + 8].size)
        elif kind == 7:
            most = 2 * LINE // value_bytes
            size = max(0, size + value_bytes * rng.integers(-most, most))
        elif kind == 8 and stream.size:
            # The first line's header.
            stream[0] = rng.integers(0, 256)
        out.append(stream)
        lengths.append(size)
    return out, np.array(lengths)
