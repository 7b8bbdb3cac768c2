"""The order of reads that wait: queues of places, without what is kept in them."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class WaitingOrder(wiring.Component):
    """Queues of places for entries, some of which wait for what has not arrived.

    An entry enters a queue at its end, with a mark if it waits. What is waited for arrives in the
    order of the queue. The first entry of a queue may leave unless it still waits.

    Latency: 0 cycles. Throughput: one of each event per cycle. Cost: 3 counters for each queue, and
    a bit for each place.

    Parameters
    ----------
    queues
    places
        Of each queue; a power of two.

    Members
    -------
    enter : `In(1)`
        An entry enters `enter_queue`, which must not be full.
    enter_queue : `In(range(queues))`
    enter_waits : `In(1)`
        It waits.
    enter_place : `Out(range(places))`
        Its place in the queue.
    arrive : `In(1)`
        The first entry of `arrive_queue` that waits has what it waits for.
    arrive_queue : `In(range(queues))`
    leave : `In(1)`
        The first entry of `leave_queue` leaves, which must be `ready`.
    leave_queue : `In(range(queues))`
    first_place : `Out(range(places)).array(queues)`
        Place of each queue's first entry.
    occupied, full, ready : `Out(queues)`
        Of each queue: it has an entry; it has no room; its first entry may leave.
    """

    def __init__(self, queues: int, places: int) -> None:
        assert places & (places - 1) == 0
        self.queues = queues
        self.places = places
        super().__init__(
            {
                "enter": In(1),
                "enter_queue": In(range(queues)),
                "enter_waits": In(1),
                "enter_place": Out(range(places)),
                "arrive": In(1),
                "arrive_queue": In(range(queues)),
                "leave": In(1),
                "leave_queue": In(range(queues)),
                "first_place": Out(range(places)).array(queues),
                "occupied": Out(queues),
                "full": Out(queues),
                "ready": Out(queues),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for k in range(self.queues):
            entries = Signal(range(self.places + 1), name=f"entries_{k}")
            arrived = Signal(range(self.places + 1), name=f"arrived_{k}")
            occupied = Signal(name=f"occupied_{k}")
            has_arrived = Signal(name=f"has_arrived_{k}")
            first = Signal(range(self.places), name=f"first_{k}")
            end = Signal(range(self.places), name=f"end_{k}")
            waits = Signal(self.places, name=f"waits_{k}")
            first_waits = Signal(name=f"first_waits_{k}")
            following = Signal(range(self.places), name=f"following_{k}")
            enters = Signal(name=f"enters_{k}")
            arrives = Signal(name=f"arrives_{k}")
            leaves = Signal(name=f"leaves_{k}")
            m.d.comb += [
                enters.eq(self.enter & (self.enter_queue == k)),
                arrives.eq(self.arrive & (self.arrive_queue == k)),
                leaves.eq(self.leave & (self.leave_queue == k)),
                following.eq(first + 1),
                self.first_place[k].eq(first),
                self.occupied[k].eq(occupied),
                self.full[k].eq(entries == self.places),
                self.ready[k].eq(occupied & (~first_waits | has_arrived)),
            ]
            # What leaves is known last.
            with m.If(leaves):
                m.d.sync += [
                    entries.eq(Mux(enters, entries, entries - 1)),
                    occupied.eq(enters | (entries > 1)),
                    first.eq(following),
                ]
            with m.Else():
                m.d.sync += [
                    entries.eq(Mux(enters, entries + 1, entries)),
                    occupied.eq(enters | occupied),
                ]
            with m.If(leaves & first_waits):
                m.d.sync += [
                    arrived.eq(Mux(arrives, arrived, arrived - 1)),
                    has_arrived.eq(arrives | (arrived > 1)),
                ]
            with m.Else():
                m.d.sync += [
                    arrived.eq(Mux(arrives, arrived + 1, arrived)),
                    has_arrived.eq(arrives | has_arrived),
                ]
            m.d.sync += [
                end.eq(end + enters),
                # Of the entry that is first next: the one that enters, if no other is left.
                first_waits.eq(
                    Mux(
                        leaves,
                        Mux(entries == 1, self.enter_waits, waits.bit_select(following, 1)),
                        Mux(entries == 0, self.enter_waits, waits.bit_select(first, 1)),
                    )
                ),
            ]
            with m.If(enters):
                m.d.sync += waits.bit_select(end, 1).eq(self.enter_waits)
            with m.If(self.enter_queue == k):
                m.d.comb += self.enter_place.eq(end)
        return m
