"""An AXI4 port in another clock domain than its manager."""

from amaranth.hdl import Module, ResetSignal, Signal, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import Axi4Signature
from cdma.hw.lib.clocks.async_fifo import STAGES, AsyncFifo, latency_of, reset_cycles_of

DEPTHS = {"aw": 8, "w": 16, "b": 8, "ar": 8, "r": 16}
"""Payloads in the queue of each channel. 8 are enough for a transfer per cycle; where a beat takes
part in each of them, 16 leave room for registers that took a cycle longer."""

AHEAD_BITS = 4
"""Of the number of addresses that may be ahead of their bursts' last beats: one less than 16."""


class Axi4ClockCrossing(wiring.Component):
    """Brings an AXI4 port from its manager's clock domain, "sync", to the bus's.

    Each channel goes through an `AsyncFifo` and keeps its order. Between channels a write's data
    does not overtake its address: a burst's first beat is offered with the address or later. As at
    all AXI ports, no output depends combinationally on an input but reset.

    Latency: `latency` = 4 cycles of the clock that a channel goes to, or one more, and up to one
    until its first edge. Throughput: a transfer per cycle of the slower clock on each channel.

    A reset of either side empties all channels, also of bursts that are open on the bus: bus and
    manager must be reset together, by one source.

    Parameters
    ----------
    data_bytes, address_bits, id_bits, user_bits
        Widths of the port, as of `Axi4Signature`.
    domain
        The bus's clock domain.
    stages
        Registers in a row that bring one side's state to the other.

    Attributes
    ----------
    latency, reset_cycles : int
        Of the latter, resets last for that many cycles of each clock at least.

    Members
    -------
    s_axi : `In(Axi4Signature(data_bytes, address_bits, id_bits, user_bits))`
        From the manager.
    m_axi : `Out(Axi4Signature(data_bytes, address_bits, id_bits, user_bits))`
        To the bus, in `domain`.
    """

    def __init__(
        self,
        data_bytes: int,
        address_bits: int,
        id_bits: int,
        user_bits: int = 0,
        *,
        domain: str,
        stages: int = STAGES,
    ) -> None:
        self.domain = domain
        self.stages = stages
        self.latency = latency_of(stages)
        self.reset_cycles = reset_cycles_of(stages)
        signature = Axi4Signature(data_bytes, address_bits, id_bits, user_bits)
        super().__init__({"s_axi": In(signature), "m_axi": Out(signature)})

    def elaborate(self, platform) -> Module:
        m = Module()
        bus = self.m_axi
        addresses = self._add_channel(m, "aw", bus)
        beats = self._add_channel(m, "w", bus)
        self._connect(m, "ar", self._add_channel(m, "ar", bus), bus)
        for channel in ("b", "r"):
            fifo = self._add_channel(m, channel, self.s_axi)
            self._connect(m, channel, fifo, self.s_axi)

        # Addresses that were offered, of bursts whose last beat the bus has not taken.
        ahead = Signal(AHEAD_BITS)
        is_counted = Signal()
        last_fire = Signal()
        may_address = Signal()
        m.d.comb += [
            may_address.eq(is_counted | ~ahead.all()),
            last_fire.eq(bus.wvalid & bus.wready & bus.wlast),
        ]
        offered = self._connect(m, "aw", addresses, bus, may_address)
        self._connect(m, "w", beats, bus, ahead != 0)
        m.d[self.domain] += [
            is_counted.eq(offered & ~bus.awready),
            ahead.eq(ahead + (offered & ~is_counted) - last_fire),
        ]
        return m

    def _add_channel(self, m: Module, channel: str, to: wiring.PureInterface) -> AsyncFifo:
        """Add a channel's queue to one of the ports, and connect its source at the other one."""
        source, domains = self.s_axi, ("sync", self.domain)
        if to is self.s_axi:
            source, domains = self.m_axi, (self.domain, "sync")
        names = _payload(source, channel)
        layout = data.StructLayout({name: len(getattr(source, channel + name)) for name in names})
        m.submodules[channel] = fifo = AsyncFifo(
            layout, DEPTHS[channel], i_domain=domains[0], o_domain=domains[1], stages=self.stages
        )
        m.d.comb += [
            *(fifo.i.payload[name].eq(getattr(source, channel + name)) for name in names),
            fifo.i.valid.eq(getattr(source, f"{channel}valid")),
            getattr(source, f"{channel}ready").eq(fifo.i.ready),
        ]
        return fifo

    def _connect(
        self,
        m: Module,
        channel: str,
        fifo: AsyncFifo,
        to: wiring.PureInterface,
        may_offer: ValueLike = 1,
    ) -> Signal:
        """Connect a channel's queue to its port, and return whether a transfer is offered."""
        offered = Signal(name=f"{channel}_offered")
        m.d.comb += [
            offered.eq(fifo.o.valid & may_offer),
            *(
                getattr(to, channel + name).eq(fifo.o.payload[name])
                for name in _payload(to, channel)
            ),
            getattr(to, f"{channel}valid").eq(offered & ~ResetSignal(fifo.o_domain)),
            fifo.o.ready.eq(getattr(to, f"{channel}ready") & may_offer),
        ]
        return offered


def _payload(port: wiring.PureInterface, channel: str) -> list[str]:
    """Names of a channel's pins of a port without their prefix and the handshake's."""
    pins = port.signature.members
    names = [name.removeprefix(channel) for name in pins if name.startswith(channel)]
    return [name for name in names if name not in ("valid", "ready")]
