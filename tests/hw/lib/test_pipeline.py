"""The buffers between components: contract, latency and rate."""

import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import (
    HalfRateRegister,
    LateValidRegister,
    PingPongBuffer,
    PipelineControl,
    PipelineRegister,
    ReverseRegister,
    SkidBuffer,
)
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, from_cycle, stalls


class ControlledRegister(wiring.Component):
    """A register whose halves are kept outside, under a `PipelineControl`."""

    def __init__(self, bits):
        super().__init__({"i": In(stream.Signature(bits)), "o": Out(stream.Signature(bits))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = PipelineControl()
        half = len(self.i.payload) // 2
        low, high = Signal(half), Signal(len(self.i.payload) - half)
        m.d.comb += [
            control.i_valid.eq(self.i.valid),
            self.i.ready.eq(control.i_ready),
            self.o.valid.eq(control.o_valid),
            control.o_ready.eq(self.o.ready),
            self.o.payload[:half].eq(low),
            self.o.payload[half:].eq(high),
        ]
        with m.If(control.load):
            m.d.sync += [low.eq(self.i.payload[:half]), high.eq(self.i.payload[half:])]
        return m


def decided_by_low_bits(shape):
    return PingPongBuffer(shape, lambda payload: payload[:3])


class ExpectantRegister(wiring.Component):
    """A `LateValidRegister` that always expects an input: it loads what is not valid, too."""

    def __init__(self, bits):
        super().__init__({"i": In(stream.Signature(bits)), "o": Out(stream.Signature(bits))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.register = register = LateValidRegister(self.i.payload.shape())
        wiring.connect(m, wiring.flipped(self.i), register.i)
        wiring.connect(m, register.o, wiring.flipped(self.o))
        m.d.comb += register.i_maybe.eq(1)
        return m


BUFFERS = [
    SkidBuffer,
    PingPongBuffer,
    decided_by_low_bits,
    PipelineRegister,
    ControlledRegister,
    ExpectantRegister,
]


def payloads(count):
    choose = random.Random(1)
    return [choose.getrandbits(16) for _ in range(count)]


@pytest.fixture(scope="module", params=BUFFERS)
def bench(request):
    return Bench(request.param(16))


def transfer(bench, count, *, source=always, sink=always):
    values = payloads(count)
    given = bench.source(bench.component.i, values, willing=source)
    taken = bench.sink(bench.component.o, count, willing=sink)
    bench.run()
    assert taken.payloads == values
    return given, taken


def test_buffer_delays_by_one_cycle_at_full_rate(bench):
    given, taken = transfer(bench, 20)
    assert_no_bubble(given.cycles)
    assert taken.cycles == [cycle + 1 for cycle in given.cycles]


def test_half_rate_register_delays_by_one_cycle_and_takes_every_other():
    given, taken = transfer(Bench(HalfRateRegister(16)), 20)
    assert given.cycles == list(range(given.cycles[0], given.cycles[0] + 40, 2))
    assert taken.cycles == [cycle + 1 for cycle in given.cycles]


def test_reverse_register_passes_at_once_at_full_rate():
    given, taken = transfer(Bench(ReverseRegister(16)), 20)
    assert_no_bubble(given.cycles)
    assert taken.cycles == given.cycles


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_reverse_register_keeps_order_under_stalls(source, sink):
    transfer(Bench(ReverseRegister(16)), 100, source=stalls(source, 1), sink=stalls(sink, 2))


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_half_rate_register_keeps_order_under_stalls(source, sink):
    transfer(Bench(HalfRateRegister(16)), 100, source=stalls(source, 1), sink=stalls(sink, 2))


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_buffer_keeps_order_under_stalls(bench, source, sink):
    transfer(bench, 100, source=stalls(source, 1), sink=stalls(sink, 2))


def test_blocked_buffer_has_no_bubble_when_it_is_let_go(bench):
    _, taken = transfer(bench, 20, sink=from_cycle(9))
    assert taken.cycles == list(range(9, 29))


@pytest.mark.parametrize(
    ("buffer", "entries"),
    [
        (SkidBuffer, 2),
        (PingPongBuffer, 2),
        (PipelineRegister, 1),
        (ControlledRegister, 1),
        (ExpectantRegister, 1),
        (HalfRateRegister, 1),
        (ReverseRegister, 1),
    ],
)
def test_blocked_buffer_holds_its_entries(buffer, entries):
    given, _ = transfer(Bench(buffer(16)), 5, sink=from_cycle(30))
    assert sum(cycle < 30 for cycle in given.cycles) == entries


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_fork_gives_everything_once_to_every_output(outputs, source, sink):
    values = payloads(60)
    bench = Bench(Fork(16, outputs))
    given = bench.source(bench.component.i, values, willing=stalls(source, 1))
    sinks = [
        bench.sink(output, len(values), willing=stalls(sink, 2 + k))
        for k, output in enumerate(bench.component.o)
    ]
    bench.run()
    for taken in sinks:
        assert taken.payloads == values
    # The source is let go when the slowest output has taken it.
    assert given.cycles == [max(cycles) for cycles in zip(*(s.cycles for s in sinks), strict=True)]


def test_fork_passes_a_transfer_per_cycle_without_delay():
    values = payloads(10)
    bench = Bench(Fork(16, 2))
    given = bench.source(bench.component.i, values)
    sinks = [bench.sink(output, len(values)) for output in bench.component.o]
    bench.run()
    assert_no_bubble(given.cycles)
    assert all(taken.cycles == given.cycles for taken in sinks)
