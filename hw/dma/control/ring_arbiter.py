"""The choice among several rings: whose descriptor starts next."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.dma.control.descriptor import CheckedDescriptor, Opcode, Status
from cdma.hw.lib.pipeline import HalfRateRegister
from cdma.hw.lib.round_robin import RoundRobinArbiter


class RingArbiter(wiring.Component):
    """Lets the rings start their descriptors round-robin, one at a time.

    A ring that has a descriptor waits for at most one of each other ring. A fence is passed over
    until every descriptor of its ring that was chosen before has its record: it would hold up the
    other rings behind it.

    Latency: 1 cycle, in a register that no path leads through. Throughput: a descriptor per 2
    cycles, as they are dispatched.

    Parameters
    ----------
    rings
        The number of rings.

    Members
    -------
    i : `In(stream.Signature(CheckedDescriptor())).array(rings)`
    all_retired : `In(rings)`
        For each ring: every descriptor that was chosen has its record.
    abort : `In(rings)`
        For each ring: its descriptors end unstarted, fences too.
    o : `Out(stream.Signature(CheckedDescriptor(rings)))`
        The same descriptors, with the numbers of their rings.
    chosen : `Out(rings)`
        A descriptor of the ring is chosen in this cycle.
    """

    def __init__(self, rings: int) -> None:
        self.rings = rings
        super().__init__(
            {
                "i": In(stream.Signature(CheckedDescriptor())).array(rings),
                "all_retired": In(rings),
                "abort": In(rings),
                "o": Out(stream.Signature(CheckedDescriptor(rings))),
                "chosen": Out(rings),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobinArbiter(self.rings)
        m.submodules.next_job = next_job = HalfRateRegister(CheckedDescriptor(self.rings))
        wiring.connect(m, next_job.o, wiring.flipped(self.o))
        for ring, i in enumerate(self.i):
            waits = Signal(name=f"waits_{ring}")
            checked = i.payload
            m.d.comb += [
                waits.eq(
                    (checked.descriptor.opcode == Opcode.FENCE)
                    & (checked.status == Status.OK)
                    & ~self.all_retired[ring]
                    & ~self.abort[ring]
                ),
                arbiter.requests[ring].eq(i.valid & ~waits),
                self.chosen[ring].eq(
                    arbiter.requests[ring] & (arbiter.grant == ring) & next_job.i.ready
                ),
                i.ready.eq(self.chosen[ring]),
            ]
            with m.If(arbiter.grant == ring):
                m.d.comb += [
                    next_job.i.payload.descriptor.eq(checked.descriptor),
                    next_job.i.payload.status.eq(checked.status),
                    next_job.i.payload.detail.eq(checked.detail),
                    next_job.i.payload.index.eq(checked.index),
                    next_job.i.payload.worst_length.eq(checked.worst_length),
                    next_job.i.payload.ring.eq(ring),
                ]
        m.d.comb += [
            next_job.i.valid.eq(arbiter.requests.any()),
            arbiter.fire.eq(self.chosen.any()),
        ]
        return m
