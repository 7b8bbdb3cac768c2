"""The zero-value codec as blocks for a design: AXI4-Stream in, AXI4-Stream out, a command before
and a status record after each transfer."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import AxiStreamReceiver, AxiStreamSender, AxiStreamSignature
from cdma.hw.codec.stream.checker import StreamChecker
from cdma.hw.codec.stream.frame import LinePadder, PacketTrimmer
from cdma.hw.codec.stream.pack import LENGTH_BITS, Packer
from cdma.hw.codec.stream.status import (
    ByteMeter,
    CompressorStatus,
    DecompressorStatus,
    Expectation,
    TransferStatus,
)
from cdma.hw.codec.stream.unpack import StreamTail, Unpacker
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.config import CodecConfig
from cdma.hw.lib.codes.crc import Crc32
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import PipelineRegister
from cdma.hw.lib.ports import RecordPortSignature, RecordReceiver, RecordSender


class CompressCommand(data.StructLayout):
    """Announces a packet to compress.

    Members
    -------
    length
        Its size in bytes.
    """

    def __init__(self) -> None:
        super().__init__({"length": LENGTH_BITS})


class DecompressCommand(data.StructLayout):
    """Announces a packet to decompress.

    Members
    -------
    length
        Size of the uncompressed data in bytes.
    crc32
        CRC-32 of the uncompressed data, as the compressor reported it.
    check_crc
        Compare with it.
    """

    def __init__(self) -> None:
        super().__init__({"length": LENGTH_BITS, "crc32": 32, "check_crc": 1})


class ZvcCompressorAxis(wiring.Component):
    """Compresses packets: one command and one packet in, one packet and one status record out.

    The packet is padded with zeros to whole lines; the padding costs no payload. A packet that is
    shorter or longer than announced, or torn, gives LENGTH_MISMATCH: its bytes up to there are
    compressed, the rest is dropped. Commands may run ahead of packets. The block never waits for a
    status to be taken before it takes the next packet, but for the end of the one after it.

    Latency: `line_latency` cycles from a line's first sector at the port to the first output beat,
    if the line fills a beat: the pipeline's (6 for 32 B, 7 if "fast") and 2, in the buffer at
    the port and in packing. Throughput: a sector per cycle, also across packets of 32 beats and
    more; data so dense that it grows is limited by the output. Short packets take about 10 cycles
    each, for their checksums.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    line_latency : int

    Members
    -------
    s_cmd : `In(RecordPortSignature(CompressCommand()))`
        Announces each packet.
    s_axis : `In(AxiStreamSignature(config.sector_bytes))`
        Uncompressed data.
    m_axis : `Out(AxiStreamSignature(config.sector_bytes))`
        Compressed data.
    m_sts : `Out(RecordPortSignature(TransferStatus()))`
        How each packet ended, in their order.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        self._compressor = ZvcCompressor(config)
        self.line_latency = self._compressor.line_latency + 2
        super().__init__(
            {
                "s_cmd": In(RecordPortSignature(CompressCommand())),
                "s_axis": In(AxiStreamSignature(config.sector_bytes)),
                "m_axis": Out(AxiStreamSignature(config.sector_bytes)),
                "m_sts": Out(RecordPortSignature(TransferStatus())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.config.sector_bytes
        m.submodules.command = command = RecordReceiver(CompressCommand())
        m.submodules.receiver = receiver = AxiStreamReceiver(width)
        m.submodules.trimmer = trimmer = PacketTrimmer(width)
        m.submodules.crc = crc = Crc32(width)
        m.submodules.padder = padder = LinePadder(self.config)
        m.submodules.compressor = compressor = self._compressor
        m.submodules.packer = packer = Packer(self.config)
        m.submodules.meter = meter = ByteMeter(width)
        m.submodules.sender = sender = AxiStreamSender(width)
        m.submodules.joiner = joiner = CompressorStatus()
        m.submodules.status = status = RecordSender(TransferStatus())

        def connect(source: Any, sink: Any) -> None:
            wiring.connect(m, source, sink)

        connect(wiring.flipped(self.s_cmd), command.port)
        connect(wiring.flipped(self.s_axis), receiver.axis)
        m.d.comb += [
            trimmer.length.valid.eq(command.o.valid),
            trimmer.length.payload.eq(command.o.payload.length),
            command.o.ready.eq(trimmer.length.ready),
        ]
        connect(receiver.o, trimmer.i)
        # The padder has zeros instead of the next packet's bytes: one mask serves both.
        crc.watch(m, trimmer.o, padder.i, data=padder.o.payload.elements.as_value())
        connect(padder.o, compressor.i)
        connect(compressor.o, packer.i)
        connect(packer.o, meter.i)
        connect(meter.o, sender.i)
        connect(sender.axis, wiring.flipped(self.m_axis))

        connect(trimmer.taken, joiner.taken)
        connect(crc.result, joiner.crc32)
        connect(meter.size, joiner.out_size)
        connect(joiner.o, status.i)
        connect(status.port, wiring.flipped(self.m_sts))
        return m


class ZvcDecompressorAxis(wiring.Component):
    """Decompresses packets: one command and one packet in, one packet and one status record out.

    The output packet holds the bytes before the first error, all of them if there is none; nothing
    of it depends on bytes behind an error. Whatever the packet holds, all of it is taken, and the
    next one is decompressed as if nothing had happened.

    Latency: `sector_latency` cycles from the input beat that completes a sector to the output beat:
    the pipeline's 2 (3 if "fast") and 4, in the buffer at the port, unpacking and checks, 5 if a
    mask has more than one element. Throughput: a sector per cycle, as far as compressed data comes
    in at the pace; 1 or 2 cycles more between packets, 3 with such masks. Short packets take about
    10 cycles each, for their checksums.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    sector_latency : int

    Members
    -------
    s_cmd : `In(RecordPortSignature(DecompressCommand()))`
        Announces each packet.
    s_axis : `In(AxiStreamSignature(config.sector_bytes))`
        Compressed data.
    m_axis : `Out(AxiStreamSignature(config.sector_bytes))`
        Uncompressed data.
    m_sts : `Out(RecordPortSignature(TransferStatus()))`
        How each packet ended, in their order.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        self._decompressor = ZvcDecompressor(config)
        self._unpacker = Unpacker(config)
        self.sector_latency = (
            self._unpacker.line_beat_latency + self._decompressor.sector_latency + 3
        )
        super().__init__(
            {
                "s_cmd": In(RecordPortSignature(DecompressCommand())),
                "s_axis": In(AxiStreamSignature(config.sector_bytes)),
                "m_axis": Out(AxiStreamSignature(config.sector_bytes)),
                "m_sts": Out(RecordPortSignature(TransferStatus())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        width = config.sector_bytes
        m.submodules.command = command = RecordReceiver(DecompressCommand())
        m.submodules.fork = fork = Fork(DecompressCommand(), 3)
        # The unpacker has slots for what comes before it can say that it waits.
        m.submodules.receiver = receiver = AxiStreamReceiver(width, cuts_ready=False)
        m.submodules.unpacker = unpacker = self._unpacker
        m.submodules.decompressor = decompressor = self._decompressor
        m.submodules.checker = checker = StreamChecker(config)
        m.submodules.crc = crc = Crc32(width)
        m.submodules.sender = sender = AxiStreamSender(width)
        # They wait here for the slower ones, so that the next transfer can begin.
        m.submodules.expectation = expectation = PipelineRegister(Expectation())
        m.submodules.tail = tail = PipelineRegister(StreamTail())
        m.submodules.joiner = joiner = DecompressorStatus()
        m.submodules.status = status = RecordSender(TransferStatus())

        def connect(source: Any, sink: Any) -> None:
            wiring.connect(m, source, sink)

        connect(wiring.flipped(self.s_cmd), command.port)
        connect(wiring.flipped(self.s_axis), receiver.axis)
        connect(command.o, fork.i)
        to_unpacker, to_checker, to_joiner = fork.o
        line_bits = (config.line_bytes - 1).bit_length()
        m.d.comb += [
            unpacker.command.valid.eq(to_unpacker.valid),
            unpacker.command.payload.eq(
                to_unpacker.payload.length[line_bits:]
                + to_unpacker.payload.length[:line_bits].any()
            ),
            to_unpacker.ready.eq(unpacker.command.ready),
            checker.length.valid.eq(to_checker.valid),
            checker.length.payload.eq(to_checker.payload.length),
            to_checker.ready.eq(checker.length.ready),
            expectation.i.valid.eq(to_joiner.valid),
            expectation.i.payload.crc32.eq(to_joiner.payload.crc32),
            expectation.i.payload.check.eq(to_joiner.payload.check_crc),
            to_joiner.ready.eq(expectation.i.ready),
        ]
        connect(receiver.o, unpacker.i)
        connect(unpacker.o, decompressor.i)
        connect(decompressor.o, checker.i)
        crc.watch(m, checker.o, sender.i, data=checker.o.payload.data)
        connect(sender.axis, wiring.flipped(self.m_axis))

        connect(checker.result, joiner.checked)
        connect(expectation.o, joiner.expectation)
        connect(unpacker.tail, tail.i)
        connect(tail.o, joiner.tail)
        connect(crc.result, joiner.crc32)
        connect(joiner.o, status.i)
        connect(status.port, wiring.flipped(self.m_sts))
        return m
