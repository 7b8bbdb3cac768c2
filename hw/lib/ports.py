"""Streams of records at the border of a block: each field a flat port of its own.

As at the AMBA ports (`cdma.hw.bus.axi`), no output depends combinationally on an input but reset.
"""

from amaranth.hdl import Module, ResetSignal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.pipeline import HalfRateRegister, ReverseRegister


class RecordPortSignature(wiring.Signature):
    """A record with valid and ready, from the source's side.

    Parameters
    ----------
    record : `data.StructLayout`
        Its fields become ports of the same names.
    """

    def __init__(self, record: data.StructLayout) -> None:
        self.record = record
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                **{name: Out(field.width) for name, field in record},
            }
        )


class RecordReceiver(wiring.Component):
    """Makes a stream of flat ports.

    Latency: 0 cycles. Throughput: a record per cycle. Resources: a register of a record.

    Members
    -------
    port : `In(RecordPortSignature(record))`
    o : `Out(stream.Signature(record))`
    """

    def __init__(self, record: data.StructLayout) -> None:
        self.record = record
        super().__init__(
            {"port": In(RecordPortSignature(record)), "o": Out(stream.Signature(record))}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.buffer = buffer = ReverseRegister(self.record)
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        m.d.comb += [
            buffer.i.valid.eq(self.port.valid),
            self.port.ready.eq(buffer.i.ready),
            *(buffer.i.payload[name].eq(getattr(self.port, name)) for name, _ in self.record),
        ]
        return m


class RecordSender(wiring.Component):
    """Makes flat ports of a stream.

    Latency: 1 cycle. Throughput: a record per 2 cycles. Resources: a register of a record.

    Members
    -------
    i : `In(stream.Signature(record))`
    port : `Out(RecordPortSignature(record))`
    """

    def __init__(self, record: data.StructLayout) -> None:
        self.record = record
        super().__init__(
            {"i": In(stream.Signature(record)), "port": Out(RecordPortSignature(record))}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.buffer = buffer = HalfRateRegister(self.record)
        wiring.connect(m, wiring.flipped(self.i), buffer.i)
        m.d.comb += [
            self.port.valid.eq(buffer.o.valid & ~ResetSignal()),
            buffer.o.ready.eq(self.port.ready),
            *(getattr(self.port, name).eq(buffer.o.payload[name]) for name, _ in self.record),
        ]
        return m
