"""Accesses under way, and which of those that come must wait for them."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.frontend.access import ENTRY_NUMBER_BITS


class EntryRing(wiring.Component):
    """The entries of accesses that begin and end in the same order.

    Parameters
    ----------
    depth
        How many may be under way.

    Members
    -------
    entry : `In(33)`
    begins : `In(1)`
        An access to `entry` begins. Not while `depth` are under way.
    ends : `In(1)`
        The oldest one has ended.
    found : `Out(1)`
        An access to `entry` is under way.
    count : `Out(range(depth + 1))`
        How many are.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__(
            {
                "entry": In(ENTRY_NUMBER_BITS),
                "begins": In(1),
                "ends": In(1),
                "found": Out(1),
                "count": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        depth = self.depth
        active = Signal(depth)
        newest = Signal(range(depth))
        oldest = Signal(range(depth))
        matches = Signal(depth)
        for k in range(depth):
            slot = Signal(ENTRY_NUMBER_BITS, name=f"slot_{k}", reset_less=True)
            m.d.comb += matches[k].eq(active[k] & (slot == self.entry))
            with m.If(self.begins & (newest == k)):
                m.d.sync += [slot.eq(self.entry), active[k].eq(1)]
            with m.If(self.ends & (oldest == k)):
                m.d.sync += active[k].eq(0)
        under_way = Signal(range(depth + 1))
        m.d.comb += [self.found.eq(matches.any()), self.count.eq(under_way)]
        m.d.sync += under_way.eq(under_way + self.begins - self.ends)
        with m.If(self.begins):
            m.d.sync += newest.eq(Mux(newest == depth - 1, 0, newest + 1))
        with m.If(self.ends):
            m.d.sync += oldest.eq(Mux(oldest == depth - 1, 0, oldest + 1))
        return m


class Scoreboard(wiring.Component):
    """Keeps accesses to the same entry in order, whatever the memories do.

    A read waits for the writes of its entry that are under way; a write for the reads and the
    writes. Memories may answer reads and writes in any order, so that nothing less will do. As an
    access is let in only after all before it, none waits for a later one.

    Latency: 0 cycles. Cost: an address comparator for each access that may be under way.

    Parameters
    ----------
    reads, writes
        How many may be under way.

    Members
    -------
    entry : `In(33)`
        The number of the entry of the access that wants in.
    write : `In(1)`
        It is a write.
    begins : `In(1)`
        It is let in. Only if it may.
    may : `Out(1)`
        It may: nothing that it has to wait for is under way.
    read_ends, write_ends : `In(1)`
        The oldest read has its data; the oldest write is done.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self.reads = reads
        self.writes = writes
        super().__init__(
            {
                "entry": In(ENTRY_NUMBER_BITS),
                "write": In(1),
                "begins": In(1),
                "may": Out(1),
                "read_ends": In(1),
                "write_ends": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.read_ring = read_ring = EntryRing(self.reads)
        m.submodules.write_ring = write_ring = EntryRing(self.writes)
        full = Signal()
        m.d.comb += [
            read_ring.entry.eq(self.entry),
            write_ring.entry.eq(self.entry),
            full.eq(
                Mux(
                    self.write,
                    write_ring.count == self.writes,
                    read_ring.count == self.reads,
                )
            ),
            self.may.eq(~full & ~write_ring.found & ~(self.write & read_ring.found)),
            read_ring.begins.eq(self.begins & ~self.write),
            write_ring.begins.eq(self.begins & self.write),
            read_ring.ends.eq(self.read_ends),
            write_ring.ends.eq(self.write_ends),
        ]
        return m
