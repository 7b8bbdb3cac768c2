"""Scoreboard of outstanding accesses: hazards between accesses to the same entry."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.payloads import ENTRY_NUMBER_BITS
from cdma.hw.lib.count import following


class OutstandingEntries(wiring.Component):
    """Ring buffer with the entry numbers of outstanding accesses, which retire in issue order.

    Latency: 0 cycles. Cost: `depth` entry numbers and as many comparators.

    Parameters
    ----------
    depth
        Outstanding accesses, at most.

    Members
    -------
    entry : `In(33)`
    issue : `In(1)`
        An access to `entry` is issued. Never while `depth` are outstanding.
    retire : `In(1)`
        The oldest access retires.
    match : `Out(1)`
        An access to `entry` is outstanding.
    count : `Out(range(depth + 1))`
        Number of outstanding accesses.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__(
            {
                "entry": In(ENTRY_NUMBER_BITS),
                "issue": In(1),
                "retire": In(1),
                "match": Out(1),
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
            with m.If(self.issue & (newest == k)):
                m.d.sync += [slot.eq(self.entry), active[k].eq(1)]
            with m.If(self.retire & (oldest == k)):
                m.d.sync += active[k].eq(0)
        outstanding = Signal(range(depth + 1))
        m.d.comb += [self.match.eq(matches.any()), self.count.eq(outstanding)]
        m.d.sync += outstanding.eq(outstanding + self.issue - self.retire)
        with m.If(self.issue):
            m.d.sync += newest.eq(following(newest, depth))
        with m.If(self.retire):
            m.d.sync += oldest.eq(following(oldest, depth))
        return m


class Scoreboard(wiring.Component):
    """Detects hazards between an access and the outstanding accesses to the same entry.

    A read waits for outstanding writes of its entry (RAW); a write for outstanding reads (WAR) and
    writes (WAW). Memories may answer reads and writes in any order, so no hazard can be left to
    them. Accesses are issued in order, so none waits for a later one.

    Latency: 0 cycles. Cost: an address comparator for each access that may be outstanding.

    Parameters
    ----------
    reads, writes
        Outstanding accesses, at most.

    Members
    -------
    entry : `In(33)`
        Entry number of the access to be issued.
    write : `In(1)`
        The access is a write.
    issue : `In(1)`
        The access is issued. Only with `grant`.
    grant : `Out(1)`
        The access has no hazard, and there is space for it.
    read_done, write_done : `In(1)`
        The oldest read has its data; the oldest write is done.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self.reads = reads
        self.writes = writes
        super().__init__(
            {
                "entry": In(ENTRY_NUMBER_BITS),
                "write": In(1),
                "issue": In(1),
                "grant": Out(1),
                "read_done": In(1),
                "write_done": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.reads = reads = OutstandingEntries(self.reads)
        m.submodules.writes = writes = OutstandingEntries(self.writes)
        full = Signal()
        m.d.comb += [
            reads.entry.eq(self.entry),
            writes.entry.eq(self.entry),
            full.eq(
                Mux(
                    self.write,
                    writes.count == self.writes,
                    reads.count == self.reads,
                )
            ),
            self.grant.eq(~full & ~writes.match & ~(self.write & reads.match)),
            reads.issue.eq(self.issue & ~self.write),
            writes.issue.eq(self.issue & self.write),
            reads.retire.eq(self.read_done),
            writes.retire.eq(self.write_done),
        ]
        return m
