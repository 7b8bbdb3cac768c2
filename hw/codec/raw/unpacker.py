"""Plain streams to lines."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Truncation
from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS
from cdma.hw.codec.stream.packet import PacketStates
from cdma.hw.codec.stream.unpack import StreamTail
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import ReceivedBeat


class RawUnpacker(wiring.Component):
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
        width_bits = (width - 1).bit_length()
        element_bytes = config.element_bytes
        beat = self.i.payload

        m.submodules.packet = packet = PacketStates()
        # Beats behind this one, whether they are more than so many, and the bytes of the last one.
        behind = Signal(LENGTH_BITS - width_bits)
        more_than = Signal(config.sectors)
        last_size = Signal(range(width + 1))
        sector = Signal(range(config.sectors))
        lines_done = Signal()
        framing_error = Signal()
        trailing = Signal()
        size = Signal(OFFSET_BITS)

        # What is due of this beat, and whether it is not all there.
        due = Signal(range(width + 1))
        short = Signal()
        is_last = Signal()
        m.d.comb += [
            is_last.eq(~more_than[0]),
            short.eq(packet.closed | (beat.size < due)),
        ]
        # Of a packet that ends inside an element, that one does not count.
        keeps = [
            ~short | (~packet.closed & (beat.size >= (i + 1) * element_bytes))
            for i in range(config.lanes)
        ]
        out = self.o.payload
        m.d.comb += [
            self.o.valid.eq(packet.active & ~lines_done & (packet.closed | self.i.valid)),
            out.count.eq(
                Mux(
                    short,
                    Mux(packet.closed, 0, beat.size // element_bytes),
                    (due + element_bytes - 1) // element_bytes,
                )
            ),
            out.sol.eq(sector == 0),
            out.eol.eq(short | is_last | (sector == config.sectors - 1)),
            out.last.eq(short | is_last),
            out.truncation.eq(Mux(short, Truncation.PAYLOAD, Truncation.NONE)),
            out.elements.as_value().eq(
                Cat(
                    Mux(keeps[j // element_bytes] & (j < due), beat.data.word_select(j, 8), 0)
                    for j in range(width)
                )
            ),
        ]
        with m.If(out.sol):
            in_last = Cat(i * element_bytes < last_size for i in range(config.lanes))
            begun = [C(1, 1), *more_than][: config.sectors]
            m.d.comb += out.mask.eq(
                Cat(
                    more.replicate(config.lanes) | (in_last & begins.replicate(config.lanes))
                    for begins, more in zip(begun, more_than, strict=True)
                )
            )

        steps = Signal()
        drops = Signal()
        beat_fire = Signal()
        m.d.comb += [
            steps.eq(self.o.valid & self.o.ready),
            drops.eq(packet.closed | lines_done),
            self.i.ready.eq(packet.active & ~packet.ended & (drops | self.o.ready)),
            beat_fire.eq(self.i.valid & self.i.ready),
        ]
        nbytes = self.command.payload
        next_more = Cat(more_than[1:], behind > config.sectors)
        with m.If(steps):
            m.d.sync += [
                behind.eq(behind - 1),
                more_than.eq(next_more),
                due.eq(Mux(next_more[0], width, last_size)),
                sector.eq(Mux(out.eol, 0, sector + 1)),
                lines_done.eq(out.last),
            ]
        with m.If(beat_fire & ~packet.closed):
            m.d.sync += [
                size.eq(size + beat.size),
                framing_error.eq(beat.framing_error),
                trailing.eq(trailing | Mux(lines_done, beat.size != 0, beat.size > due)),
            ]

        tail = self.tail.payload
        done = Signal()
        m.d.comb += [
            self.tail.valid.eq(lines_done & packet.ended),
            tail.trailing.eq(trailing),
            tail.framing_error.eq(framing_error),
            tail.size.eq(size),
            done.eq(self.tail.valid & self.tail.ready),
            packet.command_valid.eq(self.command.valid),
            packet.beat_fire.eq(beat_fire),
            packet.beat_last.eq(beat.last),
            packet.beat_framing_error.eq(beat.framing_error),
            packet.reported.eq(done),
            self.command.ready.eq(packet.command_ready),
        ]
        with m.If(self.command.ready):
            # The command has at least a byte.
            over = nbytes[:width_bits]
            m.d.sync += [
                behind.eq((nbytes - 1) >> width_bits),
                more_than.eq(Cat(nbytes > (s + 1) * width for s in range(config.sectors))),
                last_size.eq(Cat(over, over == 0)),
                due.eq(Mux(nbytes > width, width, nbytes)),
            ]
        with m.If(done):
            m.d.sync += [
                register.eq(0) for register in (sector, lines_done, framing_error, trailing, size)
            ]
        return m
