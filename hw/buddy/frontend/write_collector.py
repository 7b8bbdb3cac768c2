"""The data of write bursts, collected entry by entry."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.buddy.frontend.beat_position import BeatPosition
from cdma.hw.buddy.payloads import CollectedWrite, EntryAccess
from cdma.hw.bus.burst import WriteBeat
from cdma.hw.config import BuddyConfig


class WriteCollector(wiring.Component):
    """Collects the beats of a write into entries.

    Latency: 1 cycle from an access's last beat. Throughput: a beat per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(EntryAccess(config)))`
    beats : `In(stream.Signature(WriteBeat(sector_bytes)))`
        WLAST is ignored: AWLEN gives the number of beats.
    o : `Out(stream.Signature(CollectedWrite(config)))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(EntryAccess(config))),
                "beats": In(stream.Signature(WriteBeat(config.entry.sector_bytes))),
                "o": Out(stream.Signature(CollectedWrite(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config.entry
        m.submodules.position = position = BeatPosition(self.config)
        collected = Signal(CollectedWrite(self.config), reset_less=True)
        partly_filled = Signal()
        complete = Signal()
        beat_fire = Signal()
        m.d.comb += [
            self.o.valid.eq(complete),
            self.o.payload.eq(collected),
            beat_fire.eq(self.i.valid & self.beats.valid & (~complete | self.o.ready)),
            self.beats.ready.eq(self.i.valid & (~complete | self.o.ready)),
            self.i.ready.eq(beat_fire & position.last),
            position.access.eq(self.i.payload),
            position.fire.eq(beat_fire),
        ]
        with m.If(beat_fire):
            m.d.sync += [partly_filled.eq(~position.last), complete.eq(position.last)]
            m.d.sync += collected.access.eq(self.i.payload)
        with m.Elif(self.o.ready):
            m.d.sync += complete.eq(0)

        beat = self.beats.payload
        for j in range(ENTRY_BYTES):
            sector, lane = divmod(j, config.sector_bytes)
            written = Signal(name=f"written_{j}")
            m.d.comb += written.eq(beat.strobe[lane] & (position.sector == sector))
            with m.If(beat_fire):
                with m.If(written):
                    m.d.sync += collected.data.word_select(j, 8).eq(beat.data.word_select(lane, 8))
                with m.Elif(~partly_filled):
                    m.d.sync += collected.data.word_select(j, 8).eq(0)
                m.d.sync += collected.strobe[j].eq(written | (partly_filled & collected.strobe[j]))
        return m
