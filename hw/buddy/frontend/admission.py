"""Reads and writes in one row, each let in only when there is room for all that it will need."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.frontend.access import EntryAccess, GatheredWrite
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.config import BuddyConfig

FETCHES = 4
"""Entries that writes may be fetching at once."""


class AdmittedAccess(data.StructLayout):
    """An access that has room.

    Members
    -------
    access
    write
    partial
        It writes a part of the entry.
    status
        It is refused if not OK.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "access": EntryAccess(config),
                "write": 1,
                "partial": 1,
                "status": AccessStatus,
            }
        )


class Admission(wiring.Component):
    """Lets accesses in, reads and writes in turn.

    A read takes a place of `reads`, until its last beat has left. A write takes one of `writes`
    until it is done, and one of `FETCHES` if it covers an entry in part, and one for its burst's
    response, until that has been taken. Behind this component nothing waits for a manager; so reads
    that a manager does not take cannot stop writes, nor the other way round.

    Latency: 0 cycles. Throughput: an access per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    read : `In(stream.Signature(EntryAccess(config)))`
    write : `In(stream.Signature(GatheredWrite(config)))`
    o : `Out(stream.Signature(AdmittedAccess(config)))`
    data : `Out(stream.Signature(GatheredWrite(config)))`
        Of each write, with it.
    enable : `In(1)`
        Accesses are refused while it is low.
    lost : `In(1)`
        And while this is high.
    read_ends, write_ends, fetch_ends, response_ends : `In(1)`
        A place is free again.
    fetch_unneeded : `In(1)`
        So is that of another write, which turned out to fetch nothing.
    idle : `Out(1)`
        None is taken.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "read": In(stream.Signature(EntryAccess(config))),
                "write": In(stream.Signature(GatheredWrite(config))),
                "o": Out(stream.Signature(AdmittedAccess(config))),
                "data": Out(stream.Signature(GatheredWrite(config))),
                "enable": In(1),
                "lost": In(1),
                "read_ends": In(1),
                "write_ends": In(1),
                "fetch_ends": In(1),
                "fetch_unneeded": In(1),
                "response_ends": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        reads = Signal(range(self.config.reads + 1))
        writes = Signal(range(self.config.writes + 1))
        responses = Signal(range(self.config.writes + 1))
        fetches = Signal(range(FETCHES + 1))
        partial = Signal()
        read_fits = Signal()
        write_fits = Signal()
        favors_write = Signal()
        writes_now = Signal()
        enters = Signal()
        written = self.write.payload
        m.d.comb += [
            partial.eq(~written.strobe.all()),
            read_fits.eq(self.read.valid & (reads != self.config.reads)),
            write_fits.eq(
                self.write.valid
                & self.data.ready
                & (writes != self.config.writes)
                & ~(partial & (fetches == FETCHES))
                & ~(written.access.last & (responses == self.config.writes))
            ),
            self.idle.eq((reads == 0) & (writes == 0) & (responses == 0)),
        ]
        # What is offered stays until it is taken.
        stays = Signal()
        stays_write = Signal()
        m.d.comb += writes_now.eq(Mux(stays, stays_write, write_fits & (favors_write | ~read_fits)))
        m.d.sync += [
            stays.eq(self.o.valid & ~self.o.ready),
            stays_write.eq(writes_now),
        ]
        chosen = Signal(EntryAccess(self.config))
        access = self.o.payload
        m.d.comb += [
            chosen.eq(Mux(writes_now, written.access.as_value(), self.read.payload.as_value())),
            access.access.eq(chosen),
            access.write.eq(writes_now),
            access.partial.eq(writes_now & partial),
            self.o.valid.eq(Mux(writes_now, write_fits, read_fits)),
            enters.eq(self.o.valid & self.o.ready),
            self.read.ready.eq(enters & ~writes_now),
            self.write.ready.eq(enters & writes_now),
            self.data.valid.eq(writes_now & write_fits & self.o.ready),
            self.data.payload.eq(written),
        ]
        with m.If(~self.enable):
            m.d.comb += access.status.eq(AccessStatus.DISABLED)
        with m.Elif(self.lost):
            m.d.comb += access.status.eq(AccessStatus.METADATA_LOST)
        with m.Elif(chosen.unsupported):
            m.d.comb += access.status.eq(AccessStatus.UNSUPPORTED_BURST)
        with m.If(enters):
            m.d.sync += favors_write.eq(~writes_now)
        m.d.sync += [
            reads.eq(reads + self.read.ready - self.read_ends),
            writes.eq(writes + self.write.ready - self.write_ends),
            responses.eq(responses + (self.write.ready & written.access.last) - self.response_ends),
            fetches.eq(
                fetches + (self.write.ready & partial) - (self.fetch_ends + self.fetch_unneeded)
            ),
        ]
        return m
