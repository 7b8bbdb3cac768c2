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
