"""A stream's queue in a memory."""

from amaranth.hdl import Module, Mux, ShapeLike, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out


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
        m.submodules.storage = storage = memory.Memory(shape=self._shape, depth=self.depth, init=[])
        write = storage.write_port()
        read = storage.read_port()

        stored = Signal(range(self.depth + 1))
        holds = Signal()
        i_fire = Signal()
        read_fire = Signal()
        m.d.comb += [
            self.i.ready.eq(stored != self.depth),
            i_fire.eq(self.i.valid & self.i.ready),
            read_fire.eq((stored != 0) & (self.o.ready | ~holds)),
            write.data.eq(self.i.payload),
            write.en.eq(i_fire),
            read.en.eq(read_fire),
            self.o.valid.eq(holds),
            self.o.payload.eq(read.data),
        ]
        # Whether the sink is ready is known last.
        with m.If(read_fire):
            m.d.sync += stored.eq(Mux(i_fire, stored, stored - 1))
        with m.Else():
            m.d.sync += stored.eq(Mux(i_fire, stored + 1, stored))
        with m.If(i_fire):
            m.d.sync += write.addr.eq(Mux(write.addr == self.depth - 1, 0, write.addr + 1))
        with m.If(read_fire):
            m.d.sync += [
                read.addr.eq(Mux(read.addr == self.depth - 1, 0, read.addr + 1)),
                holds.eq(1),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += holds.eq(0)
        return m
