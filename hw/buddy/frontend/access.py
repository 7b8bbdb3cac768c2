"""From AXI bursts to accesses to single entries, and the data of writes."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.buddy.payloads import LOGICAL_ADDRESS_BITS
from cdma.hw.bus.burst import WriteBeat
from cdma.hw.codec.entry.payloads import ENTRY_BITS
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.stream import Register

ENTRY_OFFSET_BITS = 7
ENTRY_NUMBER_BITS = LOGICAL_ADDRESS_BITS - ENTRY_OFFSET_BITS


class BurstType(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """AxBURST."""

    FIXED = 0
    INCR = 1
    WRAP = 2


class BurstRequest(data.StructLayout):
    """A burst as it comes from a manager: AxID, AxADDR, AxLEN, AxSIZE, AxBURST."""

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "id": config.id_bits,
                "address": LOGICAL_ADDRESS_BITS,
                "beats": 8,
                "size": 3,
                "burst": BurstType,
            }
        )


class EntryAccess(data.StructLayout):
    """The part of a burst that is about one entry.

    Members
    -------
    id
        Of the burst.
    address
        Of the first byte.
    size
        Bytes per beat, as their logarithm.
    beats
        How many of the burst's beats there are.
    last
        They are the burst's last ones.
    unsupported
        The burst is FIXED or WRAP. Its beats are counted as if it were not.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "id": config.id_bits,
                "address": LOGICAL_ADDRESS_BITS,
                "size": 3,
                "beats": range(ENTRY_BYTES + 1),
                "last": 1,
                "unsupported": 1,
            }
        )


def last_byte(m: Module, access: Any) -> Signal:
    """Where in its entry an access ends: 7 bits."""
    first_beat = Signal(7, name="first_beat")
    last = Signal(7, name="last_byte")
    m.d.comb += [
        first_beat.eq(access.address[:7] >> access.size),
        last.eq(((first_beat + access.beats) << access.size) - 1),
    ]
    return last


class GatheredWrite(data.StructLayout):
    """An entry's part of a write burst, all data there.

    Members
    -------
    access
    data
        The entry's bytes, the first in the low bits.
    strobe
        Which of them are written; the others are zero.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__({"access": EntryAccess(config), "data": ENTRY_BITS, "strobe": ENTRY_BYTES})


class BurstSplitter(wiring.Component):
    """Cuts bursts into accesses to single entries.

    Latency: 1 cycle. Throughput: an access per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(BurstRequest(config)))`
    o : `Out(stream.Signature(EntryAccess(config)))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(BurstRequest(config))),
                "o": Out(stream.Signature(EntryAccess(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.accesses = accesses = Register(EntryAccess(self.config))
        wiring.connect(m, accesses.o, wiring.flipped(self.o))
        burst = self.i.payload
        access = accesses.i.payload

        # Behind the first access of a burst, accesses start with their entries.
        inside = Signal()
        number = Signal(ENTRY_NUMBER_BITS, reset_less=True)
        beats_left = Signal(range(257), reset_less=True)
        left = Signal(range(257))
        offset = Signal(ENTRY_OFFSET_BITS)
        room = Signal(range(ENTRY_BYTES + 1))
        ends = Signal()
        m.d.comb += [
            left.eq(Mux(inside, beats_left, burst.beats + 1)),
            offset.eq(Mux(inside, 0, burst.address[:ENTRY_OFFSET_BITS])),
            # A first beat that is not aligned to its size takes the place of one that is.
            room.eq((ENTRY_BYTES >> burst.size) - (offset >> burst.size)),
            ends.eq(left <= room),
            accesses.i.valid.eq(self.i.valid),
            self.i.ready.eq(accesses.i.ready & ends),
            access.id.eq(burst.id),
            access.address.eq(
                Mux(
                    inside,
                    Cat(C(0, ENTRY_OFFSET_BITS), number),
                    burst.address,
                )
            ),
            access.size.eq(burst.size),
            access.beats.eq(Mux(ends, left, room)),
            access.last.eq(ends),
            access.unsupported.eq(burst.burst != BurstType.INCR),
        ]
        with m.If(accesses.i.valid & accesses.i.ready):
            m.d.sync += [
                inside.eq(~ends),
                beats_left.eq(left - room),
                number.eq(Mux(inside, number, burst.address[ENTRY_OFFSET_BITS:]) + 1),
            ]
        return m


class BeatPlaces(wiring.Component):
    """Walks through the places of an access's beats in their entry.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    access : `In(EntryAccess(config))`
        Stays until its last beat has moved.
    moves : `In(1)`
        A beat moves now.
    sector : `Out(range(sectors))`
        Which of the entry's sectors the present beat is in.
    closes : `Out(1)`
        It is the access's last one.
    leaves : `Out(1)`
        The next one is in another sector, or there is none.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "access": In(EntryAccess(config)),
                "moves": In(1),
                "sector": Out(range(max(config.entry.sectors, 2))),
                "closes": Out(1),
                "leaves": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sector_bits = (self.config.entry.sector_bytes - 1).bit_length()
        beat = Signal(range(ENTRY_BYTES))
        # In units of a beat, counted from the entry's start.
        first = Signal(ENTRY_OFFSET_BITS)
        unit = Signal(ENTRY_OFFSET_BITS)
        place = Signal(ENTRY_OFFSET_BITS)
        following = Signal(ENTRY_OFFSET_BITS + 1)
        m.d.comb += [
            first.eq(self.access.address[:ENTRY_OFFSET_BITS] >> self.access.size),
            unit.eq(first + beat),
            place.eq(unit << self.access.size),
            following.eq((unit + 1) << self.access.size),
            self.sector.eq(place[sector_bits:]),
            self.closes.eq(beat == self.access.beats - 1),
            self.leaves.eq(self.closes | (following[sector_bits:] != place[sector_bits:])),
        ]
        with m.If(self.moves):
            m.d.sync += beat.eq(Mux(self.closes, 0, beat + 1))
        return m


class WriteGatherer(wiring.Component):
    """Gathers the beats of a write, entry by entry.

    Latency: 1 cycle from an access's last beat. Throughput: a beat per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(EntryAccess(config)))`
    beats : `In(stream.Signature(WriteBeat(sector_bytes)))`
        WLAST is not looked at: AWLEN tells as much.
    o : `Out(stream.Signature(GatheredWrite(config)))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(EntryAccess(config))),
                "beats": In(stream.Signature(WriteBeat(config.entry.sector_bytes))),
                "o": Out(stream.Signature(GatheredWrite(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config.entry
        m.submodules.places = places = BeatPlaces(self.config)
        gathered = Signal(GatheredWrite(self.config), reset_less=True)
        begun = Signal()
        complete = Signal()
        takes = Signal()
        m.d.comb += [
            self.o.valid.eq(complete),
            self.o.payload.eq(gathered),
            takes.eq(self.i.valid & self.beats.valid & (~complete | self.o.ready)),
            self.beats.ready.eq(self.i.valid & (~complete | self.o.ready)),
            self.i.ready.eq(takes & places.closes),
            places.access.eq(self.i.payload),
            places.moves.eq(takes),
        ]
        with m.If(takes):
            m.d.sync += [begun.eq(~places.closes), complete.eq(places.closes)]
            m.d.sync += gathered.access.eq(self.i.payload)
        with m.Elif(self.o.ready):
            m.d.sync += complete.eq(0)

        beat = self.beats.payload
        for j in range(ENTRY_BYTES):
            sector, lane = divmod(j, config.sector_bytes)
            written = Signal(name=f"written_{j}")
            m.d.comb += written.eq(beat.strobe[lane] & (places.sector == sector))
            with m.If(takes):
                with m.If(written):
                    m.d.sync += gathered.data.word_select(j, 8).eq(beat.data.word_select(lane, 8))
                with m.Elif(~begun):
                    m.d.sync += gathered.data.word_select(j, 8).eq(0)
                m.d.sync += gathered.strobe[j].eq(written | (begun & gathered.strobe[j]))
        return m
