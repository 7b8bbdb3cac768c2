"""Packets of bytes, made into the sectors of whole lines: the compressor's side of the framing."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import Sector
from cdma.hw.codec.stream.pack import LENGTH_BITS
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import Beat, ReceivedBeat


class Taken(data.StructLayout):
    """The part of a packet that was taken.

    Members
    -------
    mismatch
        The packet was not as long as announced, or torn. (Its last byte may come before its last
        beat, if that has none.)
    size
        Bytes taken from its start.
    """

    def __init__(self) -> None:
        super().__init__({"mismatch": 1, "size": LENGTH_BITS})


class PacketTrimmer(wiring.Component):
    """Holds packets to their announced lengths.

    Takes as many bytes as announced, fewer if the packet ends early or is torn, and drops the rest
    of the packet.

    Latency: 0 cycles. Throughput: a beat per cycle, also across packets.

    Parameters
    ----------
    data_bytes
        Width of a beat.

    Members
    -------
    length : `In(stream.Signature(32))`
        Announced length of each packet in bytes.
    i : `In(stream.Signature(ReceivedBeat(data_bytes)))`
    o : `Out(stream.Signature(Beat(data_bytes)))`
        At least one beat for each packet. Bytes beyond `size` are zero.
    taken : `Out(stream.Signature(Taken()))`
        After all of the packet has come in.
    """

    def __init__(self, data_bytes: int) -> None:
        self.data_bytes = data_bytes
        super().__init__(
            {
                "length": In(stream.Signature(LENGTH_BITS)),
                "i": In(stream.Signature(ReceivedBeat(data_bytes))),
                "o": Out(stream.Signature(Beat(data_bytes))),
                "taken": Out(stream.Signature(Taken())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        beat = self.i.payload

        # Of the packet, before this beat. All beats are full until one ends it.
        left = Signal(LENGTH_BITS, reset_less=True)
        beat_fits = Signal(reset_less=True)
        # All of a full beat is of the packet, be it its last one.
        covers = Signal(reset_less=True)
        full_bits = len(beat.size) - 1
        beats_given = Signal(LENGTH_BITS - full_bits, reset_less=True)
        passing = Signal()
        dropping = Signal()
        taken_valid = Signal()

        near = Signal.like(beat.size)
        size = Signal.like(beat.size)
        ends = Signal()
        passes = Signal()
        m.d.comb += [
            near.eq(left),
            size.eq(Mux(~beat_fits & (near < beat.size), near, beat.size)),
            ends.eq(beat.last | beat.framing_error | ~beat_fits),
            self.o.payload.size.eq(size),
            self.o.payload.last.eq(ends),
            passes.eq(passing & ~(ends & taken_valid)),
            self.o.valid.eq(self.i.valid & passes),
            self.i.ready.eq(dropping | (self.o.ready & passes)),
        ]
        for j in range(self.data_bytes):
            # The last byte of a full beat is of the packet only if all of them are.
            in_packet = covers | (j < near[:full_bits]) if j + 1 < self.data_bytes else covers
            keeps = (j < beat.size) & in_packet
            byte = beat.data.word_select(j, 8)
            m.d.comb += self.o.payload.data.word_select(j, 8).eq(Mux(keeps, byte, 0))

        finishes = Signal()
        came = Signal()
        m.d.comb += [
            came.eq(self.i.valid & self.i.ready),
            finishes.eq(came & ends & ~dropping),
        ]
        with m.FSM(name="packet") as packet:
            m.d.comb += [
                passing.eq(packet.ongoing("PASS")),
                dropping.eq(packet.ongoing("DROP")),
            ]
            with m.State("IDLE"):
                m.d.comb += self.length.ready.eq(1)
                with m.If(self.length.valid):
                    m.next = "PASS"
            with m.State("PASS"):
                with m.If(finishes & ~beat.last):
                    m.next = "DROP"
                with m.If(finishes & beat.last):
                    m.d.comb += self.length.ready.eq(1)
                    with m.If(~self.length.valid):
                        m.next = "IDLE"
            with m.State("DROP"):
                with m.If(came & beat.last):
                    m.d.comb += self.length.ready.eq(1)
                    m.next = "IDLE"
                    with m.If(self.length.valid):
                        m.next = "PASS"
        with m.If(came):
            m.d.sync += [
                left.eq(left - self.data_bytes),
                beat_fits.eq(left > 2 * self.data_bytes),
                covers.eq(left >= 2 * self.data_bytes),
                beats_given.eq(beats_given + 1),
            ]
        with m.If(self.length.ready):
            m.d.sync += [
                left.eq(self.length.payload),
                beat_fits.eq(self.length.payload > self.data_bytes),
                covers.eq(self.length.payload >= self.data_bytes),
                beats_given.eq(0),
            ]

        taken = Signal(Taken(), reset_less=True)
        with m.If(finishes):
            m.d.sync += [
                taken_valid.eq(1),
                taken.mismatch.eq(beat.framing_error | beat_fits | (near != beat.size)),
                taken.size.eq(Cat(size[:full_bits], beats_given + size[full_bits])),
            ]
        with m.Elif(dropping):
            # A beat without bytes may end a packet that already has all of them.
            with m.If(came & (beat.framing_error | (beat.size != 0))):
                m.d.sync += taken.mismatch.eq(1)
        with m.Elif(self.taken.ready):
            m.d.sync += taken_valid.eq(0)
        m.d.comb += [
            self.taken.valid.eq(taken_valid & ~dropping),
            self.taken.payload.eq(taken),
        ]

        with m.If(dropping):
            m.d.sync += Assert(taken_valid)
        return m


class LinePadder(wiring.Component):
    """Fills packets with zeros to whole lines.

    Latency: 0 cycles. Throughput: a sector per cycle.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(Beat(config.sector_bytes)))`
        Bytes beyond `size` are zero.
    o : `Out(stream.Signature(Sector(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(Beat(config.sector_bytes))),
                "o": Out(stream.Signature(Sector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        beat = self.i.payload
        sector = self.o.payload

        index = Signal(range(config.sectors))
        padding = Signal()
        ends_line = Signal()
        m.d.comb += [
            ends_line.eq(index == config.sectors - 1),
            sector.elements.as_value().eq(Mux(padding, 0, beat.data)),
            # A packet of no bytes, or one whose last beat has none, behind a whole line.
            sector.empty.eq(~padding & (beat.size == 0) & (index == 0)),
            sector.last.eq(sector.empty | (ends_line & (padding | beat.last))),
            self.o.valid.eq(padding | self.i.valid),
            self.i.ready.eq(~padding & self.o.ready),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                index.eq(Mux(sector.empty | ends_line, 0, index + 1)),
                padding.eq((padding | beat.last) & ~sector.last),
            ]
        return m
