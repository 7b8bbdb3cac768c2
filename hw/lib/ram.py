"""A memory of the hardware: one module that an integrator may put a macro in the place of."""

from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


class Ram(wiring.Component):
    """A memory with a port that writes and one that reads, both synchronous.

    The read port has a register, which keeps what was read last. The content is not defined before
    it is written. What is read of the address that is written in the same cycle is not used, so it
    does not matter what a macro would give.

    All memories of a design with the same words and bits are instances of the same module, so that
    one macro, or one wrapper around it, takes the place of them all.

    Latency: 1 cycle. Throughput: a read and a write per cycle.

    Parameters
    ----------
    width
        Bits of a word.
    depth
        The number of words.

    Members
    -------
    write_enable : `In(1)`
    write_address : `In(range(depth))`
    write_data : `In(width)`
    read_enable : `In(1)`
    read_address : `In(range(depth))`
    read_data : `Out(width)`
        The word of the last cycle with `read_enable`.
    """

    write_domain = read_domain = "sync"

    def __init__(self, width: int, depth: int) -> None:
        self.width = width
        self.depth = depth
        super().__init__(
            {
                "write_enable": In(1),
                "write_address": In(range(depth)),
                "write_data": In(width),
                "read_enable": In(1),
                "read_address": In(range(depth)),
                "read_data": Out(width),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(shape=self.width, depth=self.depth, init=[])
        write = words.write_port(domain=self.write_domain)
        read = words.read_port(domain=self.read_domain)
        m.d.comb += [
            write.en.eq(self.write_enable),
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            read.en.eq(self.read_enable),
            read.addr.eq(self.read_address),
            self.read_data.eq(read.data),
        ]
        return m
