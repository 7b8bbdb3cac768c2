"""The AXI4-Lite side of a register block, apart from what the registers do."""

from amaranth.hdl import Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import AxiLiteSignature, AxiResponse


class WriteSignature(wiring.Signature):
    """A write of registers, from the port's side: done in the cycle in which `valid` is high.

    Members
    -------
    valid
    word
        The address in words.
    data
    strobe
        Which of its bytes count.
    error
        In the same cycle: there is nothing at this address.
    """

    def __init__(self, word_bits: int, data_bits: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "word": Out(word_bits),
                "data": Out(data_bits),
                "strobe": Out(data_bits // 8),
                "error": In(1),
            }
        )


class ReadSignature(wiring.Signature):
    """A read of registers, from the port's side: done in the cycle in which `valid` is high.

    Members
    -------
    valid
    word
        The address in words.
    data, error
        In the same cycle.
    """

    def __init__(self, word_bits: int, data_bits: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "word": Out(word_bits),
                "data": In(data_bits),
                "error": In(1),
            }
        )


class RegisterPort(wiring.Component):
    """Target of AXI4-Lite that answers every access, in as many cycles as any other.

    Address and data of a write may come in any order. Writes and reads do not wait for each other.
    An error is answered with SLVERR. The low bits of an address, and AxPROT, do not matter.

    Latency: from a request, the later of AW and W, to the response 2 cycles. Throughput: a write
    and a read every 2 cycles. No output depends combinationally on an input of `axil`, but that
    reset forces BVALID and RVALID low.

    Parameters
    ----------
    address_bits, data_bits
        As in `AxiLiteSignature`.

    Members
    -------
    axil : `In(AxiLiteSignature(address_bits, data_bits))`
    write : `Out(WriteSignature(word_bits, data_bits))`
    read : `Out(ReadSignature(word_bits, data_bits))`
    """

    response_latency = 2

    def __init__(self, address_bits: int, data_bits: int) -> None:
        self.address_bits = address_bits
        self.data_bits = data_bits
        word_bits = address_bits - (data_bits // 8 - 1).bit_length()
        super().__init__(
            {
                "axil": In(AxiLiteSignature(address_bits, data_bits)),
                "write": Out(WriteSignature(word_bits, data_bits)),
                "read": Out(ReadSignature(word_bits, data_bits)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        axil = self.axil
        in_word = self.address_bits - len(self.write.word)

        address_held = Signal()
        data_held = Signal()
        written = Signal()
        m.d.comb += [
            axil.awready.eq(~address_held),
            axil.wready.eq(~data_held),
            axil.bvalid.eq(written & ~ResetSignal()),
            self.write.valid.eq(address_held & data_held & ~written),
        ]
        with m.If(axil.awvalid & axil.awready):
            m.d.sync += [address_held.eq(1), self.write.word.eq(axil.awaddr[in_word:])]
        with m.If(axil.wvalid & axil.wready):
            m.d.sync += [
                data_held.eq(1),
                self.write.data.eq(axil.wdata),
                self.write.strobe.eq(axil.wstrb),
            ]
        with m.If(self.write.valid):
            m.d.sync += [
                address_held.eq(0),
                data_held.eq(0),
                written.eq(1),
                axil.bresp.eq(Mux(self.write.error, AxiResponse.SLVERR, AxiResponse.OKAY)),
            ]
        with m.Elif(axil.bready):
            m.d.sync += written.eq(0)

        read_pending = Signal()
        read = Signal()
        m.d.comb += [
            axil.arready.eq(~read_pending),
            axil.rvalid.eq(read & ~ResetSignal()),
            self.read.valid.eq(read_pending & ~read),
        ]
        with m.If(axil.arvalid & axil.arready):
            m.d.sync += [read_pending.eq(1), self.read.word.eq(axil.araddr[in_word:])]
        with m.If(self.read.valid):
            m.d.sync += [
                read_pending.eq(0),
                read.eq(1),
                axil.rdata.eq(self.read.data),
                axil.rresp.eq(Mux(self.read.error, AxiResponse.SLVERR, AxiResponse.OKAY)),
            ]
        with m.Elif(axil.rready):
            m.d.sync += read.eq(0)
        return m
