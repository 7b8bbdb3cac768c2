"""The bus's responses to the bursts of a packet, as one outcome."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError
from cdma.hw.dma.payloads import WriteOutcome
from cdma.hw.lib.fifo import Fifo


class PendingBurst(data.StructLayout):
    """A burst whose response is outstanding, or the end of a packet.

    Members
    -------
    address
        The burst's address.
    written
        There is a burst. Without one, the entry only ends its packet.
    ends
        The entry ends its packet, with `size` bytes written and `overflow`.
    """

    def __init__(self, address_bits: int, size_bits: int) -> None:
        super().__init__(
            {
                "address": address_bits,
                "written": 1,
                "ends": 1,
                "size": size_bits,
                "overflow": 1,
            }
        )


class WriteResponseCollector(wiring.Component):
    """Collects the responses to a packet's bursts, and keeps the first error.

    Latency: 1 cycle from a packet's last response to its outcome. Throughput: a response per cycle;
    the last one of a packet waits until the former packet's outcome has been accepted.

    Parameters
    ----------
    address_bits, size_bits
        Widths of addresses and of a packet's size.
    bursts
        The largest number of outstanding responses.

    Members
    -------
    pending : `In(stream.Signature(PendingBurst(address_bits, size_bits)))`
    response : `In(stream.Signature(BusError))`
        For each burst, in their order.
    outcome : `Out(stream.Signature(WriteOutcome(address_bits, size_bits)))`
        For each packet.
    """

    def __init__(self, address_bits: int, size_bits: int, bursts: int) -> None:
        self.address_bits = address_bits
        self.size_bits = size_bits
        self.bursts = bursts
        super().__init__(
            {
                "pending": In(stream.Signature(PendingBurst(address_bits, size_bits))),
                "response": In(stream.Signature(BusError)),
                "outcome": Out(stream.Signature(WriteOutcome(address_bits, size_bits))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.queue = queue = Fifo(
            PendingBurst(self.address_bits, self.size_bits), self.bursts
        )
        wiring.connect(m, wiring.flipped(self.pending), queue.i)

        oldest = queue.o.payload
        outcome_valid = Signal()
        blocked = Signal()
        oldest_fire = Signal()
        fails = Signal()
        error = Signal(BusError)
        error_address = Signal(self.address_bits, reset_less=True)
        result = Signal(WriteOutcome(self.address_bits, self.size_bits), reset_less=True)
        m.d.comb += [
            blocked.eq(oldest.ends & outcome_valid),
            self.response.ready.eq(queue.o.valid & oldest.written & ~blocked),
            oldest_fire.eq(queue.o.valid & ~blocked & (~oldest.written | self.response.valid)),
            queue.o.ready.eq(oldest_fire),
            fails.eq(
                oldest.written & (self.response.payload != BusError.NONE) & (error == BusError.NONE)
            ),
            self.outcome.valid.eq(outcome_valid),
            self.outcome.payload.eq(result),
        ]
        with m.If(outcome_valid & self.outcome.ready):
            m.d.sync += outcome_valid.eq(0)
        with m.If(oldest_fire):
            m.d.sync += [
                error.eq(Mux(oldest.ends, BusError.NONE, Mux(fails, self.response.payload, error))),
                error_address.eq(Mux(fails, oldest.address, error_address)),
            ]
            with m.If(oldest.ends):
                m.d.sync += [
                    outcome_valid.eq(1),
                    result.size.eq(oldest.size),
                    result.overflow.eq(oldest.overflow),
                    result.error.eq(Mux(fails, self.response.payload, error)),
                    result.address.eq(Mux(fails, oldest.address, error_address)),
                ]
        return m
