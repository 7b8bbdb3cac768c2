"""Pipeline registers with valid and ready.

All streams follow `amaranth.lib.stream`: a transfer happens when valid and ready are both high;
once valid, a payload neither changes nor goes away; valid never waits for ready.
"""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Assert, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class SkidBuffer(wiring.Component):
    """A two-entry buffer that cuts every combinational path between its ports.

    Latency: 1 cycle. Throughput: a transfer per cycle. Resources: two payload registers.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()

        front = Signal.like(self.o.payload, name="front", reset_less=True)
        front_valid = Signal()
        spare = Signal.like(self.o.payload, name="spare", reset_less=True)
        spare_valid = Signal()

        m.d.comb += [
            self.i.ready.eq(~spare_valid),
            self.o.valid.eq(front_valid),
            self.o.payload.eq(front),
        ]
        with m.If(self.o.ready | ~front_valid):
            m.d.sync += [
                front.eq(Mux(spare_valid, spare, self.i.payload)),
                front_valid.eq(spare_valid | self.i.valid),
                spare_valid.eq(0),
            ]
        with m.Elif(self.i.valid & ~spare_valid):
            m.d.sync += [spare.eq(self.i.payload), spare_valid.eq(1)]

        return m


class PingPongBuffer(wiring.Component):
    """A two-entry buffer whose payload registers do not wait for the output's ready.

    For sinks that know late in the cycle whether they are ready: a `SkidBuffer` then loads a whole
    payload or none, and this one moves on a single bit. The payload comes through a multiplexer,
    whose selection drives all of it; but for a few bits, maybe, which come straight from registers.

    Latency: 1 cycle. Throughput: a transfer per cycle. Resources: two payload registers.

    Parameters
    ----------
    shape
        Shape of the payload.
    decisive
        The part of a payload that the sink decides by, early in its cycle; none if not given.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`
    """

    def __init__(self, shape: ShapeLike, decisive: Callable[[Any], Value] | None = None) -> None:
        self._decisive = decisive
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        entries = [
            Signal.like(self.o.payload, name=f"entry_{k}", reset_less=True) for k in range(2)
        ]
        valid = Signal(2)
        writes_second = Signal()
        reads_second = Signal()
        m.d.comb += [
            self.i.ready.eq(~valid.all()),
            self.o.valid.eq(valid.any()),
            self.o.payload.eq(Mux(reads_second, entries[1], entries[0])),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                valid.bit_select(reads_second, 1).eq(0),
                reads_second.eq(~reads_second),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                valid.bit_select(writes_second, 1).eq(1),
                writes_second.eq(~writes_second),
            ]
            for k, entry in enumerate(entries):
                with m.If(writes_second == k):
                    m.d.sync += entry.eq(self.i.payload)
        if self._decisive is not None:
            part = self._decisive(self.i.payload)
            m.submodules.straight = straight = SkidBuffer(part.shape())
            m.d.comb += [
                straight.i.valid.eq(self.i.valid & self.i.ready),
                straight.i.payload.eq(part),
                straight.o.ready.eq(self.o.valid & self.o.ready),
                self._decisive(self.o.payload).eq(straight.o.payload),
            ]
            m.d.sync += Assert(straight.o.valid == self.o.valid)
        return m


class HalfRateRegister(wiring.Component):
    """A one-entry buffer that cuts every combinational path, as it is not ready while it is full.

    Latency: 1 cycle. Throughput: a transfer per 2 cycles. Resources: a payload register.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        held = Signal.like(self.o.payload, name="held", reset_less=True)
        held_valid = Signal()
        m.d.comb += [
            self.i.ready.eq(~held_valid),
            self.o.valid.eq(held_valid),
            self.o.payload.eq(held),
        ]
        with m.If(held_valid):
            m.d.sync += held_valid.eq(~self.o.ready)
        with m.Elif(self.i.valid):
            m.d.sync += [held_valid.eq(1), held.eq(self.i.payload)]
        return m


class PipelineControl(wiring.Component):
    """The valid bit of a pipeline register whose payload its user keeps.

    For payloads that do not load as one: lanes that load only what is not zero, counts that share
    their adders (as one bus they would be read where they are written, which linters take for a
    loop), the register in a memory's read port. Otherwise take a `PipelineRegister`.

    Latency: 1 cycle. Throughput: a transfer per cycle. Resources: a flip-flop.

    Members
    -------
    i_valid : `In(1)`
    i_ready : `Out(1)`
        Follows from `o_ready` and the valid bit alone.
    load : `Out(1)`
        The input fires: the payload is to be loaded with the clock edge.
    o_valid : `Out(1)`
    o_ready : `In(1)`
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "i_valid": In(1),
                "i_ready": Out(1),
                "load": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        held_valid = Signal()
        m.d.comb += [
            self.i_ready.eq(self.o_ready | ~held_valid),
            self.load.eq(self.i_valid & self.i_ready),
            self.o_valid.eq(held_valid),
        ]
        with m.If(self.i_ready):
            m.d.sync += held_valid.eq(self.i_valid)
        return m


class PipelineRegister(wiring.Component):
    """A one-entry buffer that cuts the paths of payload and valid, but not that of ready.

    Latency: 1 cycle. Throughput: a transfer per cycle. Resources: a payload register.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        held = Signal.like(self.o.payload, name="held", reset_less=True)
        held_valid = Signal()
        m.d.comb += [
            self.i.ready.eq(self.o.ready | ~held_valid),
            self.o.valid.eq(held_valid),
            self.o.payload.eq(held),
        ]
        with m.If(self.i.ready):
            m.d.sync += held_valid.eq(self.i.valid)
        with m.If(self.i.ready & self.i.valid):
            m.d.sync += held.eq(self.i.payload)
        return m


class LateValidRegister(wiring.Component):
    """A `PipelineRegister` for an input that knows late in the cycle whether it is valid.

    The payload is loaded whenever it may be valid, which is known earlier; so a wide register does
    not wait for valid, but one flip-flop. Meanwhile the output is not valid, and its payload is
    anything.

    Latency: 1 cycle. Throughput: a transfer per cycle. Resources: a payload register.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : `In(stream.Signature(shape))`
    i_maybe : `In(1)`
        The input may be valid in this cycle; if it is not set, it is not.
    o : `Out(stream.Signature(shape))`
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "i_maybe": In(1),
                "o": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        held = Signal.like(self.o.payload, name="held", reset_less=True)
        m.submodules.control = control = PipelineControl()
        m.d.comb += [
            control.i_valid.eq(self.i.valid),
            self.i.ready.eq(control.i_ready),
            self.o.valid.eq(control.o_valid),
            control.o_ready.eq(self.o.ready),
            self.o.payload.eq(held),
        ]
        with m.If(control.i_ready & self.i_maybe):
            m.d.sync += held.eq(self.i.payload)
        m.d.sync += Assert(self.i_maybe | ~self.i.valid)
        return m


class ReverseRegister(wiring.Component):
    """A one-entry buffer that cuts the path of ready, but not those of payload and valid.

    What the output does not take at once is kept, so that the input need not wait to be told. In
    front of a port, where the input comes straight from registers.

    Latency: 0 cycles. Throughput: a transfer per cycle. Resources: a payload register and as many
    multiplexers.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        spare = Signal.like(self.o.payload, name="spare", reset_less=True)
        spare_valid = Signal()
        m.d.comb += [
            self.i.ready.eq(~spare_valid),
            self.o.valid.eq(self.i.valid | spare_valid),
            self.o.payload.eq(Mux(spare_valid, spare, self.i.payload)),
        ]
        with m.If(self.o.ready):
            m.d.sync += spare_valid.eq(0)
        with m.Elif(self.i.valid & ~spare_valid):
            m.d.sync += [spare.eq(self.i.payload), spare_valid.eq(1)]
        return m


def registered(m: Module, source: stream.Interface, stages: int, *, name: str) -> stream.Interface:
    """A stream behind `stages` pipeline registers, `name_0` and so on; itself, if there are none.

    Parameters
    ----------
    source
        What it is taken from, as seen from inside `m`.
    """
    for stage in range(stages):
        m.submodules[f"{name}_{stage}"] = register = PipelineRegister(source.payload.shape())
        wiring.connect(m, source, register.i)
        source = register.o
    return source
