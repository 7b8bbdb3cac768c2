"""Queues aside for reads that wait for buddy memory, so that reads of other IDs overtake them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.frontend.admission import FETCHES
from cdma.hw.buddy.payloads import ExpectedEntry
from cdma.hw.buddy.read.waiting_order import WaitingOrder
from cdma.hw.bus.burst import ReadBeat
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.ram import Ram
from cdma.hw.lib.round_robin import RoundRobinArbiter

PLACES = FETCHES
"""Entries in each queue; a power of two. All fetches of partial writes have room in theirs."""
MOST_QUEUES = 16
PLACE_BITS = (PLACES - 1).bit_length()
SECTOR_INDEX_BITS = (ENTRY_SECTORS - 1).bit_length()


def read_queues(config: BuddyConfig) -> int:
    """Return the number of queues for reads, a power of two: one for each ID if these are few."""
    most = min(MOST_QUEUES, 1 << config.id_bits, config.reads // PLACES)
    return 1 << (most.bit_length() - 1)


class SpillQueues(wiring.Component):
    """Lets entries whose sectors are at hand overtake those that wait for buddy memory.

        i ─────────┬──────────────────────────────────┬─ o
        device ────┼─ queues of entries that wait ────┤
        buddy ─────┘                                  └─ o_device, o_buddy

    Entries arrive in the order of their requests, and so do the sectors of each memory. An entry
    that needs nothing of buddy memory goes straight on. One that does is set aside with its device
    sectors, in the queue of its ID's low bits; fetches for partial writes have a queue of their
    own. An entry whose queue is not empty follows into it, so entries of the same ID stay in order,
    and so do fetches. The first entry of a queue leaves once it has all of its sectors.

    The entries of a burst follow one another at `o`, but for fetches: once one has left that is not
    the last, reads of other queues wait until the last one has left.

    Deadlock freedom: assume that the entries at `o` are accepted, and that memories answer. Sectors
    of buddy memory come in the order in which their entries were set aside, and go to places that
    these have already; so they wait for no entry to leave, and the first entry of each queue
    becomes complete. A burst that has begun waits for its own entries alone: they are in its queue,
    where only they are left, or the next ones of `i`, where only fetches may lie between. There is
    room for both, for that queue is not held up, and the one of fetches holds all there may be.

    Latency: 0 cycles for an entry that goes straight on. One that was set aside has its first
    sector at `o_device` 2 cycles after its last one came from buddy memory. Throughput: an entry
    per cycle straight on; one that was set aside takes a cycle more than it has sectors.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(ExpectedEntry(config)))`
    device, buddy : `In(stream.Signature(ReadBeat(32)))`
        Sectors, in the order of the requests.
    o : `Out(stream.Signature(ExpectedEntry(config)))`
        To be accepted with its last sector.
    o_device, o_buddy : `Out(stream.Signature(ReadBeat(32)))`
        The sectors of the entry at `o`; overfetched ones only if it goes straight on.
    read_done : `Out(1)`
        All sectors of the oldest read have arrived. Not for fetches.
    buddy_stall : `Out(1)`
        An entry waits for sectors of buddy memory, none of which is valid, and none is at `o`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        self.queues = read_queues(config)
        sector = ReadBeat(SECTOR_BYTES)
        super().__init__(
            {
                "i": In(stream.Signature(ExpectedEntry(config))),
                "device": In(stream.Signature(sector)),
                "buddy": In(stream.Signature(sector)),
                "o": Out(stream.Signature(ExpectedEntry(config))),
                "o_device": Out(stream.Signature(sector)),
                "o_buddy": Out(stream.Signature(sector)),
                "read_done": Out(1),
                "buddy_stall": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        queues = self.queues + 1
        places = queues * PLACES
        m.submodules.order = order = WaitingOrder(queues, PLACES)
        m.submodules.entries = entries = Ram(ExpectedEntry(self.config).size, places)
        m.submodules.sectors = sectors = Ram(ReadBeat(SECTOR_BYTES).size, places * ENTRY_SECTORS)
        # Entries that were set aside and lack sectors of buddy memory.
        spill = data.StructLayout(
            {
                "place": PLACE_BITS,
                "queue": range(queues),
                "fetch": 1,
                "first": SECTOR_INDEX_BITS,
                "sectors": range(ENTRY_SECTORS + 1),
            }
        )
        m.submodules.spills = spills = Fifo(spill, places)

        buddy_fire = self._store_buddy(m, order, spills, sectors)
        aside = self._set_aside(m, order, entries, spills, sectors, buddy_fire)
        self._send(m, order, entries, sectors, aside)
        self._tell_done(m, order.arrive & ~spills.o.payload.fetch)
        m.d.comb += self.buddy_stall.eq(spills.o.valid & ~self.buddy.valid & ~self.o.valid)
        return m

    def _queue_of(self, entry: data.View) -> Value:
        """The queue of an entry: of its ID's low bits, or the last one if it is a fetch."""
        return Mux(entry.fetch, self.queues, entry.access.id & (self.queues - 1))

    def _store_buddy(self, m: Module, order: WaitingOrder, spills: Fifo, sectors: Ram) -> Signal:
        """Store sectors of buddy memory behind those of device memory.

        Returns
        -------
        One is stored in this cycle.
        """
        spill = spills.o.payload
        stored = Signal(SECTOR_INDEX_BITS)
        index = Signal(SECTOR_INDEX_BITS)
        fire = Signal()
        last = Signal()
        m.d.comb += [
            self.buddy.ready.eq(spills.o.valid),
            fire.eq(self.buddy.ready & self.buddy.valid),
            index.eq(spill.first + stored),
            last.eq(fire & (stored == spill.sectors - 1)),
            spills.o.ready.eq(last),
            order.arrive.eq(last),
            order.arrive_queue.eq(spill.queue),
        ]
        with m.If(fire):
            m.d.comb += [
                sectors.write_enable.eq(1),
                sectors.write_address.eq(Cat(index, spill.place, spill.queue)),
                sectors.write_data.eq(self.buddy.payload),
            ]
            m.d.sync += stored.eq(Mux(last, 0, stored + 1))
        return fire

    def _set_aside(
        self,
        m: Module,
        order: WaitingOrder,
        entries: Ram,
        spills: Fifo,
        sectors: Ram,
        buddy_fire: Signal,
    ) -> Signal:
        """Set entries aside that lack sectors of buddy memory, or are behind such ones.

        Returns
        -------
        The entry at `i` is to be set aside.
        """
        keep = Signal(ExpectedEntry(self.config))
        entry = self.i.payload
        queue = Signal(range(self.queues + 1))
        # The same as flags, and not from the number: it decides about all the rest of the cycle.
        is_queue = Signal(self.queues + 1)
        is_full = Signal()
        moved = Signal(range(ENTRY_SECTORS + 1))
        aside = Signal()
        moves = Signal()
        fire = Signal()
        last = Signal()
        m.d.comb += [
            queue.eq(self._queue_of(entry)),
            is_queue.eq(
                Cat(
                    *(
                        ~entry.fetch & ((entry.access.id & (self.queues - 1)) == k)
                        for k in range(self.queues)
                    ),
                    entry.fetch,
                )
            ),
            is_full.eq((order.full & is_queue).any()),
            # The queue may become empty while the sectors are moved.
            aside.eq((entry.buddy != 0) | (order.occupied & is_queue).any() | (moved != 0)),
            moves.eq(self.i.valid & aside & ~is_full & (moved != entry.fetched)),
            fire.eq(moves & self.device.valid & ~buddy_fire),
            last.eq(self.i.valid & aside & ~is_full & (moved + fire == entry.fetched)),
            order.enter.eq(last),
            order.enter_queue.eq(queue),
            order.enter_waits.eq(entry.buddy != 0),
            keep.eq(entry),
            # Overfetched sectors are dropped here.
            keep.fetched.eq(entry.device),
            entries.write_enable.eq(last),
            entries.write_address.eq(Cat(order.enter_place, queue)),
            entries.write_data.eq(keep),
            spills.i.valid.eq(last & (entry.buddy != 0)),
            spills.i.payload.place.eq(order.enter_place),
            spills.i.payload.queue.eq(queue),
            spills.i.payload.fetch.eq(entry.fetch),
            spills.i.payload.first.eq(entry.device),
            spills.i.payload.sectors.eq(entry.buddy),
        ]
        with m.If(aside):
            m.d.comb += [self.device.ready.eq(fire), self.i.ready.eq(last)]
        with m.If(fire & (moved < entry.device)):
            m.d.comb += [
                sectors.write_enable.eq(1),
                sectors.write_address.eq(Cat(moved[:SECTOR_INDEX_BITS], order.enter_place, queue)),
                sectors.write_data.eq(self.device.payload),
            ]
        m.d.sync += moved.eq(Mux(last, 0, moved + fire))
        return aside

    def _send(
        self,
        m: Module,
        order: WaitingOrder,
        entries: Ram,
        sectors: Ram,
        aside: Signal,
    ) -> None:
        """Send what goes straight on, and in preference what has left its queue."""
        count = range(ENTRY_SECTORS + 1)
        m.submodules.arbiter = arbiter = RoundRobinArbiter(self.queues + 1)
        kept = Signal(ExpectedEntry(self.config))
        queue = Signal(range(self.queues + 1))
        place = Signal(PLACE_BITS)
        begins = Signal()
        leaving = Signal()  # The entry that is read from the memories is at `o`.
        straight = Signal()
        straight_stays = Signal()
        fire = Signal()

        # Bursts whose first entries have left hold up others.
        burst = Signal()
        burst_queue = Signal(range(self.queues))
        may_leave = Signal(self.queues + 1)
        may_go_straight = Signal()
        entry = self.o.payload
        with m.If(fire & ~entry.fetch):
            m.d.sync += [burst.eq(~entry.access.last), burst_queue.eq(self._queue_of(entry))]
        m.d.comb += [
            may_leave.eq(
                order.ready
                & Cat(*(~burst | (burst_queue == k) for k in range(self.queues)), Const(1))
            ),
            may_go_straight.eq(
                self.i.payload.fetch | ~burst | (burst_queue == self._queue_of(self.i.payload))
            ),
        ]

        # The next entry that leaves its queue. What is offered stays until it is accepted.
        m.d.comb += [
            arbiter.requests.eq(may_leave),
            begins.eq(~leaving & ~straight_stays & may_leave.any()),
            arbiter.fire.eq(begins),
            straight.eq(
                self.i.valid
                & ~aside
                & may_go_straight
                & (straight_stays | (~leaving & ~begins))
                & ((self.i.payload.fetched == 0) | self.device.valid | straight_stays)
            ),
        ]
        with m.If(begins):
            m.d.sync += [
                leaving.eq(1),
                queue.eq(arbiter.grant),
                place.eq(Cat(*order.first_place).word_select(arbiter.grant, PLACE_BITS)),
            ]
        with m.Elif(fire):
            m.d.sync += leaving.eq(0)
        m.d.sync += straight_stays.eq(straight & ~self.o.ready)
        first_address = Signal(range((self.queues + 1) * PLACES))
        m.d.comb += [
            first_address.eq(
                Cat(Cat(*order.first_place).word_select(arbiter.grant, PLACE_BITS), arbiter.grant)
            ),
            entries.read_enable.eq(begins),
            entries.read_address.eq(first_address),
            Value.cast(kept).eq(entries.read_data),
            fire.eq(self.o.valid & self.o.ready),
            order.leave.eq(leaving & fire),
            order.leave_queue.eq(queue),
            self.o.valid.eq(leaving | straight),
        ]

        # Sectors: the next one is read while one is accepted.
        sent = Signal(count)
        sector_fire = Signal()
        of_device = Signal()
        with m.If(begins):
            m.d.comb += [
                sectors.read_enable.eq(1),
                sectors.read_address.eq(first_address << SECTOR_INDEX_BITS),
            ]
        with m.Else():
            m.d.comb += [
                sectors.read_enable.eq(sector_fire),
                sectors.read_address.eq(Cat((sent + 1)[:SECTOR_INDEX_BITS], place, queue)),
            ]
        m.d.sync += sent.eq(Mux(begins, 0, sent + sector_fire))
        with m.If(leaving):
            m.d.comb += [
                entry.eq(kept),
                of_device.eq(sent < kept.device),
                self.o_device.valid.eq(of_device),
                self.o_buddy.valid.eq(~of_device & (sent < kept.device + kept.buddy)),
                self.o_device.payload.eq(sectors.read_data),
                sector_fire.eq(
                    (self.o_device.valid & self.o_device.ready)
                    | (self.o_buddy.valid & self.o_buddy.ready)
                ),
            ]
        with m.Else():
            m.d.comb += [
                entry.eq(self.i.payload),
                self.o_device.valid.eq(straight & self.device.valid),
                self.o_device.payload.eq(self.device.payload),
            ]
        m.d.comb += self.o_buddy.payload.eq(sectors.read_data)
        with m.If(~aside):
            m.d.comb += [
                self.device.ready.eq(straight & self.o_device.ready),
                self.i.ready.eq(straight & self.o.ready),
            ]

    def _tell_done(self, m: Module, arrives: Value) -> None:
        """Tell of each read, oldest first, when all of its sectors have come.

        The sectors of each memory come in the order of the reads.
        """
        m.submodules.reads = reads = Fifo(1, self.config.reads)
        arrived = Signal(range(self.config.reads + 2))
        m.d.comb += [
            reads.i.valid.eq(self.i.valid & self.i.ready & ~self.i.payload.fetch),
            reads.i.payload.eq(self.i.payload.buddy != 0),
            self.read_done.eq(reads.o.valid & (~reads.o.payload | (arrived != 0))),
            reads.o.ready.eq(self.read_done),
        ]
        m.d.sync += arrived.eq(arrived + arrives - (self.read_done & reads.o.payload))
