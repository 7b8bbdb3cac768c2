"""Dispatch of mapped accesses to the read path and the write path, in order of hazards."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.frontend.scoreboard import Scoreboard
from cdma.hw.buddy.payloads import (
    ENTRY_OFFSET_BITS,
    AccessStatus,
    AdmittedAccess,
    EntryRead,
    EntryWrite,
    Mapping,
    WriteKind,
)
from cdma.hw.config import BuddyConfig


class AccessDispatcher(wiring.Component):
    """Dispatches reads to the read path, full writes to the write path, and partial writes of
    compressed entries to both.

    Accesses leave in order. An access stalls while an access with which it has a hazard is
    outstanding; see `Scoreboard`.

    Latency: 0 cycles. Throughput: an access per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(AdmittedAccess(config)))`
    mapping : `In(stream.Signature(Mapping(config)))`
        One for each access.
    read : `Out(stream.Signature(EntryRead(config)))`
    write : `Out(stream.Signature(EntryWrite(config)))`
    read_done, write_done : `In(1)`
        The oldest read has its data; the oldest write is done.
    fetch_skipped : `Out(1)`
        A partial write is dispatched that fetches nothing.
    hazard : `Out(1)`
        An access is stalled by the scoreboard.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(AdmittedAccess(config))),
                "mapping": In(stream.Signature(Mapping(config))),
                "read": Out(stream.Signature(EntryRead(config))),
                "write": Out(stream.Signature(EntryWrite(config))),
                "read_done": In(1),
                "write_done": In(1),
                "fetch_skipped": Out(1),
                "hazard": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.scoreboard = scoreboard = Scoreboard(self.config.reads, self.config.writes)
        admitted = self.i.payload
        access = admitted.access
        mapping = self.mapping.payload
        valid = Signal()
        grant = Signal()
        fire = Signal()
        needs_fetch = Signal()
        needs_read = Signal()
        status = Signal(AccessStatus)
        kind = Signal(WriteKind)
        m.d.comb += [
            status.eq(Mux(admitted.status == AccessStatus.OK, mapping.status, admitted.status)),
            scoreboard.entry.eq(access.address[ENTRY_OFFSET_BITS:]),
            scoreboard.write.eq(admitted.write),
            scoreboard.issue.eq(fire),
            scoreboard.read_done.eq(self.read_done),
            scoreboard.write_done.eq(self.write_done),
        ]
        with m.If(status != AccessStatus.OK):
            m.d.comb += kind.eq(WriteKind.FAILED)
        with m.Elif(~mapping.compressed):
            m.d.comb += kind.eq(WriteKind.UNCOMPRESSED)
        with m.Elif(admitted.partial):
            m.d.comb += kind.eq(WriteKind.PARTIAL)
        with m.Else():
            m.d.comb += kind.eq(WriteKind.FULL)
        m.d.comb += [
            valid.eq(self.i.valid & self.mapping.valid),
            grant.eq(valid & scoreboard.grant),
            self.hazard.eq(valid & ~scoreboard.grant),
            needs_fetch.eq(admitted.write & (kind == WriteKind.PARTIAL)),
            needs_read.eq(~admitted.write | needs_fetch),
            fire.eq(grant & (self.read.ready | ~needs_read) & (self.write.ready | ~admitted.write)),
            self.i.ready.eq(fire),
            self.mapping.ready.eq(fire),
            self.fetch_skipped.eq(fire & admitted.partial & ~needs_fetch),
            self.read.valid.eq(grant & needs_read & (self.write.ready | ~admitted.write)),
            self.read.payload.access.eq(access),
            self.read.payload.fetch.eq(admitted.write),
            self.read.payload.status.eq(status),
            self.read.payload.mapping.eq(mapping),
            self.write.valid.eq(grant & admitted.write & (self.read.ready | ~needs_read)),
            self.write.payload.id.eq(access.id),
            self.write.payload.last.eq(access.last),
            self.write.payload.address.eq(access.address),
            self.write.payload.kind.eq(kind),
            self.write.payload.status.eq(status),
            self.write.payload.mapping.eq(mapping),
        ]
        return m
