"""AMBA interfaces under their flat names, and the adapters between them and streams.

At these ports no output depends combinationally on an input, but that reset forces every VALID low
at once: a synchronous reset alone would leave it high for the first cycle.
"""

from amaranth.hdl import Cat, Module, ResetSignal, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.beat import Beat, ReceivedBeat
from cdma.hw.lib.count import run_length
from cdma.hw.lib.pipeline import PipelineRegister, ReverseRegister, SkidBuffer


class AxiStreamSignature(wiring.Signature):
    """AXI4-Stream (Arm IHI 0051), from the source's side: TVALID, TREADY, TDATA, TKEEP, TLAST.

    Packets are dense: TKEEP is all ones but on the last beat, where it is a run of ones from bit 0.
    A beat without bytes is legal as the last one of a packet; a packet of no bytes is such a beat.

    Parameters
    ----------
    data_bytes
        Width of TDATA.
    """

    def __init__(self, data_bytes: int) -> None:
        self.data_bytes = data_bytes
        super().__init__(
            {
                "tvalid": Out(1),
                "tready": In(1),
                "tdata": Out(8 * data_bytes),
                "tkeep": Out(data_bytes),
                "tlast": Out(1),
            }
        )


class AxiLiteSignature(wiring.Signature):
    """AXI4-Lite (Arm IHI 0022), from the manager's side, all five channels.

    Parameters
    ----------
    address_bits
        Width of AWADDR and ARADDR; addresses count bytes.
    data_bits
        Width of WDATA and RDATA: 32 or 64.
    """

    def __init__(self, address_bits: int, data_bits: int) -> None:
        if data_bits not in (32, 64):
            raise ValueError(f"data_bits must be 32 or 64, not {data_bits!r}")
        self.address_bits = address_bits
        self.data_bits = data_bits
        super().__init__(
            {
                "awaddr": Out(address_bits),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(data_bits),
                "wstrb": Out(data_bits // 8),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_bits),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(data_bits),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class Axi4Signature(wiring.Signature):
    """AXI4 (Arm IHI 0022), from the manager's side, all five channels; no REGION.

    Parameters
    ----------
    data_bytes
        Width of WDATA and RDATA: a power of two, 1 to 128.
    address_bits
        Width of AWADDR and ARADDR; addresses count bytes.
    id_bits
        Width of AWID, BID, ARID and RID.
    user_bits
        Width of AWUSER and ARUSER, which are absent if it is 0. The other channels have no USER.
    """

    def __init__(
        self, data_bytes: int, address_bits: int, id_bits: int, user_bits: int = 0
    ) -> None:
        if data_bytes not in (1, 2, 4, 8, 16, 32, 64, 128):
            raise ValueError(f"data_bytes must be a power of two, 1 to 128, not {data_bytes!r}")
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.id_bits = id_bits
        self.user_bits = user_bits
        address = {
            "id": Out(id_bits),
            "addr": Out(address_bits),
            "len": Out(8),
            "size": Out(3),
            "burst": Out(2),
            "lock": Out(1),
            "cache": Out(4),
            "prot": Out(3),
            "qos": Out(4),
            **({"user": Out(user_bits)} if user_bits else {}),
            "valid": Out(1),
            "ready": In(1),
        }
        super().__init__(
            {
                **{f"aw{name}": member for name, member in address.items()},
                "wdata": Out(8 * data_bytes),
                "wstrb": Out(data_bytes),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(id_bits),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                **{f"ar{name}": member for name, member in address.items()},
                "rid": In(id_bits),
                "rdata": In(8 * data_bytes),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


def connect_resized(m: Module, bus: wiring.PureInterface, pins: wiring.PureInterface) -> None:
    """Connect a manager's bus to pins of other widths of address and ID.

    Bits that the pins lack are dropped, and those that they have beyond the bus are 0.
    """
    for name, member in bus.signature.members.items():
        inner, outer = getattr(bus, name), getattr(pins, name)
        m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)


class AxiResponse(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """BRESP and RRESP."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    """The target refuses."""
    DECERR = 3
    """No target has this address."""


class AxiStreamBeat(data.StructLayout):
    """The payload of a beat on AXI4-Stream."""

    def __init__(self, data_bytes: int) -> None:
        super().__init__({"tdata": 8 * data_bytes, "tkeep": data_bytes, "tlast": 1})


class AxiStreamReceiver(wiring.Component):
    """Receives beats from AXI4-Stream, and marks those that break the packet's framing.

    Latency: 1 cycle. Throughput: a beat per cycle. Resources: two registers of a beat, or one for
    a sink whose ready comes from registers.

    Parameters
    ----------
    data_bytes
        Width of TDATA.
    cuts_ready
        The sink's ready may follow from anything. If not, no pin does either, and TREADY follows
        from it in the same cycle.

    Members
    -------
    axis : `In(AxiStreamSignature(data_bytes))`
    o : `Out(stream.Signature(ReceivedBeat(data_bytes)))`
    """

    def __init__(self, data_bytes: int, *, cuts_ready: bool = True) -> None:
        self.data_bytes = data_bytes
        self.cuts_ready = cuts_ready
        super().__init__(
            {
                "axis": In(AxiStreamSignature(data_bytes)),
                "o": Out(stream.Signature(ReceivedBeat(data_bytes))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.port = port = (SkidBuffer if self.cuts_ready else PipelineRegister)(
            ReceivedBeat(self.data_bytes)
        )
        wiring.connect(m, port.o, wiring.flipped(self.o))
        axis = self.axis
        received = port.i.payload
        # The run of ones from bit 0: those that adding 1 turns to zeros.
        run = Signal(self.data_bytes)
        m.d.comb += [
            run.eq(axis.tkeep & ~(axis.tkeep + 1)),
            port.i.valid.eq(axis.tvalid),
            axis.tready.eq(port.i.ready),
            received.data.eq(axis.tdata),
            received.size.eq(run_length(run)),
            received.last.eq(axis.tlast),
            received.framing_error.eq((axis.tkeep != run) | (~axis.tlast & ~axis.tkeep.all())),
        ]
        return m


class AxiStreamSender(wiring.Component):
    """Sends beats to AXI4-Stream.

    Latency: 0 cycles. Throughput: a beat per cycle. Resources: a register of a beat, which cuts the
    path from TREADY. Beats should come straight from registers, as TDATA is one multiplexer away.

    Members
    -------
    i : `In(stream.Signature(Beat(data_bytes)))`
    axis : `Out(AxiStreamSignature(data_bytes))`
    """

    def __init__(self, data_bytes: int) -> None:
        self.data_bytes = data_bytes
        super().__init__(
            {
                "i": In(stream.Signature(Beat(data_bytes))),
                "axis": Out(AxiStreamSignature(data_bytes)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.port = port = ReverseRegister(Beat(self.data_bytes))
        wiring.connect(m, wiring.flipped(self.i), port.i)
        m.d.comb += [
            self.axis.tvalid.eq(port.o.valid & ~ResetSignal()),
            self.axis.tdata.eq(port.o.payload.data),
            self.axis.tkeep.eq(Cat(j < port.o.payload.size for j in range(self.data_bytes))),
            self.axis.tlast.eq(port.o.payload.last),
            port.o.ready.eq(self.axis.tready),
        ]
        return m
