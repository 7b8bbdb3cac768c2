"""A stream's queue in a memory."""

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.count import following
from cdma.hw.lib.ram import Ram


class Fifo(wiring.Component):
    """Queue in a memory with a registered read port, as block RAMs have.

    Latency: 2 cycles. Throughput: a transfer per cycle.

    Parameters
    ----------
    shape
        Shape of the payload.
    depth
        The number of payloads that the memory holds; one more is held at the output.

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
        m.submodules.storage = storage = Ram(Shape.cast(self._shape).width, self.depth)
        write_address = Signal(range(self.depth))
        read_address = Signal(range(self.depth))
        stored = Signal(range(self.depth + 1))
        holds = Signal()
        i_fire = Signal()
        read_fire = Signal()
        m.d.comb += [
            self.i.ready.eq(stored != self.depth),
            i_fire.eq(self.i.valid & self.i.ready),
            read_fire.eq((stored != 0) & (self.o.ready | ~holds)),
            storage.write_enable.eq(i_fire),
            storage.write_address.eq(write_address),
            storage.write_data.eq(self.i.payload),
            storage.read_enable.eq(read_fire),
            storage.read_address.eq(read_address),
            self.o.valid.eq(holds),
            Value.cast(self.o.payload).eq(storage.read_data),
        ]
        # Whether the sink is ready is known last.
        with m.If(read_fire):
            m.d.sync += stored.eq(Mux(i_fire, stored, stored - 1))
        with m.Else():
            m.d.sync += stored.eq(Mux(i_fire, stored + 1, stored))
        with m.If(i_fire):
            m.d.sync += write_address.eq(following(write_address, self.depth))
        with m.If(read_fire):
            m.d.sync += [
                read_address.eq(following(read_address, self.depth)),
                holds.eq(1),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += holds.eq(0)
        return m
