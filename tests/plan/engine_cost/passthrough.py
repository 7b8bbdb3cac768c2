"""A design with the buddy controller's ports that hands accesses through as they are.

Addresses from `BUDDY` on go to buddy memory, less `BUDDY`, others to device memory; their IDs must
be odd and even, so that answers find back. It has one register, of which bit 0 is the interrupt,
and in bits 15…8 a number of `BREAKS`: a rule of AXI that it breaks from then on.
"""

from dataclasses import dataclass
from functools import cache

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import Axi4Signature, AxiLiteSignature
from cdma.hw.emit.netlist import to_verilog
from cdma.hw.lib.fifo import Fifo

BUDDY = 1 << 39
READS = 16
BREAKS = (
    "nothing",
    "R withdrawn",
    "RDATA changed",
    "RLAST early",
    "RID unasked",
    "R unasked",
    "EXOKAY",
    "B withdrawn",
    "BRESP changed",
    "B early",
    "B unasked",
    "valid in reset",
    "nothing accepted",
    "ARADDR changed",
)
_SHAPE_PINS = ("len", "size", "burst", "lock", "cache", "prot", "qos")


class Passthrough(wiring.Component):
    def __init__(self) -> None:
        super().__init__(
            {
                "s_axi": In(Axi4Signature(32, 40, 4)),
                "m_axi_device": Out(Axi4Signature(32, 40, 2)),
                "m_axi_buddy": Out(Axi4Signature(32, 64, 1)),
                "s_axil": In(AxiLiteSignature(12, 32)),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        register = Signal(32)
        breaks = {name: Signal(name=name.replace(" ", "_")) for name in BREAKS}
        m.d.comb += [signal.eq(register[8:16] == i) for i, signal in enumerate(breaks.values())]
        m.d.comb += self.irq.eq(register[0])
        self._elaborate_registers(m, register)
        self._elaborate_reads(m, breaks)
        self._elaborate_writes(m, breaks)
        return m

    def _elaborate_registers(self, m: Module, register: Signal) -> None:
        lite = self.s_axil
        writes = Signal()
        written = Signal()
        read = Signal()
        m.d.comb += [
            lite.bvalid.eq(written & ~ResetSignal()),
            lite.rvalid.eq(read & ~ResetSignal()),
            writes.eq(lite.awvalid & lite.wvalid & ~written),
            lite.awready.eq(writes),
            lite.wready.eq(writes),
            lite.arready.eq(~read),
        ]
        with m.If(writes):
            m.d.sync += [register.eq(lite.wdata), written.eq(1)]
        with m.Elif(lite.bready):
            m.d.sync += written.eq(0)
        with m.If(lite.arvalid & lite.arready):
            m.d.sync += [lite.rdata.eq(register), read.eq(1)]
        with m.Elif(lite.rready):
            m.d.sync += read.eq(0)

    def _elaborate_reads(self, m: Module, breaks: dict[str, Signal]) -> None:
        axi, ports = self.s_axi, (self.m_axi_device, self.m_axi_buddy)
        to_buddy = axi.araddr[39]
        offered = [Signal(name=f"offered_{k}") for k in range(2)]
        # The beat that is shown stays until it is taken.
        holds, chosen, turn = Signal(), Signal(), Signal()
        m.d.comb += turn.eq(Mux(holds, chosen, ~offered[0]))
        for k, port in enumerate(ports):
            m.submodules[f"ids_{k}"] = ids = Fifo(4, READS)
            takes = Signal(name=f"takes_{k}")
            m.d.comb += [
                takes.eq((to_buddy == k) & ids.i.ready & ~breaks["nothing accepted"]),
                port.arvalid.eq(axi.arvalid & takes),
                ids.i.payload.eq(axi.arid),
                ids.i.valid.eq(port.arvalid & port.arready),
                offered[k].eq(port.rvalid & ids.o.valid),
                port.rready.eq((turn == k) & axi.rready & ids.o.valid),
                ids.o.ready.eq(port.rready & port.rvalid & port.rlast),
            ]
            m.d.comb += [
                getattr(port, f"ar{name}").eq(getattr(axi, f"ar{name}")) for name in _SHAPE_PINS
            ]
            ar_waits = Signal(name=f"ar_waits_{k}")
            m.d.sync += ar_waits.eq(port.arvalid & ~port.arready)
            m.d.comb += port.araddr.eq(
                axi.araddr[:39] ^ Mux(breaks["ARADDR changed"] & ar_waits, 32, 0)
            )
            with m.If(to_buddy == k):
                m.d.comb += axi.arready.eq(takes & port.arready)
            with m.If(turn == k):
                m.d.comb += [
                    axi.rid.eq(ids.o.payload ^ (breaks["RID unasked"] << 3)),
                    axi.rdata.eq(port.rdata),
                    axi.rresp.eq(Mux(breaks["EXOKAY"], 1, port.rresp)),
                    axi.rlast.eq(port.rlast | breaks["RLAST early"]),
                ]
        waited = Signal()
        valid = Signal()
        m.d.comb += [
            valid.eq(Cat(offered).any() | breaks["R unasked"]),
            axi.rvalid.eq(
                Mux(
                    ResetSignal(),
                    breaks["valid in reset"],
                    valid & ~(waited & breaks["R withdrawn"]),
                )
            ),
        ]
        m.d.sync += [
            waited.eq(axi.rvalid & ~axi.rready),
            holds.eq(axi.rvalid & ~axi.rready),
            chosen.eq(turn),
        ]
        with m.If(waited & breaks["RDATA changed"]):
            m.d.comb += axi.rdata.eq(0x5A)

    def _elaborate_writes(self, m: Module, breaks: dict[str, Signal]) -> None:
        axi, ports = self.s_axi, (self.m_axi_device, self.m_axi_buddy)
        to_buddy, write_id = Signal(), Signal(4)
        waited, sent = Signal(), Signal()
        m.d.comb += axi.bid.eq(write_id)
        m.d.sync += waited.eq(axi.bvalid & ~axi.bready)
        with m.FSM():
            with m.State("ADDRESS"):
                m.d.comb += axi.bvalid.eq(breaks["B unasked"] & ~ResetSignal())
                for k, port in enumerate(ports):
                    with m.If(axi.awaddr[39] == k):
                        m.d.comb += [
                            port.awvalid.eq(axi.awvalid & ~ResetSignal()),
                            axi.awready.eq(port.awready),
                        ]
                with m.If(axi.awvalid & axi.awready):
                    m.d.sync += [to_buddy.eq(axi.awaddr[39]), write_id.eq(axi.awid), sent.eq(0)]
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += axi.bvalid.eq(breaks["B early"] & ~ResetSignal())
                for k, port in enumerate(ports):
                    with m.If(to_buddy == k):
                        m.d.comb += [port.wvalid.eq(axi.wvalid), axi.wready.eq(port.wready)]
                with m.If(axi.wvalid & axi.wready & axi.wlast):
                    m.next = "RESPONSE"
            with m.State("RESPONSE"):
                for k, port in enumerate(ports):
                    with m.If(to_buddy == k):
                        m.d.comb += [
                            axi.bvalid.eq(port.bvalid & ~(waited & breaks["B withdrawn"])),
                            axi.bresp.eq(port.bresp ^ Mux(waited & breaks["BRESP changed"], 2, 0)),
                            port.bready.eq(axi.bready),
                        ]
                with m.If(axi.bvalid & axi.bready):
                    m.next = "ADDRESS"
        for port in ports:
            m.d.comb += [
                getattr(port, f"aw{name}").eq(getattr(axi, f"aw{name}")) for name in _SHAPE_PINS
            ]
            m.d.comb += [
                port.awaddr.eq(axi.awaddr[:39]),
                port.wdata.eq(axi.wdata),
                port.wstrb.eq(axi.wstrb),
                port.wlast.eq(axi.wlast),
            ]


@dataclass(frozen=True)
class Rtl:
    name: str
    text: str


@cache
def passthrough_rtl() -> Rtl:
    """The pass-through as SystemVerilog."""
    modules = to_verilog(Passthrough(), "cdma_buddy", assertions=True)
    return Rtl("cdma_buddy", "\n".join(module.text for module in modules))
