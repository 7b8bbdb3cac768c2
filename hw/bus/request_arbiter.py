"""Requests of several sources on one address channel."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import ReadRequest
from cdma.hw.bus.channels import BusRequest
from cdma.hw.lib.round_robin import RoundRobinArbiter


class RequestArbiter(wiring.Component):
    """Lets one request through per cycle, round-robin.

    Latency: 0 cycles. Throughput: a request per cycle.

    Parameters
    ----------
    address_bits, id_bits
        Widths.
    sources
        The number of sources; their index becomes the ID.
    owners
        As in `ReadRequest`.

    Members
    -------
    i : `In(stream.Signature(ReadRequest(address_bits, owners))).array(sources)`
        Write requests have the same shape.
    o : `Out(stream.Signature(BusRequest(address_bits, id_bits, owners)))`
    """

    def __init__(self, address_bits: int, id_bits: int, sources: int, owners: int = 1) -> None:
        self.sources = sources
        super().__init__(
            {
                "i": In(stream.Signature(ReadRequest(address_bits, owners))).array(sources),
                "o": Out(stream.Signature(BusRequest(address_bits, id_bits, owners))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobinArbiter(self.sources)
        m.d.comb += [
            arbiter.requests.eq(Cat(i.valid for i in self.i)),
            arbiter.fire.eq(self.o.valid & self.o.ready),
            self.o.payload.id.eq(arbiter.grant),
        ]
        for k, i in enumerate(self.i):
            granted = Signal(name=f"granted_{k}")
            m.d.comb += [
                granted.eq(i.valid & (self.o.payload.id == k)),
                i.ready.eq(granted & self.o.ready),
            ]
            with m.If(granted):
                m.d.comb += [
                    self.o.valid.eq(1),
                    self.o.payload.address.eq(i.payload.address),
                    self.o.payload.beats.eq(i.payload.beats),
                    self.o.payload.owner.eq(i.payload.owner),
                ]
        return m
