"""Responses to reads: decompressed entries become beats at the bus, or go to a partial write."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.frontend.beat_position import BeatPosition
from cdma.hw.buddy.payloads import (
    ENTRY_OFFSET_BITS,
    AccessStatus,
    EntryAccess,
    ErrorReport,
    FetchedSector,
    ReadInfo,
    SubordinateReadBeat,
    last_byte,
)
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.codec.entry.payloads import RestoredSector
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.fifo import Fifo


class ReadResponse(wiring.Component):
    """Selects the sectors that an access covers, and returns them as beats.

    All entries that may be outstanding fit in the buffer, so backpressure from the bus never
    blocks the fetches of partial writes.

    Latency: 2 cycles from a sector to its beat. Throughput: a sector in and a beat out per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(RestoredSector(config.entry)))`
    info : `In(stream.Signature(ReadInfo(config)))`
        One for each entry, valid with its first sector.
    beats : `Out(stream.Signature(SubordinateReadBeat(config)))`
    fetched : `Out(stream.Signature(FetchedSector(config)))`
    read_done, fetch_done : `Out(1)`
        The last beat of an entry is transferred; the last sector of a fetched one is.
    error : `Out(ErrorReport())`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(RestoredSector(config.entry))),
                "info": In(stream.Signature(ReadInfo(config))),
                "beats": Out(stream.Signature(SubordinateReadBeat(config))),
                "fetched": Out(stream.Signature(FetchedSector(config))),
                "read_done": Out(1),
                "fetch_done": Out(1),
                "error": Out(ErrorReport()),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        sectors = config.entry.sectors
        sector_shape = data.StructLayout({"data": 8 * config.entry.sector_bytes, "error": 1})
        m.submodules.buffered = buffered = Fifo(sector_shape, config.reads * sectors)
        m.submodules.accesses = accesses = Fifo(EntryAccess(config), config.reads)
        self._select(m, buffered, accesses)
        self._respond(m, buffered, accesses)
        return m

    def _select(self, m: Module, buffered: Fifo, accesses: Fifo) -> None:
        """Select the sectors that the access covers."""
        sectors = self.config.entry.sectors
        sector_bits = (self.config.entry.sector_bytes - 1).bit_length()
        info = self.info.payload
        sector = self.i.payload
        index = Signal(range(max(sectors, 2)))
        first = Signal(range(max(sectors, 2)))
        is_last = Signal()
        selected = Signal()
        is_first = Signal()
        status = Signal(AccessStatus)
        valid = Signal()
        fire = Signal()
        last = last_byte(m, info.access)
        m.d.comb += [
            first.eq(info.access.address[sector_bits:ENTRY_OFFSET_BITS]),
            is_first.eq(selected & (index == first)),
            is_last.eq(index == sectors - 1),
            status.eq(info.status),
            valid.eq(self.i.valid & self.info.valid),
        ]
        if sectors == 1:
            m.d.comb += selected.eq(~info.fetch)
        else:
            m.d.comb += selected.eq(~info.fetch & (index >= first) & (index <= last[sector_bits:]))
        with m.If((info.status == AccessStatus.OK) & (sector.status != 0)):
            m.d.comb += status.eq(AccessStatus.CORRUPT_ENTRY)
        m.d.comb += [
            # A read has room from its admission on, so the decoder need not hear of it.
            fire.eq(valid & (~info.fetch | self.fetched.ready)),
            self.i.ready.eq(fire),
            self.info.ready.eq(fire & is_last),
            buffered.i.valid.eq(fire & selected),
            buffered.i.payload.data.eq(sector.data),
            buffered.i.payload.error.eq(status != AccessStatus.OK),
            accesses.i.valid.eq(fire & is_first),
            accesses.i.payload.eq(info.access),
            self.fetched.valid.eq(valid & info.fetch),
            self.fetched.payload.data.eq(sector.data),
            self.fetched.payload.status.eq(status),
            self.fetch_done.eq(fire & is_last & info.fetch),
            self.error.valid.eq(fire & is_last & ~info.fetch & (status != AccessStatus.OK)),
            self.error.status.eq(status),
            self.error.address.eq(info.access.address),
        ]
        with m.If(fire):
            m.d.sync += index.eq(Mux(is_last, 0, index + 1))
        m.d.sync += Assert(~buffered.i.valid | buffered.i.ready)
        m.d.sync += Assert(~accesses.i.valid | accesses.i.ready)

    def _respond(self, m: Module, buffered: Fifo, accesses: Fifo) -> None:
        """Return beats: several of each sector if the burst is a narrow one."""
        m.submodules.position = position = BeatPosition(self.config)
        access = accesses.o.payload
        beat = self.beats.payload
        fire = Signal()
        m.d.comb += [
            position.access.eq(access),
            position.fire.eq(fire),
            self.beats.valid.eq(buffered.o.valid & accesses.o.valid),
            fire.eq(self.beats.valid & self.beats.ready),
            beat.id.eq(access.id),
            beat.data.eq(buffered.o.payload.data),
            beat.resp.eq(Mux(buffered.o.payload.error, AxiResponse.SLVERR, AxiResponse.OKAY)),
            beat.last.eq(access.last & position.last),
            buffered.o.ready.eq(fire & position.sector_last),
            accesses.o.ready.eq(fire & position.last),
            self.read_done.eq(fire & position.last),
        ]
