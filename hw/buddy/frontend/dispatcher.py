"""Accesses with their places in memory: on to be read, or to be written, once nothing is before."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.frontend.access import ENTRY_OFFSET_BITS
from cdma.hw.buddy.frontend.admission import AdmittedAccess
from cdma.hw.buddy.frontend.scoreboard import Scoreboard
from cdma.hw.buddy.payloads import AccessStatus, Mapping
from cdma.hw.buddy.reads import EntryRead
from cdma.hw.buddy.writes import EntryWrite, WriteKind
from cdma.hw.config import BuddyConfig


class AccessDispatcher(wiring.Component):
    """Sends reads to be read, and writes to be written; writes of parts of entries to both.

    In order; an access waits until those of the same entry are done that it must not meet.

    Latency: 0 cycles. Throughput: an access per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(AdmittedAccess(config)))`
    mapping : `In(stream.Signature(Mapping()))`
        For each.
    read : `Out(stream.Signature(EntryRead(config)))`
    write : `Out(stream.Signature(EntryWrite(config)))`
    read_ends, write_ends : `In(1)`
        The oldest read has its data; the oldest write is done.
    fetch_unneeded : `Out(1)`
        A write of a part of an entry fetches nothing.
    waits : `Out(1)`
        An access waits for others of its entry.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(AdmittedAccess(config))),
                "mapping": In(stream.Signature(Mapping())),
                "read": Out(stream.Signature(EntryRead(config))),
                "write": Out(stream.Signature(EntryWrite(config))),
                "read_ends": In(1),
                "write_ends": In(1),
                "fetch_unneeded": Out(1),
                "waits": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.scoreboard = scoreboard = Scoreboard(self.config.reads, self.config.writes)
        admitted = self.i.payload
        access = admitted.access
        mapping = self.mapping.payload
        offered = Signal()
        may = Signal()
        moves = Signal()
        fetches = Signal()
        reads = Signal()
        status = Signal(AccessStatus)
        kind = Signal(WriteKind)
        m.d.comb += [
            status.eq(Mux(admitted.status == AccessStatus.OK, mapping.status, admitted.status)),
            scoreboard.entry.eq(access.address[ENTRY_OFFSET_BITS:]),
            scoreboard.write.eq(admitted.write),
            scoreboard.begins.eq(moves),
            scoreboard.read_ends.eq(self.read_ends),
            scoreboard.write_ends.eq(self.write_ends),
        ]
        with m.If(status != AccessStatus.OK):
            m.d.comb += kind.eq(WriteKind.NOTHING)
        with m.Elif(~mapping.compressed):
            m.d.comb += kind.eq(WriteKind.PLAIN)
        with m.Elif(admitted.partial):
            m.d.comb += kind.eq(WriteKind.MERGES)
        with m.Else():
            m.d.comb += kind.eq(WriteKind.COVERS)
        m.d.comb += [
            offered.eq(self.i.valid & self.mapping.valid),
            may.eq(offered & scoreboard.may),
            self.waits.eq(offered & ~scoreboard.may),
            fetches.eq(admitted.write & (kind == WriteKind.MERGES)),
            reads.eq(~admitted.write | fetches),
            moves.eq(may & (self.read.ready | ~reads) & (self.write.ready | ~admitted.write)),
            self.i.ready.eq(moves),
            self.mapping.ready.eq(moves),
            self.fetch_unneeded.eq(moves & admitted.partial & ~fetches),
            self.read.valid.eq(may & reads & (self.write.ready | ~admitted.write)),
            self.read.payload.access.eq(access),
            self.read.payload.fetch.eq(admitted.write),
            self.read.payload.status.eq(status),
            self.read.payload.mapping.eq(mapping),
            self.write.valid.eq(may & admitted.write & (self.read.ready | ~reads)),
            self.write.payload.id.eq(access.id),
            self.write.payload.last.eq(access.last),
            self.write.payload.address.eq(access.address),
            self.write.payload.kind.eq(kind),
            self.write.payload.status.eq(status),
            self.write.payload.mapping.eq(mapping),
        ]
        return m
