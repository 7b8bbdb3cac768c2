"""The write channels of an AXI4 port that several sources share."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, WriteBeat, WriteRequest
from cdma.hw.bus.channels import BusRequest, BusWriteResponse
from cdma.hw.bus.request_arbiter import RequestArbiter
from cdma.hw.bus.timeout import TIMEOUT_BITS, SilenceTimer
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister, SkidBuffer


class WriteHalf(wiring.Component):
    """The write channels of a port: see `Axi4Port`.

    Latency: 1 cycle for a request, 3 from there to its first beat, 1 for a response. Throughput: a
    request, a beat and a response per cycle.

    Parameters
    ----------
    data_bytes, address_bits, id_bits
        Widths of the bus.
    bursts : `tuple[int, ...]`
        For each source: the largest number of outstanding bursts.
    owners
        As in `ReadRequest`.

    Members
    -------
    request : `In(stream.Signature(WriteRequest(address_bits, owners))).array(len(bursts))`
    beats : `In(stream.Signature(WriteBeat(data_bytes))).array(len(bursts))`
    response : `Out(stream.Signature(BusError)).array(len(bursts))`
    bus_request : `Out(stream.Signature(BusRequest(address_bits, id_bits, owners)))`
    bus_beats : `Out(stream.Signature(WriteBeat(data_bytes)))`
    bus_response : `In(stream.Signature(BusWriteResponse(id_bits)))`
    timeout_cycles : `In(32)`
    idle : `Out(1)`
    dead : `Out(1)`
        Only with several owners: the bus is given up, and one side still owes something.
    """

    def __init__(
        self,
        data_bytes: int,
        address_bits: int,
        id_bits: int,
        bursts: tuple[int, ...],
        owners: int = 1,
    ) -> None:
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.id_bits = id_bits
        self.bursts = bursts
        self.owners = owners
        sources = len(bursts)
        super().__init__(
            {
                "request": In(stream.Signature(WriteRequest(address_bits, owners))).array(sources),
                "beats": In(stream.Signature(WriteBeat(data_bytes))).array(sources),
                "response": Out(stream.Signature(BusError)).array(sources),
                "bus_request": Out(stream.Signature(BusRequest(address_bits, id_bits, owners))),
                "bus_beats": Out(stream.Signature(WriteBeat(data_bytes))),
                "bus_response": In(stream.Signature(BusWriteResponse(id_bits))),
                "timeout_cycles": In(TIMEOUT_BITS),
                "idle": Out(1),
                **({"dead": Out(1)} if owners > 1 else {}),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = RequestArbiter(
            self.address_bits, self.id_bits, len(self.bursts), self.owners
        )
        m.submodules.requests = requests = SkidBuffer(
            BusRequest(self.address_bits, self.id_bits, self.owners)
        )
        m.submodules.responses = responses = SkidBuffer(BusWriteResponse(self.id_bits))
        m.submodules.timer = timer = SilenceTimer()
        wiring.connect(m, requests.o, wiring.flipped(self.bus_request))
        wiring.connect(m, wiring.flipped(self.bus_response), responses.i)

        state = _WriteState(self.bursts)
        self._send_data(m, state, arbiter.o, requests.i)
        for k in range(len(self.bursts)):
            self._serve_request(m, k, state, arbiter.i[k])
            self._serve_response(m, k, state, responses.o)
        m.d.comb += [
            responses.o.ready.eq(state.accepted.all()),
            # A response that is valid at a source is transferred, or it is the source that is
            # stalled.
            timer.silent.eq(
                ~state.dead
                & (self.bus_request.valid | self.bus_beats.valid | state.answerable.any())
                & ~(self.bus_request.valid & self.bus_request.ready)
                & ~(self.bus_beats.valid & self.bus_beats.ready)
                & ~state.response_valid.any()
            ),
            timer.timeout_cycles.eq(self.timeout_cycles),
            state.clean.eq(
                ~state.any_outstanding.any()
                & ~self.bus_request.valid
                & (state.announced == 0)
                & ~self.bus_beats.valid
                & ~responses.o.valid
            ),
            self.idle.eq(state.clean & ~state.any_pending.any()),
        ]
        with m.If(timer.expired):
            m.d.sync += state.dead.eq(1)
        with m.Elif(self.idle):
            m.d.sync += state.dead.eq(0)
        if self.owners > 1:
            m.d.comb += self.dead.eq(state.dead)
        return m

    def _send_data(self, m: Module, state: "_WriteState", granted: Any, requests: Any) -> None:
        """Put requests on the bus, and their data behind them, burst by burst.

        Each burst's data follows as soon as its address is valid. It does not wait for AWREADY: the
        bus may wait for WVALID with that (IHI 0022, A3.3.1).
        """
        m.submodules.order = order = Fifo(
            data.StructLayout({"id": self.id_bits, "beats": 8}), sum(self.bursts)
        )
        m.submodules.bus_beat = bus_beat = PipelineRegister(WriteBeat(self.data_bytes))
        wiring.connect(m, bus_beat.o, wiring.flipped(self.bus_beats))
        state.bus_beat = bus_beat
        state.burst = order.o.payload
        m.d.comb += [
            requests.valid.eq(granted.valid),
            requests.payload.eq(granted.payload),
            granted.ready.eq(requests.ready),
            order.i.valid.eq(granted.valid & granted.ready),
            order.i.payload.id.eq(granted.payload.id),
            order.i.payload.beats.eq(granted.payload.beats),
        ]
        m.d.sync += Assert(~order.i.valid | order.i.ready)

        request_stalled = Signal()
        announce = Signal()
        sent = Signal(8)
        burst_end = Signal()
        beat_fire = bus_beat.i.valid & bus_beat.i.ready
        m.d.comb += [
            announce.eq(self.bus_request.valid & ~request_stalled),
            state.open_burst.eq(order.o.valid & (state.announced != 0)),
            bus_beat.i.payload.last.eq(sent == state.burst.beats),
            burst_end.eq(beat_fire & bus_beat.i.payload.last),
            order.o.ready.eq(burst_end),
        ]
        m.d.sync += [
            request_stalled.eq(self.bus_request.valid & ~self.bus_request.ready),
            state.announced.eq(state.announced + announce - burst_end),
        ]
        with m.If(beat_fire):
            m.d.sync += sent.eq(Mux(bus_beat.i.payload.last, 0, sent + 1))
        # Without strobes: only the beat that is already valid on the bus must stay as it is.
        with m.If(state.dead):
            m.d.comb += bus_beat.i.valid.eq(state.open_burst)

    def _serve_request(self, m: Module, k: int, state: "_WriteState", offer: Any) -> None:
        """Offer a source's requests to the arbiter, and accept the data of its open burst."""
        request, beats = self.request[k], self.beats[k]
        bus_beat = state.bus_beat
        request_allowed = Signal(name=f"request_allowed_{k}")
        selected = Signal(name=f"selected_{k}")
        m.d.comb += [
            request_allowed.eq(state.response_pending[k] != self.bursts[k]),
            offer.valid.eq(request.valid & request_allowed & ~state.dead),
            offer.payload.eq(request.payload),
            # A request that is not put on the bus. When the bus owes nothing any more, it has to
            # wait until the half lives.
            request.ready.eq(request_allowed & Mux(state.dead, ~state.clean, offer.ready)),
            state.request_fire[k].eq(request.valid & request.ready),
            selected.eq(state.open_burst & (state.burst.id == k) & ~state.dead),
            beats.ready.eq(
                Mux(state.dead, state.data_pending[k] != 0, selected & bus_beat.i.ready)
            ),
            state.data_end[k].eq(beats.valid & beats.ready & beats.payload.last),
        ]
        with m.If(selected):
            m.d.comb += [
                bus_beat.i.valid.eq(beats.valid),
                bus_beat.i.payload.data.eq(beats.payload.data),
                bus_beat.i.payload.strobe.eq(beats.payload.strobe),
            ]
            m.d.sync += Assert(~beats.valid | (beats.payload.last == bus_beat.i.payload.last))

    def _serve_response(self, m: Module, k: int, state: "_WriteState", bus: Any) -> None:
        """Return responses to a source, and count what is outstanding on either side."""
        response = self.response[k]
        outstanding, response_pending = state.outstanding[k], state.response_pending[k]
        data_pending, request_fire = state.data_pending[k], state.request_fire[k]
        response_fire = Signal(name=f"response_fire_{k}")
        returned = Signal(name=f"returned_{k}")
        own = bus.payload.id == k
        m.d.comb += [
            state.any_outstanding[k].eq(outstanding != 0),
            state.answerable[k].eq(response_pending != data_pending),
            state.any_pending[k].eq(response_pending != 0),
            # Responses that no source waits for are dropped.
            response.valid.eq(state.answerable[k] & (state.dead | (bus.valid & own))),
            response_fire.eq(response.valid & response.ready),
            state.accepted[k].eq(
                state.dead | (bus.payload.id != k) | ~state.answerable[k] | response.ready
            ),
            state.response_valid[k].eq(response.valid),
            returned.eq(bus.valid & own & Mux(state.dead, outstanding != 0, response_fire)),
        ]
        with m.If(state.dead):
            m.d.comb += response.payload.eq(BusError.TIMEOUT)
        with m.Elif(bus.payload.resp[1]):
            m.d.comb += response.payload.eq(bus.payload.resp)
        m.d.sync += [
            outstanding.eq(outstanding + (request_fire & ~state.dead) - returned),
            response_pending.eq(response_pending + request_fire - response_fire),
            data_pending.eq(data_pending + request_fire - state.data_end[k]),
        ]


class _WriteState:
    """The state of the half, counters for each source, and a bit for each."""

    bus_beat: PipelineRegister
    burst: Any

    def __init__(self, bursts: tuple[int, ...]) -> None:
        self.dead = Signal()
        self.clean = Signal()
        # Bursts whose address has been valid and whose data has not been sent; the oldest is open.
        self.announced = Signal(range(sum(bursts) + 1))
        self.open_burst = Signal()

        # Bursts for which the bus owes a response, those to which the source is owed one, and those
        # of which the source still has data. Alive, the first two are the same.
        self.outstanding = _counters(bursts, "outstanding")
        self.response_pending = _counters(bursts, "response_pending")
        self.data_pending = _counters(bursts, "data_pending")
        self.request_fire = [Signal(name=f"request_fire_{k}") for k in range(len(bursts))]
        self.data_end = [Signal(name=f"data_end_{k}") for k in range(len(bursts))]

        self.any_outstanding = Signal(len(bursts))
        self.any_pending = Signal(len(bursts))
        self.answerable = Signal(len(bursts))
        self.accepted = Signal(len(bursts))
        self.response_valid = Signal(len(bursts))


def _counters(bursts: tuple[int, ...], name: str) -> list[Signal]:
    return [Signal(range(most + 1), name=f"{name}_{k}") for k, most in enumerate(bursts)]
