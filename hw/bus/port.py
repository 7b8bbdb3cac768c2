"""An AXI4 port that several sources share, and that answers even if the bus does not.

When the bus owes something and nothing has moved for too long, a half of the port, reads or writes,
is *dead*: it answers its sources itself, at once, with `BusError.TIMEOUT`. What already stands on
the bus stays there, as AXI demands; what the bus answers late is taken and dropped; what is owed to
the bus, the data of announced bursts, is sent without strobes, so that as little as possible
reaches memory behind software's back. When neither side owes anything any more, the half lives
again. Until then no request gets to the bus, so that no late answer can be taken for another's.
"""

from amaranth.hdl import Assert, Module, Mux, ResetSignal, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import Axi4Signature
from cdma.hw.bus.burst import (
    BusError,
    ReadBeat,
    ReadGuard,
    ReadRequest,
    ReadResponse,
    WriteBeat,
    WriteRequest,
)
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister, SkidBuffer

TIMEOUT_BITS = 32

ADDRESS_PINS = ("id", "addr", "len", "size", "burst", "lock", "cache", "prot", "qos", "valid")
INCR = 0b01
NON_BUFFERABLE = 0b0010
"""AxCACHE, normal memory: responses come from where the data is in the end, so that a completion
record, written after them, cannot overtake the data."""


class BusRequest(data.StructLayout):
    """A burst on its way to AR or AW: the ID tells its source."""

    def __init__(self, address_bits: int, id_bits: int) -> None:
        super().__init__({"id": id_bits, "address": address_bits, "beats": 8})


class BusReadBeat(data.StructLayout):
    """RID, and what comes with it."""

    def __init__(self, data_bytes: int, id_bits: int) -> None:
        super().__init__({"id": id_bits, "response": ReadResponse(data_bytes)})


class BusWriteResponse(data.StructLayout):
    """BID and BRESP."""

    def __init__(self, id_bits: int) -> None:
        super().__init__({"id": id_bits, "resp": 2})


class SilenceTimer(wiring.Component):
    """Tells when silence has lasted too long.

    Members
    -------
    silent : `In(1)`
        The bus owes something, and nothing moves in this cycle.
    timeout_cycles : `In(32)`
        How many such cycles in a row are too many; 0: never.
    expired : `Out(1)`
        This is the last of them.
    """

    def __init__(self) -> None:
        super().__init__({"silent": In(1), "timeout_cycles": In(TIMEOUT_BITS), "expired": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        waited = Signal(TIMEOUT_BITS)
        now = Signal(TIMEOUT_BITS + 1)
        m.d.comb += [
            now.eq(waited + 1),
            self.expired.eq(
                self.silent & (self.timeout_cycles != 0) & (now >= self.timeout_cycles)
            ),
        ]
        m.d.sync += waited.eq(Mux(self.silent, now, 0))
        return m


class RequestArbiter(wiring.Component):
    """Lets one request through per cycle; whoever was let through last comes last.

    Latency: 0 cycles. Throughput: a request per cycle.

    Parameters
    ----------
    address_bits, id_bits
        Widths.
    sources
        How many there are; their index becomes the ID.

    Members
    -------
    i : `In(stream.Signature(ReadRequest(address_bits))).array(sources)`
        Write requests have the same shape.
    o : `Out(stream.Signature(BusRequest(address_bits, id_bits)))`
    """

    def __init__(self, address_bits: int, id_bits: int, sources: int) -> None:
        self.sources = sources
        super().__init__(
            {
                "i": In(stream.Signature(ReadRequest(address_bits))).array(sources),
                "o": Out(stream.Signature(BusRequest(address_bits, id_bits))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        latest = Signal(range(self.sources))
        for k in range(self.sources):
            with m.If(latest == k):
                # The last one that is valid decides: from the least urgent to the most urgent.
                for distance in reversed(range(1, self.sources + 1)):
                    source = (k + distance) % self.sources
                    with m.If(self.i[source].valid):
                        m.d.comb += self.o.payload.id.eq(source)
        for k, i in enumerate(self.i):
            chosen = Signal(name=f"chosen_{k}")
            m.d.comb += [
                chosen.eq(i.valid & (self.o.payload.id == k)),
                i.ready.eq(chosen & self.o.ready),
            ]
            with m.If(chosen):
                m.d.comb += [
                    self.o.valid.eq(1),
                    self.o.payload.address.eq(i.payload.address),
                    self.o.payload.beats.eq(i.payload.beats),
                ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += latest.eq(self.o.payload.id)
        return m


class ReadHalf(wiring.Component):
    """The read channels of a port: see `Axi4Port`.

    Latency: 1 cycle for a request, 1 for a beat. Throughput: a request and a beat per cycle.

    Parameters
    ----------
    data_bytes, address_bits, id_bits
        Widths of the bus.
    bursts : `tuple[int, ...]`
        For each source: bursts that may be under way.

    Members
    -------
    request : `In(stream.Signature(ReadRequest(address_bits))).array(len(bursts))`
    beats : `Out(stream.Signature(ReadBeat(data_bytes))).array(len(bursts))`
    bus_request : `Out(stream.Signature(BusRequest(address_bits, id_bits)))`
    bus_beats : `In(stream.Signature(BusReadBeat(data_bytes, id_bits)))`
    timeout_cycles : `In(32)`
    idle : `Out(1)`
    """

    def __init__(
        self, data_bytes: int, address_bits: int, id_bits: int, bursts: tuple[int, ...]
    ) -> None:
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.id_bits = id_bits
        self.bursts = bursts
        sources = len(bursts)
        super().__init__(
            {
                "request": In(stream.Signature(ReadRequest(address_bits))).array(sources),
                "beats": Out(stream.Signature(ReadBeat(data_bytes))).array(sources),
                "bus_request": Out(stream.Signature(BusRequest(address_bits, id_bits))),
                "bus_beats": In(stream.Signature(BusReadBeat(data_bytes, id_bits))),
                "timeout_cycles": In(TIMEOUT_BITS),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = RequestArbiter(
            self.address_bits, self.id_bits, len(self.bursts)
        )
        m.submodules.requests = requests = SkidBuffer(BusRequest(self.address_bits, self.id_bits))
        m.submodules.answers = answers = SkidBuffer(BusReadBeat(self.data_bytes, self.id_bits))
        m.submodules.timer = timer = SilenceTimer()
        wiring.connect(m, arbiter.o, requests.i)
        wiring.connect(m, requests.o, wiring.flipped(self.bus_request))
        wiring.connect(m, wiring.flipped(self.bus_beats), answers.i)

        dead = Signal()
        clean = Signal()
        owing = Signal(len(self.bursts))
        wanted = Signal(len(self.bursts))
        taken = Signal(len(self.bursts))
        stands = Signal(len(self.bursts))
        quiet = Signal(len(self.bursts))
        ends = Signal()
        answer = answers.o.payload
        m.d.comb += ends.eq(answers.o.valid & answers.o.ready & answer.response.last)
        for k, bursts in enumerate(self.bursts):
            m.submodules[f"guard_{k}"] = guard = ReadGuard(
                self.data_bytes, self.address_bits, bursts
            )
            wiring.connect(m, wiring.flipped(self.request[k]), guard.request)
            wiring.connect(m, guard.o, wiring.flipped(self.beats[k]))

            # Bursts for which the bus owes an RLAST, or will when it has taken the request.
            owed = Signal(range(bursts + 1), name=f"owed_{k}")
            asks = Signal(name=f"asks_{k}")
            may_ask = Signal(name=f"may_ask_{k}")
            asked, offered = guard.bus_request, arbiter.i[k]
            m.d.comb += [
                may_ask.eq(~dead & (owed != bursts)),
                offered.valid.eq(asked.valid & may_ask),
                offered.payload.eq(asked.payload),
                # A request that is not put on the bus: the guard makes up all of its beats. When
                # the bus owes nothing any more, it has to wait until the half lives.
                asked.ready.eq(Mux(dead, ~clean, offered.ready & may_ask)),
                asks.eq(offered.valid & offered.ready),
            ]
            m.d.sync += owed.eq(owed + asks - (ends & wanted[k]))
            m.d.comb += [
                owing[k].eq(owed != 0),
                # What nobody asked for is dropped.
                wanted[k].eq((answer.id == k) & owing[k]),
                guard.bus_response.valid.eq(answers.o.valid & wanted[k]),
                guard.bus_response.payload.eq(answer.response),
                guard.dead.eq(dead),
                taken[k].eq(~wanted[k] | guard.bus_response.ready),
                stands[k].eq(guard.o.valid),
                quiet[k].eq(guard.idle),
            ]
        m.d.comb += answers.o.ready.eq(taken.all())

        # A beat that stands at a source either moves, or it is the source that holds it. Beats
        # behind a late RLAST are no sign of life.
        m.d.comb += [
            timer.silent.eq(
                ~dead
                & owing.any()
                & ~(self.bus_request.valid & self.bus_request.ready)
                & ~stands.any()
            ),
            timer.timeout_cycles.eq(self.timeout_cycles),
            clean.eq(~owing.any() & ~requests.o.valid & ~answers.o.valid),
            self.idle.eq(clean & quiet.all()),
        ]
        with m.If(timer.expired):
            m.d.sync += dead.eq(1)
        with m.Elif(self.idle):
            m.d.sync += dead.eq(0)
        return m


class WriteHalf(wiring.Component):
    """The write channels of a port: see `Axi4Port`.

    Latency: 1 cycle for a request, 4 from there to its first beat, 1 for a response. Throughput: a
    request, a beat and a response per cycle.

    Parameters
    ----------
    data_bytes, address_bits, id_bits
        Widths of the bus.
    bursts : `tuple[int, ...]`
        For each source: bursts that may be under way.

    Members
    -------
    request : `In(stream.Signature(WriteRequest(address_bits))).array(len(bursts))`
    beats : `In(stream.Signature(WriteBeat(data_bytes))).array(len(bursts))`
    response : `Out(stream.Signature(BusError)).array(len(bursts))`
    bus_request : `Out(stream.Signature(BusRequest(address_bits, id_bits)))`
    bus_beats : `Out(stream.Signature(WriteBeat(data_bytes)))`
    bus_response : `In(stream.Signature(BusWriteResponse(id_bits)))`
    timeout_cycles : `In(32)`
    idle : `Out(1)`
    """

    def __init__(
        self, data_bytes: int, address_bits: int, id_bits: int, bursts: tuple[int, ...]
    ) -> None:
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.id_bits = id_bits
        self.bursts = bursts
        sources = len(bursts)
        super().__init__(
            {
                "request": In(stream.Signature(WriteRequest(address_bits))).array(sources),
                "beats": In(stream.Signature(WriteBeat(data_bytes))).array(sources),
                "response": Out(stream.Signature(BusError)).array(sources),
                "bus_request": Out(stream.Signature(BusRequest(address_bits, id_bits))),
                "bus_beats": Out(stream.Signature(WriteBeat(data_bytes))),
                "bus_response": In(stream.Signature(BusWriteResponse(id_bits))),
                "timeout_cycles": In(TIMEOUT_BITS),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = RequestArbiter(
            self.address_bits, self.id_bits, len(self.bursts)
        )
        m.submodules.requests = requests = SkidBuffer(BusRequest(self.address_bits, self.id_bits))
        m.submodules.order = order = Fifo(
            data.StructLayout({"id": self.id_bits, "beats": 8}), sum(self.bursts)
        )
        m.submodules.beat_buffer = beat_buffer = SkidBuffer(WriteBeat(self.data_bytes))
        m.submodules.offered = offered = PipelineRegister(WriteBeat(self.data_bytes))
        m.submodules.answers = answers = SkidBuffer(BusWriteResponse(self.id_bits))
        m.submodules.timer = timer = SilenceTimer()
        dead = Signal()
        clean = Signal()
        m.d.comb += [
            requests.i.valid.eq(arbiter.o.valid),
            requests.i.payload.eq(arbiter.o.payload),
            arbiter.o.ready.eq(requests.i.ready),
            order.i.valid.eq(arbiter.o.valid & arbiter.o.ready),
            order.i.payload.id.eq(arbiter.o.payload.id),
            order.i.payload.beats.eq(arbiter.o.payload.beats),
        ]
        m.d.sync += Assert(~order.i.valid | order.i.ready)
        wiring.connect(m, requests.o, wiring.flipped(self.bus_request))
        wiring.connect(m, wiring.flipped(self.bus_response), answers.i)

        # Data goes to the bus burst by burst, each as soon as its address stands there. It does
        # not wait for AWREADY: the bus may wait for WVALID with that (IHI 0022, A3.3.1).
        waits = Signal()
        announces = Signal()
        announced = Signal(range(sum(self.bursts) + 1))
        burst = order.o.payload
        open_burst = Signal()
        sent = Signal(8)
        ends = Signal()
        m.d.comb += [
            announces.eq(self.bus_request.valid & ~waits),
            open_burst.eq(order.o.valid & (announced != 0)),
            beat_buffer.i.payload.last.eq(sent == burst.beats),
            ends.eq(beat_buffer.i.valid & beat_buffer.i.ready & beat_buffer.i.payload.last),
            order.o.ready.eq(ends),
        ]
        m.d.sync += [
            waits.eq(self.bus_request.valid & ~self.bus_request.ready),
            announced.eq(announced + announces - ends),
        ]
        with m.If(beat_buffer.i.valid & beat_buffer.i.ready):
            m.d.sync += sent.eq(Mux(beat_buffer.i.payload.last, 0, sent + 1))
        with m.If(dead):
            m.d.comb += beat_buffer.i.valid.eq(open_burst)
        # Only the beat that already stands on the bus must stay as it is.
        m.d.comb += [
            offered.i.valid.eq(beat_buffer.o.valid),
            offered.i.payload.eq(beat_buffer.o.payload),
            beat_buffer.o.ready.eq(offered.i.ready),
        ]
        with m.If(dead):
            m.d.comb += offered.i.payload.strobe.eq(0)
        wiring.connect(m, offered.o, wiring.flipped(self.bus_beats))

        owing = Signal(len(self.bursts))
        waiting = Signal(len(self.bursts))
        answerable = Signal(len(self.bursts))
        taken = Signal(len(self.bursts))
        stands = Signal(len(self.bursts))
        answer = answers.o.payload
        for k, bursts in enumerate(self.bursts):
            request, beats, response = self.request[k], self.beats[k], self.response[k]
            offer = arbiter.i[k]
            # Bursts for which the bus owes a response, those to which the source is owed one, and
            # those of which it still has data. Alive, the first two are the same.
            owed = Signal(range(bursts + 1), name=f"owed_{k}")
            unanswered = Signal(range(bursts + 1), name=f"unanswered_{k}")
            unsent = Signal(range(bursts + 1), name=f"unsent_{k}")
            asks = Signal(name=f"asks_{k}")
            gives = Signal(name=f"gives_{k}")
            is_answered = Signal(name=f"is_answered_{k}")
            may_ask = Signal(name=f"may_ask_{k}")
            sends = Signal(name=f"sends_{k}")
            returns = Signal(name=f"returns_{k}")
            m.d.comb += [
                may_ask.eq(unanswered != bursts),
                offer.valid.eq(request.valid & may_ask & ~dead),
                offer.payload.eq(request.payload),
                # A request that is not put on the bus. When the bus owes nothing any more, it has
                # to wait until the half lives.
                request.ready.eq(may_ask & Mux(dead, ~clean, offer.ready)),
                asks.eq(request.valid & request.ready),
                sends.eq(open_burst & (burst.id == k) & ~dead),
                beats.ready.eq(Mux(dead, unsent != 0, sends & beat_buffer.i.ready)),
                gives.eq(beats.valid & beats.ready & beats.payload.last),
            ]
            with m.If(sends):
                m.d.comb += [
                    beat_buffer.i.valid.eq(beats.valid),
                    beat_buffer.i.payload.data.eq(beats.payload.data),
                    beat_buffer.i.payload.strobe.eq(beats.payload.strobe),
                ]
                m.d.sync += Assert(
                    ~beats.valid | (beats.payload.last == beat_buffer.i.payload.last)
                )
            m.d.comb += [
                owing[k].eq(owed != 0),
                answerable[k].eq(unanswered != unsent),
                waiting[k].eq(unanswered != 0),
                # What nobody asked for is dropped.
                response.valid.eq(answerable[k] & (dead | (answers.o.valid & (answer.id == k)))),
                is_answered.eq(response.valid & response.ready),
                taken[k].eq(dead | (answer.id != k) | ~answerable[k] | response.ready),
                stands[k].eq(response.valid),
                returns.eq(answers.o.valid & (answer.id == k) & Mux(dead, owed != 0, is_answered)),
            ]
            with m.If(dead):
                m.d.comb += response.payload.eq(BusError.TIMEOUT)
            with m.Elif(answer.resp[1]):
                m.d.comb += response.payload.eq(answer.resp)
            m.d.sync += [
                owed.eq(owed + (asks & ~dead) - returns),
                unanswered.eq(unanswered + asks - is_answered),
                unsent.eq(unsent + asks - gives),
            ]
        m.d.comb += answers.o.ready.eq(taken.all())

        # A response that stands at a source either moves, or it is the source that holds it.
        m.d.comb += [
            timer.silent.eq(
                ~dead
                & (self.bus_request.valid | self.bus_beats.valid | answerable.any())
                & ~(self.bus_request.valid & self.bus_request.ready)
                & ~(self.bus_beats.valid & self.bus_beats.ready)
                & ~stands.any()
            ),
            timer.timeout_cycles.eq(self.timeout_cycles),
            clean.eq(
                ~owing.any()
                & ~self.bus_request.valid
                & (announced == 0)
                & ~beat_buffer.o.valid
                & ~self.bus_beats.valid
                & ~answers.o.valid
            ),
            self.idle.eq(clean & ~waiting.any()),
        ]
        with m.If(timer.expired):
            m.d.sync += dead.eq(1)
        with m.Elif(self.idle):
            m.d.sync += dead.eq(0)
        return m


class Axi4Port(wiring.Component):
    """One AXI4 manager for several sources; a source's index is its ID.

    Requests go out in turn, a fair share for each source that has some. Beats and responses find
    their source by ID; the bus may answer the sources in any order, and each one's requests in
    theirs. A burst's data is not offered before its address. Bursts are INCR and as wide as the
    bus. Every burst on the bus is answered with one RLAST; beats and responses that nobody asked
    for are dropped.

    Latency: 1 cycle from a request to AxVALID, 4 from there to its first WVALID, 1 from RVALID and
    BVALID to the source. Throughput: a request each way, a beat each way and a response per cycle.

    Parameters
    ----------
    data_bytes, address_bits, id_bits
        Widths of the bus.
    reads, writes : `tuple[int, ...]`
        For each source: bursts that may be under way. One whose beats are all made up may be under
        way beside them.

    Members
    -------
    m_axi : `Out(Axi4Signature(data_bytes, address_bits, id_bits))`
    read_request : `In(stream.Signature(ReadRequest(address_bits))).array(len(reads))`
        Legal bursts, as all requests.
    read_beats : `Out(stream.Signature(ReadBeat(data_bytes))).array(len(reads))`
        As many as were asked for.
    write_request : `In(stream.Signature(WriteRequest(address_bits))).array(len(writes))`
        Their data is there.
    write_beats : `In(stream.Signature(WriteBeat(data_bytes))).array(len(writes))`
    write_response : `Out(stream.Signature(BusError)).array(len(writes))`
        One for each burst, after its last beat.
    timeout_cycles : `In(32)`
        So many cycles in a row without any transfer, while the bus owes one, are too many; 0:
        never. Reads and writes count for themselves. Time in which a source does not take what the
        bus has answered does not count.
    idle : `Out(1)`
        Nothing is offered or open, and no answer is owed by either side.
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
        super().__init__(
            {
                "m_axi": Out(Axi4Signature(data_bytes, address_bits, id_bits)),
                "read_request": In(stream.Signature(ReadRequest(address_bits))).array(len(reads)),
                "read_beats": Out(stream.Signature(ReadBeat(data_bytes))).array(len(reads)),
                "write_request": In(stream.Signature(WriteRequest(address_bits))).array(
                    len(writes)
                ),
                "write_beats": In(stream.Signature(WriteBeat(data_bytes))).array(len(writes)),
                "write_response": Out(stream.Signature(BusError)).array(len(writes)),
                "timeout_cycles": In(TIMEOUT_BITS),
                "idle": Out(1),
                "beat_read": Out(1),
                "beat_written": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        widths = (self.data_bytes, self.address_bits, self.id_bits)
        m.submodules.reads = reads = ReadHalf(*widths, self.reads)
        m.submodules.writes = writes = WriteHalf(*widths, self.writes)
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
            m.d.comb += [
                pins["id"].eq(half.bus_request.payload.id),
                pins["addr"].eq(half.bus_request.payload.address),
                pins["len"].eq(half.bus_request.payload.beats),
                pins["size"].eq((self.data_bytes - 1).bit_length()),
                pins["burst"].eq(INCR),
                pins["lock"].eq(0),
                pins["cache"].eq(NON_BUFFERABLE),
                pins["prot"].eq(0),
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
        m.d.sync += [
            self.beat_read.eq(axi.rvalid & axi.rready),
            self.beat_written.eq(axi.wvalid & axi.wready),
        ]
        return m
