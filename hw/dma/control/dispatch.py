"""Dispatch of descriptors to the two paths, and the record of those that are outstanding."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import (
    DETAIL_BITS,
    DEVICE_ADDRESS_BITS,
    HOST_ADDRESS_BITS,
    CheckedDescriptor,
    Flag,
    Opcode,
    Status,
)
from cdma.hw.dma.control.each_ring import each_ring, of_ring
from cdma.hw.dma.payloads import InJob, OutJob
from cdma.hw.lib.pipeline import HalfRateRegister

CYCLE_BITS = 48
"""Width of the engine's clock, in cycles."""


class Way(enum.Enum, shape=2):  # type: ignore[call-arg]
    """The direction of a descriptor's data."""

    NONE = 0
    """It moves nothing, or was rejected."""
    OUT = 1
    IN = 2


class StartedDescriptor(data.StructLayout):
    """The fields of a descriptor that its record needs.

    Members
    -------
    way
    status, detail
        The outcome, if it moves nothing.
    codec, parameters
        Index among the configuration's codecs, and the descriptor's parameters for it.
    flags, tag, record, index
        The descriptor's, and its free-running number.
    length, capacity, crc32
        The descriptor's.
    src
        The descriptor's, in device memory, to find out which beat the bus answered with an error.
    dst
        The descriptor's, in host memory, to find out how much of it was written.
    started
        The cycle in which it arrived.
    ring
        The number of its ring; no bits if there is one.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {
                "way": Way,
                "status": 8,
                "detail": DETAIL_BITS,
                "codec": range(len(config.codecs)),
                "parameters": config.codec.parameter_bits,
                "flags": 8,
                "tag": 32,
                "record": HOST_ADDRESS_BITS,
                "index": 16,
                "length": LENGTH_BITS,
                "capacity": OFFSET_BITS,
                "crc32": 32,
                "src": DEVICE_ADDRESS_BITS,
                "dst": HOST_ADDRESS_BITS,
                "started": CYCLE_BITS,
                "ring": range(config.rings),
            }
        )


class Dispatcher(wiring.Component):
    """Starts descriptors in their order, without waiting for those before.

    Descriptors of both directions are outstanding at once. A fence is stalled until everything
    before it has its record. Behind a descriptor that is verified, no inbound one starts until it
    has ended, since verification needs the inbound path too. While their ring aborts, descriptors
    end unstarted.

    Latency: 1 cycle. Throughput: a descriptor per 2 cycles.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    i : `In(stream.Signature(CheckedDescriptor(config.rings)))`
    started : `Out(stream.Signature(StartedDescriptor(config)))`
        Each descriptor, in order.
    job_out : `Out(stream.Signature(OutJob(config)))`
    job_in : `Out(stream.Signature(InJob(config)))`
    all_retired : `In(1)`
        All descriptors that were started have their records. With several rings no fence comes
        here before that, and this must be high.
    verified : `In(1)`
        A descriptor that was to be verified has ended.
    abort : `In(each_ring(1, config.rings))`
    now : `In(48)`
        The engine's clock.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(CheckedDescriptor(config.rings))),
                "started": Out(stream.Signature(StartedDescriptor(config))),
                "job_out": Out(stream.Signature(OutJob(config))),
                "job_in": Out(stream.Signature(InJob(config))),
                "all_retired": In(1),
                "verified": In(1),
                "abort": In(each_ring(1, config.rings)),
                "now": In(CYCLE_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        codec = self.config.codec
        m.submodules.starts = starts = HalfRateRegister(StartedDescriptor(self.config))
        m.submodules.outs = outs = HalfRateRegister(OutJob(self.config))
        m.submodules.ins = ins = HalfRateRegister(InJob(self.config))
        wiring.connect(m, starts.o, wiring.flipped(self.started))
        wiring.connect(m, outs.o, wiring.flipped(self.job_out))
        wiring.connect(m, ins.o, wiring.flipped(self.job_in))

        d = self.i.payload.descriptor
        ring = self.i.payload.ring
        abort = of_ring(self.abort, ring)
        is_valid = Signal()
        fence = Signal()
        outward = Signal()
        inward = Signal()
        copied = Signal()
        index = Signal(range(len(codec.codecs)))
        m.d.comb += [
            is_valid.eq((self.i.payload.status == Status.OK) & ~abort),
            fence.eq(d.opcode == Opcode.FENCE),
            outward.eq(
                is_valid & ((d.opcode == Opcode.COMPRESS_OUT) | (d.opcode == Opcode.COPY_OUT))
            ),
            inward.eq(
                is_valid & ((d.opcode == Opcode.DECOMPRESS_IN) | (d.opcode == Opcode.COPY_IN))
            ),
            copied.eq((d.opcode == Opcode.COPY_OUT) | (d.opcode == Opcode.COPY_IN)),
        ]
        for i, entry in enumerate(codec.entries):
            selected = copied if entry.number is None else ~copied & (d.codec == entry.number)
            # The checker has rejected all other numbers.
            with m.If(selected if i else 1):
                m.d.comb += index.eq(i)

        verifying = Signal(range(16))
        blocked = Signal()
        m.d.comb += blocked.eq((is_valid & fence & ~self.all_retired) | (inward & (verifying != 0)))

        # All registers must be free, so that nothing is dispatched twice.
        start_fire = Signal()
        m.d.comb += [
            start_fire.eq(
                self.i.valid
                & ~blocked
                & starts.i.ready
                & (~outward | outs.i.ready)
                & (~inward | ins.i.ready)
                & (verifying != 15)
            ),
            self.i.ready.eq(start_fire),
            starts.i.valid.eq(start_fire),
            outs.i.valid.eq(start_fire & outward),
            ins.i.valid.eq(start_fire & inward),
        ]
        m.d.sync += verifying.eq(
            verifying + (start_fire & outward & (d.flags & Flag.VERIFY).any()) - self.verified
        )

        # More than a stream's worst case is too much in any case, and need not be read to its end.
        most = self.i.payload.worst_length
        capacity = Signal(OFFSET_BITS)
        largest = (1 << OFFSET_BITS) - 1
        m.d.comb += [
            capacity.eq(Mux(d.dst_capacity > largest, largest, d.dst_capacity)),
            starts.i.payload.way.eq(Mux(outward, Way.OUT, Mux(inward, Way.IN, Way.NONE))),
            starts.i.payload.status.eq(
                Mux(
                    (self.i.payload.status == Status.OK) & abort,
                    Status.ABORTED,
                    self.i.payload.status,
                )
            ),
            starts.i.payload.detail.eq(self.i.payload.detail),
            starts.i.payload.codec.eq(index),
            starts.i.payload.parameters.eq(d.parameters),
            starts.i.payload.flags.eq(d.flags),
            starts.i.payload.tag.eq(d.tag),
            starts.i.payload.record.eq(d.record),
            starts.i.payload.index.eq(self.i.payload.index),
            starts.i.payload.length.eq(d.length),
            starts.i.payload.capacity.eq(capacity),
            starts.i.payload.crc32.eq(d.crc32),
            starts.i.payload.src.eq(d.src[:DEVICE_ADDRESS_BITS]),
            starts.i.payload.dst.eq(d.dst),
            starts.i.payload.started.eq(self.now),
            starts.i.payload.ring.eq(ring),
            outs.i.payload.src.eq(d.src[:DEVICE_ADDRESS_BITS]),
            outs.i.payload.length.eq(d.length),
            outs.i.payload.dst.eq(d.dst),
            outs.i.payload.capacity.eq(capacity),
            outs.i.payload.codec.eq(index),
            outs.i.payload.parameters.eq(d.parameters),
            outs.i.payload.throttle_class.eq((d.flags & Flag.THROTTLE_CLASS).any()),
            outs.i.payload.ring.eq(ring),
            ins.i.payload.src.eq(d.src),
            ins.i.payload.src_length.eq(
                Mux(copied, d.length, Mux(d.src_length > most, most, d.src_length))
            ),
            ins.i.payload.dst.eq(d.dst[:DEVICE_ADDRESS_BITS]),
            ins.i.payload.length.eq(d.length),
            ins.i.payload.capacity.eq(capacity),
            ins.i.payload.codec.eq(index),
            ins.i.payload.parameters.eq(d.parameters),
            ins.i.payload.ring.eq(ring),
        ]
        return m
