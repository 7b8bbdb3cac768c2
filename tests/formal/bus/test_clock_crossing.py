"""An AXI4 port's way to another clock: the rules of the pins, at all ratios and phases.

That a queue between two clocks loses and changes nothing is proven of `AsyncFifo`, at the depths
that are taken here. So its memories may give any words, and its registers may be in any state.
"""

from types import SimpleNamespace

import pytest
from amaranth.hdl import Cat, DomainRenamer, Module, Signal, Value
from amaranth.hdl._ast import AnySeq

from cdma.hw.bus.clock_crossing import Axi4ClockCrossing
from cdma.hw.config import PRESETS, EngineConfig
from cdma.hw.lib.clocks import async_fifo
from cdma.hw.lib.clocks.two_clock_ram import TwoClockRam
from tests.formal.bench import Bench, Inside
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.clocks import TwoClocks
from tests.formal.engines import engine_of
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

MANAGER, BUS = "manager", "bus"
SOURCES = {"aw": MANAGER, "w": MANAGER, "ar": MANAGER, "b": BUS, "r": BUS}
"""For each channel: the side that it comes from."""
SINKS = {"aw": BUS, "w": BUS, "ar": BUS, "b": MANAGER, "r": MANAGER}
OPEN_BITS = 6
"""Of the number of bursts whose address is offered and whose last beat is not taken."""


class FreeRam(TwoClockRam):
    """A memory that gives any word, and keeps it until it is read again."""

    def elaborate(self, platform) -> Module:
        m = Module()
        with m.If(self.read_enable):
            m.d[self.read_domain] += self.read_data.eq(AnySeq(self.width))
        return m


@pytest.fixture(autouse=True)
def _memories_are_free(monkeypatch):
    monkeypatch.setattr(async_fifo, "TwoClockRam", FreeRam)


def crossing_of(config: EngineConfig, *, stages: int = async_fifo.STAGES) -> Axi4ClockCrossing:
    return Axi4ClockCrossing(
        config.host_bytes,
        config.host_address_bits,
        config.host_id_bits,
        config.stream_id_bits,
        domain=BUS,
        stages=stages,
    )


def pins_of(axi: SimpleNamespace, channel: str) -> tuple[Value, Value, Value]:
    """A channel's VALID and READY, and all else that it carries."""
    prefixed = [name for name in axi.signature.members if name.startswith(channel)]
    handshake = [f"{channel}valid", f"{channel}ready"]
    payload = Cat(getattr(axi, name) for name in prefixed if name not in handshake)
    valid, ready = (getattr(axi, name) for name in handshake)
    return valid, ready, payload


def crossing_bench(config: EngineConfig, *, stages: int = async_fifo.STAGES) -> Bench:
    """Anything at the pins that come in, rules or not, and any resets of either side."""
    bench = Bench()
    m = bench.m
    clocks = TwoClocks(bench, MANAGER, BUS)
    crossing = crossing_of(config, stages=stages)
    inside = clocks.add(DomainRenamer({"sync": MANAGER})(crossing))
    m.d.comb += [reset.eq(AnySeq(1)) for reset in clocks.resets.values()]
    ports = {MANAGER: crossing.s_axi, BUS: crossing.m_axi}
    offers = {}
    for channel, source in SOURCES.items():
        sink = SINKS[channel]
        valid, ready, payload = pins_of(ports[source], channel)
        m.d.comb += [valid.eq(AnySeq(1)), payload.eq(AnySeq(len(payload)))]
        fifo = inside.component(channel)
        # What comes in is what the queue takes, and no pin follows from another one.
        bench.require(
            fifo.i.valid == valid,
            ready == fifo.i.ready,
            Value.cast(fifo.i.payload) == payload,
        )
        offers[channel] = _watch(bench, clocks, inside, ports[sink], channel)
        bench.cover(valid & ready & clocks.ticks[source])
    _count_open(bench, clocks, inside, offers, crossing)
    return bench


def _watch(
    bench: Bench, clocks: TwoClocks, inside: Inside, axi: SimpleNamespace, channel: str
) -> SimpleNamespace:
    """Take from a channel at any tick; what it offers stays until then, or until a reset."""
    m, domain = bench.m, SINKS[channel]
    valid, ready, payload = pins_of(axi, channel)
    fifo, tick, reset = inside.component(channel), clocks.ticks[domain], clocks.resets[domain]
    waiting = Signal(name=f"{channel}_waiting")
    offered = Signal(len(payload), name=f"{channel}_was_offered")
    fire = Signal(name=f"{channel}_fire")
    m.d.comb += [ready.eq(AnySeq(1)), fire.eq(valid & ready & tick)]
    m.d.sync += [waiting.eq(valid & ~fire), offered.eq(payload)]
    bench.require(~(reset & valid))
    bench.implies(waiting & ~reset, valid, payload == offered)
    # What goes out is what the queue gives, once.
    bench.implies(valid, fifo.o.valid)
    bench.implies(~reset, fire == (fifo.o.valid & fifo.o.ready & tick))
    bench.require(payload == Value.cast(fifo.o.payload))
    bench.cover(waiting & fire)
    return SimpleNamespace(valid=valid, ready=ready, fire=fire)


def _count_open(
    bench: Bench,
    clocks: TwoClocks,
    inside: Inside,
    offers: dict[str, SimpleNamespace],
    crossing: Axi4ClockCrossing,
) -> None:
    """State that no beat is offered before its burst's address is."""
    m, tick = bench.m, clocks.ticks[BUS]
    address, beat, last = offers["aw"], offers["w"], crossing.m_axi.wlast
    open_bursts = Signal(OPEN_BITS)
    is_known = Signal()
    with m.If(tick):
        m.d[BUS] += [
            is_known.eq(address.valid & ~address.ready),
            open_bursts.eq(open_bursts + (address.valid & ~is_known) - (beat.fire & last)),
        ]
    bench.require(inside["is_counted"] == is_known, inside["ahead"] == open_bursts)
    bench.implies(is_known, inside.component("aw").o.valid)
    bench.implies(beat.valid, open_bursts != 0)
    # Addresses wait for the bursts before them rather than that they are lost count of.
    bench.cover(beat.fire & last & (open_bursts == 2))


SHAPES = {
    **{f"{name}-host": (PRESETS[name], 2) for name in ("titanx_gen3", "v100_nvlink2", "tiny")},
    **{
        f"{width}-A{address_bits}-I{id_bits}-U{user_bits}-of-{stages}": (
            engine_of(
                width,
                host_address_bits=address_bits,
                host_id_bits=id_bits,
                stream_id_bits=user_bits,
            ),
            stages,
        )
        for width in (4, 32, 64, 128)
        for address_bits, id_bits, user_bits, stages in (
            (64, 2, 4, 2),
            (40, 4, 0, 3),
            (32, 16, 16, 2),
        )
    },
}
"""Engines, and the registers in a row that bring one side's state to the other."""


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_pins_keep_the_rules_of_axi(shape, tmp_path):
    config, stages = shape
    prove(crossing_bench(config, stages=stages), tmp_path, depth=2, cover_depth=24)


FAULTS = {
    "offers in reset": ("offered & ~ResetSignal(fifo.o_domain)", "offered"),
    "data before its address": ('"w", beats, bus, ahead != 0)', '"w", beats, bus)'),
    "loses count": ("is_counted | ~ahead.all()", "1"),
    "withdraws an address": ("is_counted | ~ahead.all()", "~ahead.all()"),
    "counts an address twice": ("(offered & ~is_counted)", "offered"),
    "takes what it does not offer": (
        *('(getattr(to, f"{channel}ready") & may_offer)', '(getattr(to, f"{channel}ready"))'),
    ),
    "another value": ("eq(fifo.o.payload[name])", "eq(~fifo.o.payload[name])"),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_a_crossing_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, Axi4ClockCrossing, *fault)
    find_fault(crossing_bench(PRESETS["tiny"]), tmp_path, depth=40)
