"""The read channels of an AXI4 port that several sources share."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import ReadBeat, ReadGuard, ReadRequest
from cdma.hw.bus.channels import BusReadBeat, BusRequest
from cdma.hw.bus.request_arbiter import RequestArbiter
from cdma.hw.bus.timeout import TIMEOUT_BITS, SilenceTimer
from cdma.hw.lib.pipeline import PipelineRegister, SkidBuffer


class ReadHalf(wiring.Component):
    """The read channels of a port: see `Axi4Port`.

    Latency: 1 cycle for a request, 1 for a beat. Throughput: a request and a beat per cycle.

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
    request : `In(stream.Signature(ReadRequest(address_bits, owners))).array(len(bursts))`
    beats : `Out(stream.Signature(ReadBeat(data_bytes))).array(len(bursts))`
    bus_request : `Out(stream.Signature(BusRequest(address_bits, id_bits, owners)))`
    bus_beats : `In(stream.Signature(BusReadBeat(data_bytes, id_bits)))`
    timeout_cycles : `In(32)`
    idle : `Out(1)`
    dead : `Out(1)`
        Only with several owners: the bus is given up, and still owes something.
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
                "request": In(stream.Signature(ReadRequest(address_bits, owners))).array(sources),
                "beats": Out(stream.Signature(ReadBeat(data_bytes))).array(sources),
                "bus_request": Out(stream.Signature(BusRequest(address_bits, id_bits, owners))),
                "bus_beats": In(stream.Signature(BusReadBeat(data_bytes, id_bits))),
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
        m.submodules.responses = responses = PipelineRegister(
            BusReadBeat(self.data_bytes, self.id_bits)
        )
        m.submodules.timer = timer = SilenceTimer()
        wiring.connect(m, arbiter.o, requests.i)
        wiring.connect(m, requests.o, wiring.flipped(self.bus_request))
        wiring.connect(m, wiring.flipped(self.bus_beats), responses.i)

        state = _ReadState(len(self.bursts))
        for k in range(len(self.bursts)):
            self._serve(m, k, state, arbiter.i[k], responses.o)
        m.d.comb += [
            state.burst_end.eq(
                responses.o.valid & responses.o.ready & responses.o.payload.response.last
            ),
            responses.o.ready.eq(state.accepted.all()),
            # A beat that is valid at a source is transferred, or it is the source that is stalled.
            # Beats behind a late RLAST are no sign of life.
            timer.silent.eq(
                ~state.dead
                & state.outstanding.any()
                & ~(self.bus_request.valid & self.bus_request.ready)
                & ~state.beat_valid.any()
            ),
            timer.timeout_cycles.eq(self.timeout_cycles),
            state.clean.eq(~state.outstanding.any() & ~requests.o.valid & ~responses.o.valid),
            self.idle.eq(state.clean & state.guard_idle.all()),
        ]
        with m.If(timer.expired):
            m.d.sync += state.dead.eq(1)
        with m.Elif(self.idle):
            m.d.sync += state.dead.eq(0)
        if self.owners > 1:
            m.d.comb += self.dead.eq(state.dead)
        return m

    def _serve(self, m: Module, k: int, state: "_ReadState", offer: Any, response: Any) -> None:
        """Guard a source's bursts: offer its requests to the arbiter, and return its beats."""
        bursts = self.bursts[k]
        m.submodules[f"guard_{k}"] = guard = ReadGuard(
            self.data_bytes, self.address_bits, bursts, self.owners
        )
        wiring.connect(m, wiring.flipped(self.request[k]), guard.request)
        wiring.connect(m, guard.o, wiring.flipped(self.beats[k]))

        # Bursts whose RLAST the bus owes, or will when it has accepted the request.
        outstanding = Signal(range(bursts + 1), name=f"outstanding_{k}")
        request_fire = Signal(name=f"request_fire_{k}")
        request_allowed = Signal(name=f"request_allowed_{k}")
        request = guard.bus_request
        m.d.comb += [
            request_allowed.eq(~state.dead & (outstanding != bursts)),
            offer.valid.eq(request.valid & request_allowed),
            offer.payload.eq(request.payload),
            # A request that is not put on the bus: the guard makes up all of its beats. When the
            # bus owes nothing any more, the request has to wait until the half lives.
            request.ready.eq(Mux(state.dead, ~state.clean, offer.ready & request_allowed)),
            request_fire.eq(offer.valid & offer.ready),
        ]
        own = state.own[k]
        m.d.sync += outstanding.eq(outstanding + request_fire - (state.burst_end & own))
        m.d.comb += [
            state.outstanding[k].eq(outstanding != 0),
            # Beats that no source has requested are dropped.
            own.eq((response.payload.id == k) & state.outstanding[k]),
            guard.bus_response.valid.eq(response.valid & own),
            guard.bus_response.payload.eq(response.payload.response),
            guard.dead.eq(state.dead),
            state.accepted[k].eq(~own | guard.bus_response.ready),
            state.beat_valid[k].eq(guard.o.valid),
            state.guard_idle[k].eq(guard.idle),
        ]


class _ReadState:
    """The state of the half, and a bit for each source."""

    def __init__(self, sources: int) -> None:
        self.dead = Signal()
        self.clean = Signal()
        self.burst_end = Signal()
        self.outstanding = Signal(sources, name="any_outstanding")
        self.own = Signal(sources)
        self.accepted = Signal(sources)
        self.beat_valid = Signal(sources)
        self.guard_idle = Signal(sources)
