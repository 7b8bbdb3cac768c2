"""Replacement policy: tree pseudo-LRU."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


class TreePlru(wiring.Component):
    r"""Selects the victim way of a set with a binary tree of bits.

             0          Node n has its halves at 2n + 1 and 2n + 2. Its bit is 1 if the victim is
           /   \        in the upper half. A use of a way points the bits on its path away from
          1     2       it. Any state is valid: a flipped bit costs performance at most.
         / \   / \
        w0 w1 w2 w3

    Latency: 0 cycles; a use takes effect in the next cycle. Cost: a memory of ways - 1 bits for
    each set with an asynchronous read port.

    Parameters
    ----------
    sets, ways

    Members
    -------
    set : `In(range(sets))`
    victim : `Out(range(ways))`
        Way of the set that is to be replaced.
    touch : `In(1)`
        Way `way` of the set is used.
    way : `In(range(ways))`
    clear : `In(1)`
        The state of the set is reset.
    """

    def __init__(self, sets: int, ways: int) -> None:
        self.sets = sets
        self.ways = ways
        super().__init__(
            {
                "set": In(range(sets)),
                "victim": Out(range(ways)),
                "touch": In(1),
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
            write.en.eq(self.touch | self.clear),
        ]

        # The top bit of a way's number belongs to the root.
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
                used_path = self.way[levels - level :]
                with m.If(used_path == start if level else 1):
                    m.d.comb += used[place].eq(~self.way[levels - 1 - level])
            turns.append(turn)
        m.d.comb += self.victim.eq(Cat(reversed(turns)))
        return m
