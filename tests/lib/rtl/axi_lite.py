"""A register block in simulation, with AXI4-Lite accesses as coroutines."""

from collections.abc import Callable, Coroutine
from typing import Any

from amaranth.lib import wiring

from tests.lib.simulator import Simulator

OKAY, SLVERR = 0, 2
HANG_CYCLES = 20
"""No access may take that long from when all of it was offered, and the answer is taken."""

Body = Callable[["AxiLiteBus"], Coroutine[Any, Any, None]]


class AxiLiteBus:
    """Accesses through one port, and the component's other members by their paths."""

    def __init__(self, ctx: Any, component: Any, port: Any) -> None:
        self.ctx = ctx
        self.component = component
        self.port = port
        self.cycle = 0

    async def tick(self, *signals: Any) -> tuple[int, ...]:
        """A clock edge; the signals just before it."""
        _clock, _reset, *values = await self.ctx.tick().sample(*signals)
        self.cycle += 1
        return tuple(values)

    async def write(
        self,
        address: int,
        data: int,
        strobe: int = 0xF,
        *,
        address_delay: int = 0,
        data_delay: int = 0,
        answer_delay: int = 0,
    ) -> int:
        """Returns BRESP. Delays are in cycles; the last one counts from BVALID."""
        port, ctx = self.port, self.ctx
        start = self.cycle
        offered_address = offered_data = False
        waited = 0
        while True:
            now = self.cycle - start
            assert now < HANG_CYCLES + address_delay + data_delay + answer_delay, "no answer"
            addresses = now >= address_delay and not offered_address
            writes = now >= data_delay and not offered_data
            ctx.set(port.awvalid, addresses)
            ctx.set(port.awaddr, address if addresses else ~address)
            ctx.set(port.wvalid, writes)
            ctx.set(port.wdata, data if writes else ~data)
            ctx.set(port.wstrb, strobe if writes else ~strobe)
            ctx.set(port.bready, waited == answer_delay)
            awready, wready, bvalid, bresp, bready = await self.tick(
                port.awready, port.wready, port.bvalid, port.bresp, port.bready
            )
            if bvalid:
                assert (offered_address, offered_data) == (True, True), (
                    "an answer to half a request"
                )
                if bready:
                    break
                waited += 1
            else:
                assert waited == 0, "BVALID was withdrawn"
            offered_address |= bool(addresses and awready)
            offered_data |= bool(writes and wready)
        ctx.set(port.bready, 0)
        return bresp

    async def read(self, address: int, *, delay: int = 0, answer_delay: int = 0) -> tuple[int, int]:
        """Returns RDATA and RRESP."""
        port, ctx = self.port, self.ctx
        start = self.cycle
        offered = False
        standing: tuple[int, int] | None = None
        waited = 0
        while True:
            now = self.cycle - start
            assert now < HANG_CYCLES + delay + answer_delay, "no answer"
            reads = now >= delay and not offered
            ctx.set(port.arvalid, reads)
            ctx.set(port.araddr, address if reads else ~address)
            ctx.set(port.rready, waited == answer_delay)
            arready, rvalid, rdata, rresp, rready = await self.tick(
                port.arready, port.rvalid, port.rdata, port.rresp, port.rready
            )
            if standing is not None:
                assert (rvalid, rdata, rresp) == (1, *standing), "an answer changed"
            if rvalid:
                assert offered, "an answer to no request"
                if rready:
                    break
                standing = (rdata, rresp)
                waited += 1
            offered |= bool(reads and arready)
        ctx.set(port.rready, 0)
        return rdata, rresp

    async def get(self, address: int) -> int:
        """Read a register that exists."""
        data, response = await self.read(address)
        assert response == OKAY
        return data

    async def put(self, address: int, data: int, strobe: int = 0xF) -> None:
        """Write a register that exists."""
        assert await self.write(address, data, strobe) == OKAY


class RegisterBench:
    """Runs test bodies side by side, each with a bus of its own, and each time from reset: most of
    a short simulation's time goes into preparing it."""

    def __init__(self, component: wiring.Component, port: Any, *, side_by_side: int = 2) -> None:
        self.component = component
        self.port = port
        self._bodies: list[Body] = []
        self._ran = False
        self._simulator = Simulator(component)
        self._simulator.add_clock(1e-9)
        for slot in range(side_by_side):
            self._simulator.add_testbench(self._slot(slot))

    def run(self, *bodies: Body) -> None:
        self._bodies = list(bodies)
        if self._ran:
            self._simulator.reset()
        self._ran = True
        self._simulator.run()

    def _slot(self, slot: int) -> Callable[[Any], Coroutine[Any, Any, None]]:
        async def run(ctx: Any) -> None:
            if slot < len(self._bodies):
                await self._bodies[slot](AxiLiteBus(ctx, self.component, self.port))

        return run
