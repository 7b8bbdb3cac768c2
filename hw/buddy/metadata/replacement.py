"""Which line of a set gives way: pseudo-LRU by a tree."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


class TreePlru(wiring.Component):
    """Remembers for each set which ways were used lately, in a tree of one bit for each pair.

    Each bit of a set tells in which half of its ways the victim is. A use of a way turns the bits
    on the path to it away from it. Any bits are sound; if one flips, nothing is lost but time.

    Latency: 0 cycles; a use counts from the next cycle on. Cost: a memory of ways - 1 bits for each
    set, read without a register.

    Parameters
    ----------
    sets, ways

    Members
    -------
    set : `In(range(sets))`
    victim : `Out(range(ways))`
        The way of the set that has not been used for long.
    uses : `In(1)`
        The way `way` of the set is used.
    way : `In(range(ways))`
    clear : `In(1)`
        The set has not been used.
    """

    def __init__(self, sets: int, ways: int) -> None:
        self.sets = sets
        self.ways = ways
        super().__init__(
            {
                "set": In(range(sets)),
                "victim": Out(range(ways)),
                "uses": In(1),
                "way": In(range(ways)),
                "clear": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        if self.ways == 1:
            return m
        bits = self.ways - 1
        m.submodules.trees = trees = memory.Memory(shape=bits, depth=max(2, self.sets), init=[])
        read = trees.read_port(domain="comb")
        write = trees.write_port()
        tree = Signal(bits)
        used = Signal(bits)
        m.d.comb += [
            read.addr.eq(self.set),
            tree.eq(read.data),
            write.addr.eq(self.set),
            write.data.eq(Mux(self.clear, 0, used)),
            write.en.eq(self.uses | self.clear),
        ]

        # Node n has its halves at 2n + 1 and 2n + 2; the top bit of a way's number is the root's.
        levels = (self.ways - 1).bit_length()

        def node(path: int, level: int) -> int:
            return (1 << level) - 1 + path

        m.d.comb += used.eq(tree)
        turns: list[Signal] = []
        for level in range(levels):
            turn = Signal(name=f"turn_{level}")
            path = Cat(reversed(turns))
            for start in range(1 << level):
                place = node(start, level)
                with m.If(path == start if level else 1):
                    m.d.comb += turn.eq(tree[place])
                taken = self.way[levels - level :]
                with m.If(taken == start if level else 1):
                    m.d.comb += used[place].eq(~self.way[levels - 1 - level])
            turns.append(turn)
        m.d.comb += self.victim.eq(Cat(reversed(turns)))
        return m
