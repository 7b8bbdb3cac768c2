"""Admission of reads and writes, each once all buffer space that it needs is reserved."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.payloads import AccessStatus, AdmittedAccess, CollectedWrite, EntryAccess
from cdma.hw.config import BuddyConfig

FETCHES = 4
"""Outstanding fetches of entries for partial writes, at most."""


class Admission(wiring.Component):
    """Arbitrates round-robin between reads and writes, and admits what has buffer space.

    A read holds one of `reads` credits until its last beat has been transferred. A write holds one
    of `writes` credits until it is done, one of `FETCHES` if it covers an entry in part, and one
    response credit for its burst until the response has been accepted. Nothing behind this
    component waits for the bus master, so backpressure on read data cannot block writes, nor
    backpressure on responses reads.

    Latency: 0 cycles. Throughput: an access per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    read : `In(stream.Signature(EntryAccess(config)))`
    write : `In(stream.Signature(CollectedWrite(config)))`
    o : `Out(stream.Signature(AdmittedAccess(config)))`
    data : `Out(stream.Signature(CollectedWrite(config)))`
        The data of each write, in the cycle in which `o` admits it.
    enable : `In(1)`
        Accesses are refused while it is low.
    lost : `In(1)`
        Accesses are refused while it is high.
    read_done, write_done, fetch_done, response_done : `In(1)`
        A credit is returned.
    fetch_skipped : `In(1)`
        A partial write returns its fetch credit, for its page is not compressed or it has failed.
    idle : `Out(1)`
        All credits of reads, writes and responses are free.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "read": In(stream.Signature(EntryAccess(config))),
                "write": In(stream.Signature(CollectedWrite(config))),
                "o": Out(stream.Signature(AdmittedAccess(config))),
                "data": Out(stream.Signature(CollectedWrite(config))),
                "enable": In(1),
                "lost": In(1),
                "read_done": In(1),
                "write_done": In(1),
                "fetch_done": In(1),
                "fetch_skipped": In(1),
                "response_done": In(1),
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
        read_valid = Signal()
        write_valid = Signal()
        write_next = Signal()
        write_grant = Signal()
        fire = Signal()
        collected = self.write.payload

        # Credits.
        m.d.comb += [
            partial.eq(~collected.strobe.all()),
            read_valid.eq(self.read.valid & (reads != self.config.reads)),
            write_valid.eq(
                self.write.valid
                & self.data.ready
                & (writes != self.config.writes)
                & ~(partial & (fetches == FETCHES))
                & ~(collected.access.last & (responses == self.config.writes))
            ),
            self.idle.eq((reads == 0) & (writes == 0) & (responses == 0)),
        ]

        # Round-robin grant. A grant that is stalled by backpressure is kept.
        stalled = Signal()
        stalled_write = Signal()
        m.d.comb += write_grant.eq(
            Mux(stalled, stalled_write, write_valid & (write_next | ~read_valid))
        )
        m.d.sync += [
            stalled.eq(self.o.valid & ~self.o.ready),
            stalled_write.eq(write_grant),
        ]
        granted = Signal(EntryAccess(self.config))
        access = self.o.payload
        m.d.comb += [
            granted.eq(Mux(write_grant, collected.access.as_value(), self.read.payload.as_value())),
            access.access.eq(granted),
            access.write.eq(write_grant),
            access.partial.eq(write_grant & partial),
            self.o.valid.eq(Mux(write_grant, write_valid, read_valid)),
            fire.eq(self.o.valid & self.o.ready),
            self.read.ready.eq(fire & ~write_grant),
            self.write.ready.eq(fire & write_grant),
            self.data.valid.eq(write_grant & write_valid & self.o.ready),
            self.data.payload.eq(collected),
        ]
        with m.If(~self.enable):
            m.d.comb += access.status.eq(AccessStatus.DISABLED)
        with m.Elif(self.lost):
            m.d.comb += access.status.eq(AccessStatus.METADATA_LOST)
        with m.Elif(granted.unsupported):
            m.d.comb += access.status.eq(AccessStatus.UNSUPPORTED_BURST)
        with m.If(fire):
            m.d.sync += write_next.eq(~write_grant)
        m.d.sync += [
            reads.eq(reads + self.read.ready - self.read_done),
            writes.eq(writes + self.write.ready - self.write_done),
            responses.eq(
                responses + (self.write.ready & collected.access.last) - self.response_done
            ),
            fetches.eq(
                fetches + (self.write.ready & partial) - (self.fetch_done + self.fetch_skipped)
            ),
        ]
        return m
