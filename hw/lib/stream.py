"""What travels between components, each payload defined once, and the buffers in between.

All streams follow `amaranth.lib.stream`: a transfer happens when valid and ready are both high;
once valid, a payload neither changes nor goes away; valid never waits for ready.
"""

from amaranth.hdl import Module, Mux, ShapeLike, Signal, unsigned
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.config import CodecConfig


class Sector(data.StructLayout):
    """A sector of uncompressed data on its way into a compressor.

    Members
    -------
    elements
        The data; lane 0 is the first in memory.
    last
        The last sector of the transfer. It is also the last of its line.
    empty
        No sector at all: an empty transfer, or one whose end was found too late to be marked on
        data. Comes alone at the start of a line and with `last`.
    codec
        Index among the configuration's codecs of the one that compresses the line; the same on all
        of its sectors.
    parameters
        The transfer's, for the codec (`LineCodec.parameters`), from bit 0; likewise.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(8 * config.element_bytes), config.lanes),
                "last": 1,
                "empty": 1,
                "codec": range(len(config.codecs)),
                "parameters": config.parameter_bits,
            }
        )


class Damage(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """What is missing from a line beat because the stream ended."""

    NONE = 0
    MASK = 1
    PAYLOAD = 2


class LineBeat(data.StructLayout):
    """A compressed line in flight, a sector's width of payload at a time.

    A line takes max(1, ceil(payload elements / lanes)) beats; the first one also carries the
    head, so that a line of the worst case needs no beat more than an uncompressed one.

    Members
    -------
    mask
        The line's head, from bit 0; of a counted codec, bit i tells that element i is in the
        payload. Valid on the first beat, zero on the others.
    elements
        Payload, packed from lane 0; zero from lane `count` on.
    count
        Payload elements in this beat.
    sol, eol
        First and last beat of the line.
    last
        Last beat of the transfer.
    empty
        No line at all, not even a mask: the end of a transfer, alone. Only with `last`.
    damage
        The stream ended inside this line: inside its mask, or after `count` of this beat's
        elements. Only with `last`.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "mask": config.head_bits,
                "elements": data.ArrayLayout(unsigned(8 * config.element_bytes), config.lanes),
                "count": range(config.lanes + 1),
                "sol": 1,
                "eol": 1,
                "last": 1,
                "empty": 1,
                "damage": Damage,
            }
        )


class ExpandedSector(data.StructLayout):
    """A sector of decompressed data, with what is needed to judge it.

    Members
    -------
    elements
        The data; zero in lanes that are not `present`.
    present
        The sector's segment of the mask: lanes that the stream announced as non-zero.
    missing
        Lanes that are present in the mask but not in the stream.
    sol
        First sector of a line.
    mask_missing
        The stream ended inside the line's mask: there is no data here. Only with `last`.
    last
        Last sector of the transfer.
    empty
        No sector at all: an empty transfer. Only with `last`.
    status
        What is wrong with the line, as a `golden.StreamStatus`: there is no data here, and `last`
        is set. No bits unless a codec of the configuration locates errors itself
        (`LineCodec.locates_errors`); OK with the other codecs.
    offset
        Bytes of the line's stream before what is wrong with it; all of them if nothing is. The same
        on all sectors of a line. No bits, or worthless, like `status`.
    """

    def __init__(self, config: CodecConfig) -> None:
        located = config.locates_errors
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(8 * config.element_bytes), config.lanes),
                "present": config.lanes,
                "missing": config.lanes,
                "sol": 1,
                "mask_missing": 1,
                "last": 1,
                "empty": 1,
                "status": StreamStatus if located else 0,
                "offset": range(config.worst_line_bytes + 1) if located else 0,
            }
        )


class Beat(data.StructLayout):
    """A beat of a byte stream.

    Members
    -------
    data
        Bytes, the first in the low bits.
    size
        How many of them count, from the first; all of them on every beat but the last.
    last
        End of the packet.
    """

    def __init__(self, data_bytes: int) -> None:
        super().__init__(
            {"data": unsigned(8 * data_bytes), "size": range(data_bytes + 1), "last": 1}
        )


class ReceivedBeat(data.StructLayout):
    """A beat from a source that may break the rules.

    Members
    -------
    data, size, last
        As in `Beat`.
    torn
        The beat broke the rule for `size`, or had holes; `size` then counts the bytes before the
        first hole.
    """

    def __init__(self, data_bytes: int) -> None:
        super().__init__(
            {
                "data": unsigned(8 * data_bytes),
                "size": range(data_bytes + 1),
                "last": 1,
                "torn": 1,
            }
        )


class SkidBuffer(wiring.Component):
    """Two-entry buffer that cuts every combinational path between its ports.

    Latency: 1 cycle. Throughput: a transfer per cycle. Cost: two payload registers.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()

        front = Signal.like(self.o.payload, name="front")
        front_valid = Signal()
        spare = Signal.like(self.o.payload, name="spare")
        spare_valid = Signal()

        m.d.comb += [
            self.i.ready.eq(~spare_valid),
            self.o.valid.eq(front_valid),
            self.o.payload.eq(front),
        ]
        with m.If(self.o.ready | ~front_valid):
            m.d.sync += [
                front.eq(Mux(spare_valid, spare, self.i.payload)),
                front_valid.eq(spare_valid | self.i.valid),
                spare_valid.eq(0),
            ]
        with m.Elif(self.i.valid & ~spare_valid):
            m.d.sync += [spare.eq(self.i.payload), spare_valid.eq(1)]

        return m


class Register(wiring.Component):
    """One-entry buffer: cuts the paths of payload and valid, but not that of ready.

    Latency: 1 cycle. Throughput: a transfer per cycle. Cost: a payload register.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        held = Signal.like(self.o.payload, name="held", reset_less=True)
        held_valid = Signal()
        m.d.comb += [
            self.i.ready.eq(self.o.ready | ~held_valid),
            self.o.valid.eq(held_valid),
            self.o.payload.eq(held),
        ]
        with m.If(self.i.ready):
            m.d.sync += held_valid.eq(self.i.valid)
        with m.If(self.i.ready & self.i.valid):
            m.d.sync += held.eq(self.i.payload)
        return m


class Fork(wiring.Component):
    """Gives each transfer once to every output, whichever order they take it in.

    Latency: 0 cycles. Throughput: a transfer per cycle while all outputs are ready.

    Parameters
    ----------
    shape
        Shape of the payload.
    outputs
        How many there are.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape)).array(outputs)`
    """

    def __init__(self, shape: ShapeLike, outputs: int) -> None:
        self.outputs = outputs
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)).array(outputs),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        given = Signal(self.outputs)
        gives = Signal(self.outputs)
        for k, output in enumerate(self.o):
            m.d.comb += [
                output.valid.eq(self.i.valid & ~given[k]),
                output.payload.eq(self.i.payload),
                gives[k].eq(given[k] | output.ready),
            ]
        m.d.comb += self.i.ready.eq(gives.all())
        with m.If(self.i.valid):
            m.d.sync += given.eq(Mux(self.i.ready, 0, gives))
        return m


class Fifo(wiring.Component):
    """Queue in a memory with a registered read port, as block RAMs have.

    Latency: 2 cycles. Throughput: a transfer per cycle.

    Parameters
    ----------
    shape
        Shape of the payload.
    depth
        How many the memory holds; one more waits at the output.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self._shape = shape
        self.depth = depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.storage = storage = memory.Memory(shape=self._shape, depth=self.depth, init=[])
        write = storage.write_port()
        read = storage.read_port()

        stored = Signal(range(self.depth + 1))
        holds = Signal()
        writes = Signal()
        reads = Signal()
        m.d.comb += [
            self.i.ready.eq(stored != self.depth),
            writes.eq(self.i.valid & self.i.ready),
            reads.eq((stored != 0) & (self.o.ready | ~holds)),
            write.data.eq(self.i.payload),
            write.en.eq(writes),
            read.en.eq(reads),
            self.o.valid.eq(holds),
            self.o.payload.eq(read.data),
        ]
        m.d.sync += stored.eq(stored + writes - reads)
        with m.If(writes):
            m.d.sync += write.addr.eq(Mux(write.addr == self.depth - 1, 0, write.addr + 1))
        with m.If(reads):
            m.d.sync += [
                read.addr.eq(Mux(read.addr == self.depth - 1, 0, read.addr + 1)),
                holds.eq(1),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += holds.eq(0)
        return m
