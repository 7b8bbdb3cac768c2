"""An AXI4 port that several sources share, and that answers even if the bus does not.

When a response is outstanding and nothing has been transferred for too long, a half of the port,
reads or writes, is *dead*: it answers its sources itself, at once, with `BusError.TIMEOUT`. What is
already valid on the bus stays there, as AXI demands; late responses of the bus are accepted and
dropped; what is owed to the bus, the data of announced bursts, is sent without strobes, so that as
little as possible reaches memory behind software's back. When neither side owes anything any more,
the half lives again. Until then no request gets to the bus, so that no late response can be taken
for another's.
"""

from amaranth.hdl import Module, ResetSignal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import Axi4Signature
from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest, WriteBeat, WriteRequest
from cdma.hw.bus.read_half import ReadHalf
from cdma.hw.bus.timeout import TIMEOUT_BITS
from cdma.hw.bus.write_half import WriteHalf

ADDRESS_PINS = ("id", "addr", "len", "size", "burst", "lock", "cache", "prot", "qos", "valid")
INCR = 0b01
NON_BUFFERABLE = 0b0010
"""AxCACHE, normal memory: responses come from where the data is in the end, so that a completion
record, written after them, cannot overtake the data."""


class BusAttributes(data.StructLayout):
    """The pins that go out with every address, and say nothing about the burst itself.

    Members
    -------
    prot
        AxPROT: bit 0 privileged, bit 1 non-secure, bit 2 instruction.
    arcache, awcache
        AxCACHE of reads and of writes.
    user
        AxUSER.
    """

    def __init__(self, user_bits: int = 0) -> None:
        super().__init__({"prot": 3, "arcache": 4, "awcache": 4, "user": user_bits})


DEFAULT_ATTRIBUTES = {
    "prot": 0,
    "arcache": NON_BUFFERABLE,
    "awcache": NON_BUFFERABLE,
    "user": 0,
}
"""`BusAttributes` of a port that is connected to no others."""


class Axi4Port(wiring.Component):
    """One AXI4 manager for several sources; a source's index is its ID.

    Requests go out round-robin. Beats and responses find
    their source by ID; the bus may answer the sources in any order, and each one's requests in
    theirs. A burst's data is not offered before its address. Bursts are INCR and as wide as the
    bus. Every burst on the bus is answered with one RLAST; beats and responses that no source
    has requested are dropped.

    Latency: 1 cycle from a request to AxVALID, 3 from there to its first WVALID, 1 from RVALID and
    BVALID to the source. Throughput: a request each way, a beat each way and a response per cycle.

    Parameters
    ----------
    data_bytes, address_bits, id_bits
        Widths of the bus.
    reads, writes : `tuple[int, ...]`
        For each source: the largest number of outstanding bursts. One whose beats are all made up
        may be outstanding beside them.
    owners
        The number of owners of requests, each with its attributes.
    user_bits
        Width of AxUSER; 0 for none.

    Members
    -------
    m_axi : `Out(Axi4Signature(data_bytes, address_bits, id_bits, user_bits))`
    read_request : `In(stream.Signature(ReadRequest(address_bits, owners))).array(len(reads))`
        Legal bursts, as all requests.
    read_beats : `Out(stream.Signature(ReadBeat(data_bytes))).array(len(reads))`
        As many as were requested.
    write_request : `In(stream.Signature(WriteRequest(address_bits, owners))).array(len(writes))`
        Their data is complete.
    write_beats : `In(stream.Signature(WriteBeat(data_bytes))).array(len(writes))`
    write_response : `Out(stream.Signature(BusError)).array(len(writes))`
        One for each burst, after its last beat.
    attributes : `In(BusAttributes(user_bits))`
        Must not change unless the port is `idle`. With several owners an array of them; an owner's
        must not change while a request of it waits for the bus, or the port is `dead`.
    timeout_cycles : `In(32)`
        The number of cycles in a row without any transfer, while a response is outstanding, that is
        too many; 0: never. Reads and writes count for themselves. Cycles in which a source is
        stalled do not count.
    idle : `Out(1)`
        No request is valid, no burst is open, and no response is outstanding on either side.
    dead : `Out(1)`
        Only with several owners: a half is dead. While none is, the bus owes nothing to an owner
        whose requests have all been answered.
    beat_read, beat_written : `Out(1)`
        A beat was transferred on R, on W, in the cycle before.

    Raises
    ------
    ValueError
        If there is no source for a half, too many for the ID, or one without any burst.
    """

    def __init__(
        self,
        data_bytes: int,
        address_bits: int,
        id_bits: int,
        reads: tuple[int, ...],
        writes: tuple[int, ...],
        owners: int = 1,
        user_bits: int = 0,
    ) -> None:
        for name, bursts in (("reads", reads), ("writes", writes)):
            if not 1 <= len(bursts) <= 1 << id_bits:
                raise ValueError(f"{name} must name 1 to {1 << id_bits} sources, not {bursts!r}")
            if min(bursts) < 1:
                raise ValueError(f"{name} must be at least 1 for each source, not {bursts!r}")
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.id_bits = id_bits
        self.reads = reads
        self.writes = writes
        self.owners = owners
        self.user_bits = user_bits
        attributes = BusAttributes(user_bits)
        super().__init__(
            {
                "m_axi": Out(Axi4Signature(data_bytes, address_bits, id_bits, user_bits)),
                "read_request": In(stream.Signature(ReadRequest(address_bits, owners))).array(
                    len(reads)
                ),
                "read_beats": Out(stream.Signature(ReadBeat(data_bytes))).array(len(reads)),
                "write_request": In(stream.Signature(WriteRequest(address_bits, owners))).array(
                    len(writes)
                ),
                "write_beats": In(stream.Signature(WriteBeat(data_bytes))).array(len(writes)),
                "write_response": Out(stream.Signature(BusError)).array(len(writes)),
                "attributes": In(attributes, init=DEFAULT_ATTRIBUTES)
                if owners == 1
                else In(data.ArrayLayout(attributes, owners), init=[DEFAULT_ATTRIBUTES] * owners),
                "timeout_cycles": In(TIMEOUT_BITS),
                "idle": Out(1),
                **({"dead": Out(1)} if owners > 1 else {}),
                "beat_read": Out(1),
                "beat_written": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        widths = (self.data_bytes, self.address_bits, self.id_bits)
        m.submodules.reads = reads = ReadHalf(*widths, self.reads, self.owners)
        m.submodules.writes = writes = WriteHalf(*widths, self.writes, self.owners)
        for k in range(len(self.reads)):
            wiring.connect(m, wiring.flipped(self.read_request[k]), reads.request[k])
            wiring.connect(m, reads.beats[k], wiring.flipped(self.read_beats[k]))
        for k in range(len(self.writes)):
            wiring.connect(m, wiring.flipped(self.write_request[k]), writes.request[k])
            wiring.connect(m, wiring.flipped(self.write_beats[k]), writes.beats[k])
            wiring.connect(m, writes.response[k], wiring.flipped(self.write_response[k]))

        axi = self.m_axi
        for prefix, half in (("ar", reads), ("aw", writes)):
            pins = {name: getattr(axi, prefix + name) for name in ADDRESS_PINS}
            attributes = self.attributes
            if self.owners > 1:
                attributes = attributes[half.bus_request.payload.owner]
            if self.user_bits:
                m.d.comb += getattr(axi, prefix + "user").eq(attributes.user)
            m.d.comb += [
                pins["id"].eq(half.bus_request.payload.id),
                pins["addr"].eq(half.bus_request.payload.address),
                pins["len"].eq(half.bus_request.payload.beats),
                pins["size"].eq((self.data_bytes - 1).bit_length()),
                pins["burst"].eq(INCR),
                pins["lock"].eq(0),
                pins["cache"].eq(getattr(attributes, f"{prefix}cache")),
                pins["prot"].eq(attributes.prot),
                pins["qos"].eq(0),
                pins["valid"].eq(half.bus_request.valid & ~ResetSignal()),
                half.bus_request.ready.eq(getattr(axi, prefix + "ready")),
                half.timeout_cycles.eq(self.timeout_cycles),
            ]
        m.d.comb += [
            axi.wdata.eq(writes.bus_beats.payload.data),
            axi.wstrb.eq(writes.bus_beats.payload.strobe),
            axi.wlast.eq(writes.bus_beats.payload.last),
            axi.wvalid.eq(writes.bus_beats.valid & ~ResetSignal()),
            writes.bus_beats.ready.eq(axi.wready),
            writes.bus_response.valid.eq(axi.bvalid),
            writes.bus_response.payload.id.eq(axi.bid),
            writes.bus_response.payload.resp.eq(axi.bresp),
            axi.bready.eq(writes.bus_response.ready),
            reads.bus_beats.valid.eq(axi.rvalid),
            reads.bus_beats.payload.id.eq(axi.rid),
            reads.bus_beats.payload.response.data.eq(axi.rdata),
            reads.bus_beats.payload.response.resp.eq(axi.rresp),
            reads.bus_beats.payload.response.last.eq(axi.rlast),
            axi.rready.eq(reads.bus_beats.ready),
            self.idle.eq(reads.idle & writes.idle),
        ]
        if self.owners > 1:
            m.d.comb += self.dead.eq(reads.dead | writes.dead)
        m.d.sync += [
            self.beat_read.eq(axi.rvalid & axi.rready),
            self.beat_written.eq(axi.wvalid & axi.wready),
        ]
        return m
