"""Restored entries on their way back: to the bus, or to the write that wanted one."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.frontend.access import BeatPlaces, EntryAccess, last_byte
from cdma.hw.buddy.payloads import LOGICAL_ADDRESS_BITS, AccessStatus
from cdma.hw.buddy.reads import ReadInfo
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.codec.entry.payloads import RestoredSector
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.stream import Fifo


class FetchedSector(data.StructLayout):
    """A sector of an entry that was read for a write.

    Members
    -------
    data
        Zeros if `status` is not OK.
    status
        Of the entry, the same on each of its sectors.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__({"data": 8 * config.entry.sector_bytes, "status": AccessStatus})


class ManagerReadBeat(data.StructLayout):
    """A beat for the manager: RID, RDATA, RRESP, RLAST."""

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "id": config.id_bits,
                "data": 8 * config.entry.sector_bytes,
                "resp": AxiResponse,
                "last": 1,
            }
        )


class ReadReturner(wiring.Component):
    """Makes beats of restored entries.

    There is room for all entries that may be under way, so that what a manager does not take never
    stands in the way of the writes that fetch entries.

    Latency: 2 cycles to a beat. Throughput: a sector in and a beat out per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(RestoredSector(config.entry)))`
    info : `In(stream.Signature(ReadInfo(config)))`
        For each entry, there with its first sector.
    beats : `Out(stream.Signature(ManagerReadBeat(config)))`
    fetched : `Out(stream.Signature(FetchedSector(config)))`
    returned, fetch_ends : `Out(1)`
        The last beat of an entry has left; an entry was given to a write.
    failed : `Out(1)`
        An access ends with an error.
    status, address
        Which one, and the access's address.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(RestoredSector(config.entry))),
                "info": In(stream.Signature(ReadInfo(config))),
                "beats": Out(stream.Signature(ManagerReadBeat(config))),
                "fetched": Out(stream.Signature(FetchedSector(config))),
                "returned": Out(1),
                "fetch_ends": Out(1),
                "failed": Out(1),
                "status": Out(AccessStatus),
                "address": Out(LOGICAL_ADDRESS_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        sectors = config.entry.sectors
        sector_bits = (config.entry.sector_bytes - 1).bit_length()
        sector_shape = data.StructLayout({"data": 8 * config.entry.sector_bytes, "fails": 1})
        m.submodules.waiting = waiting = Fifo(sector_shape, config.reads * sectors)
        m.submodules.accesses = accesses = Fifo(EntryAccess(config), config.reads)

        # Sort out what the access is about.
        info = self.info.payload
        sector = self.i.payload
        index = Signal(range(max(sectors, 2)))
        first = Signal(range(max(sectors, 2)))
        final = Signal()
        wanted = Signal()
        status = Signal(AccessStatus)
        opens = Signal()
        moves = Signal()
        offered = Signal()
        last = last_byte(m, info.access)
        m.d.comb += [
            first.eq(info.access.address[sector_bits:7]),
            opens.eq(wanted & (index == first)),
            final.eq(index == sectors - 1),
            status.eq(info.status),
            offered.eq(self.i.valid & self.info.valid),
        ]
        if sectors == 1:
            m.d.comb += wanted.eq(~info.fetch)
        else:
            m.d.comb += wanted.eq(~info.fetch & (index >= first) & (index <= last[sector_bits:]))
        with m.If((info.status == AccessStatus.OK) & (sector.status != 0)):
            m.d.comb += status.eq(AccessStatus.CORRUPT_ENTRY)
        m.d.comb += [
            moves.eq(
                offered
                & Mux(
                    info.fetch,
                    self.fetched.ready,
                    ~wanted | (waiting.i.ready & (accesses.i.ready | ~opens)),
                )
            ),
            self.i.ready.eq(moves),
            self.info.ready.eq(moves & final),
            waiting.i.valid.eq(moves & wanted),
            waiting.i.payload.data.eq(sector.data),
            waiting.i.payload.fails.eq(status != AccessStatus.OK),
            accesses.i.valid.eq(moves & opens),
            accesses.i.payload.eq(info.access),
            self.fetched.valid.eq(offered & info.fetch),
            self.fetched.payload.data.eq(sector.data),
            self.fetched.payload.status.eq(status),
            self.fetch_ends.eq(moves & final & info.fetch),
            self.failed.eq(moves & final & ~info.fetch & (status != AccessStatus.OK)),
            self.status.eq(status),
            self.address.eq(info.access.address),
        ]
        with m.If(moves):
            m.d.sync += index.eq(Mux(final, 0, index + 1))

        # Beats of sectors: several, if the manager asked for narrow ones.
        m.submodules.places = places = BeatPlaces(config)
        access = accesses.o.payload
        beat = self.beats.payload
        gives = Signal()
        m.d.comb += [
            places.access.eq(access),
            places.moves.eq(gives),
            self.beats.valid.eq(waiting.o.valid & accesses.o.valid),
            gives.eq(self.beats.valid & self.beats.ready),
            beat.id.eq(access.id),
            beat.data.eq(waiting.o.payload.data),
            beat.resp.eq(Mux(waiting.o.payload.fails, AxiResponse.SLVERR, AxiResponse.OKAY)),
            beat.last.eq(access.last & places.closes),
            waiting.o.ready.eq(gives & places.leaves),
            accesses.o.ready.eq(gives & places.closes),
            self.returned.eq(gives & places.closes),
        ]
        return m
