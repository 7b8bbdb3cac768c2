"""Bursts to an AXI port, and its responses, as streams.

Requests are legal bursts already: within 4 KiB, of whole beats, incrementing. All responses come in
the order of the requests.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.fifo import Fifo

PAGE_BYTES = 4096
"""No AXI burst crosses a multiple of this."""


class BusError(enum.Enum, shape=unsigned(3)):  # type: ignore[call-arg]
    """The response to a beat or a burst; SLVERR and DECERR have AXI's numbers."""

    NONE = 0
    FRAMING = 1
    """RLAST came on another beat than the request's last one."""
    SLVERR = 2
    DECERR = 3
    TIMEOUT = 4
    """There was no response: the bus was silent for too long."""


class ReadRequest(data.StructLayout):
    """A read burst.

    Parameters
    ----------
    address_bits
        Width of an address.
    owners
        The number of owners whose requests share a port.

    Members
    -------
    address
        The address of the first beat, a multiple of the beat's size.
    beats
        The number of beats, less one, as ARLEN.
    owner
        The number of the owner; no bits if there is one.
    """

    def __init__(self, address_bits: int, owners: int = 1) -> None:
        super().__init__({"address": address_bits, "beats": 8, "owner": range(owners)})


class ReadBeat(data.StructLayout):
    """A beat of a read burst.

    Members
    -------
    data
    error
        The data is invalid where the error is not NONE.
    """

    def __init__(self, data_bytes: int) -> None:
        super().__init__({"data": 8 * data_bytes, "error": BusError})


class ReadResponse(data.StructLayout):
    """A beat as it comes from the bus: RDATA, RRESP, RLAST."""

    def __init__(self, data_bytes: int) -> None:
        super().__init__({"data": 8 * data_bytes, "resp": 2, "last": 1})


class WriteRequest(data.StructLayout):
    """A write burst whose data is complete.

    Parameters
    ----------
    address_bits, owners
        As in `ReadRequest`.

    Members
    -------
    address
        The address of the first beat, a multiple of the beat's size.
    beats
        The number of beats, less one, as AWLEN.
    owner
        As in `ReadRequest`.
    """

    def __init__(self, address_bits: int, owners: int = 1) -> None:
        super().__init__({"address": address_bits, "beats": 8, "owner": range(owners)})


class WriteBeat(data.StructLayout):
    """A beat of a write burst: WDATA, WSTRB, WLAST."""

    def __init__(self, data_bytes: int) -> None:
        super().__init__({"data": 8 * data_bytes, "strobe": data_bytes, "last": 1})


class ReadGuard(wiring.Component):
    """Returns as many beats for each read burst as were requested, whatever the bus answers.

    If RLAST comes early, the missing beats are made up; if it comes late, what is too much is
    dropped. Either way the beats at fault carry `BusError.FRAMING`. Once the bus is given up, all
    missing beats are made up and carry `BusError.TIMEOUT`.

    Latency: 0 cycles. Throughput: a beat per cycle.

    Parameters
    ----------
    data_bytes
        Width of a beat.
    address_bits
        Width of an address.
    bursts
        The largest number of outstanding bursts.
    owners
        As in `ReadRequest`.

    Members
    -------
    request : `In(stream.Signature(ReadRequest(address_bits, owners)))`
    bus_request : `Out(stream.Signature(ReadRequest(address_bits, owners)))`
        The same requests.
    bus_response : `In(stream.Signature(ReadResponse(data_bytes)))`
    o : `Out(stream.Signature(ReadBeat(data_bytes)))`
    dead : `In(1)`
        The bus is given up: what it answers is dropped. Must not rise while a beat of the bus
        waits at `o`, nor fall before `idle`.
    idle : `Out(1)`
        All requested beats have been returned.
    """

    def __init__(self, data_bytes: int, address_bits: int, bursts: int, owners: int = 1) -> None:
        self.bursts = bursts
        request = stream.Signature(ReadRequest(address_bits, owners))
        super().__init__(
            {
                "request": In(request),
                "bus_request": Out(request),
                "bus_response": In(stream.Signature(ReadResponse(data_bytes))),
                "o": Out(stream.Signature(ReadBeat(data_bytes))),
                "dead": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.expected = expected = Fifo(unsigned(8), self.bursts)
        m.d.comb += [
            self.bus_request.valid.eq(self.request.valid & expected.i.ready),
            self.bus_request.payload.eq(self.request.payload),
            self.request.ready.eq(self.bus_request.ready & expected.i.ready),
            expected.i.valid.eq(self.request.valid & self.bus_request.ready),
            expected.i.payload.eq(self.request.payload.beats),
        ]

        # One more than the queue's depth may be expected: one waits at its output.
        outstanding = Signal(range(self.bursts + 2))
        request_fire = Signal()
        burst_end = Signal()
        m.d.comb += [
            request_fire.eq(expected.i.valid & expected.i.ready),
            burst_end.eq(expected.o.valid & expected.o.ready),
            self.idle.eq(outstanding == 0),
        ]
        m.d.sync += outstanding.eq(outstanding + request_fire - burst_end)

        response = self.bus_response.payload
        beat = Signal(8)
        final = Signal()
        short = Signal()
        dropping = Signal()
        made_up = Signal()
        m.d.comb += [final.eq(beat == expected.o.payload), made_up.eq(short | self.dead)]
        with m.If(self.dead):
            m.d.comb += [self.o.valid.eq(expected.o.valid), self.bus_response.ready.eq(1)]
        with m.Elif(dropping):
            m.d.comb += self.bus_response.ready.eq(1)
        with m.Else():
            m.d.comb += [
                self.o.valid.eq(expected.o.valid & (short | self.bus_response.valid)),
                self.bus_response.ready.eq(expected.o.valid & ~short & self.o.ready),
            ]
        # A beat that is made up does not change with what the bus shows meanwhile.
        m.d.comb += self.o.payload.data.eq(Mux(made_up, 0, response.data))
        with m.If(short):
            m.d.comb += self.o.payload.error.eq(BusError.FRAMING)
        with m.Elif(self.dead):
            m.d.comb += self.o.payload.error.eq(BusError.TIMEOUT)
        with m.Elif(response.last != final):
            m.d.comb += self.o.payload.error.eq(BusError.FRAMING)
        with m.Elif(response.resp[1]):
            m.d.comb += self.o.payload.error.eq(response.resp)
        m.d.comb += expected.o.ready.eq(self.o.valid & self.o.ready & final)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                beat.eq(Mux(final, 0, beat + 1)),
                short.eq(~final & (short | (response.last & ~self.dead))),
            ]
            with m.If(~made_up):
                m.d.sync += dropping.eq(final & ~response.last)
        with m.If(dropping & self.bus_response.valid & response.last):
            m.d.sync += dropping.eq(0)
        return m
