"""One component in simulation: its streams driven and collected, cycle by cycle.

    bench = Bench(component)
    source = bench.source(component.i, payloads, willing=stalls(0.5, seed=1))
    sink = bench.sink(component.o, len(payloads))
    bench.run()

A transfer's cycle is the clock edge at which valid and ready are both high, counted from 0, so that
the difference of an output's and an input's cycle is the latency in cycles.
"""

import os
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, ClockDomain, Module, Value
from amaranth.lib import data

from tests.lib.simulator import Simulator

Willing = Callable[[int], bool]

HANG_CYCLES = 300
SETTLE_CYCLES = 12


async def offer(ctx: Any, given: Sequence[tuple[Any, list[Any]]]) -> None:
    """Offer the first item of each list at its stream, and drop those that the next edge takes.

    For benches that drive a component by hand; behind it, outputs are those before that edge.
    """
    for stream, items in given:
        ctx.set(stream.valid, bool(items))
        if items:
            ctx.set(stream.payload, items[0])
    await ctx.delay(1e-10)
    for stream, items in given:
        if items and ctx.get(stream.ready):
            items.pop(0)


def always(cycle: int) -> bool:
    return True


def stalls(probability: float, seed: int) -> Willing:
    """Unwilling in cycles drawn at random, in runs of mixed length."""
    generator = random.Random(seed)
    run = 0

    def willing(cycle: int) -> bool:
        nonlocal run
        if run:
            run -= 1
            return False
        if generator.random() < probability:
            run = generator.choice((0, 0, 0, 1, 2, 9))
            return False
        return True

    return willing


def from_cycle(first: int) -> Willing:
    return lambda cycle: cycle >= first


def every(period: int) -> Willing:
    return lambda cycle: cycle % period == 0


STALLS = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.4)]
"""Probabilities with which the source and the sink are unwilling."""


def bits(shape: Any, payload: Any) -> int:
    """A payload, given as a dict or an integer, as the integer on the wires."""
    if isinstance(shape, data.Layout):
        return shape.const(payload).as_bits()
    return int(payload)


def fields(shape: Any, value: int) -> Any:
    """The integer on the wires as a dict of its fields, to compare and to read."""
    if not isinstance(shape, data.Layout):
        return value
    const = shape.from_bits(value)
    if isinstance(shape, data.ArrayLayout):
        return [_plain(const[i]) for i in range(shape.length)]
    return {name: _plain(const[name]) for name, _ in shape}


def _plain(value: Any) -> Any:
    if isinstance(value, data.Const):
        return fields(value.shape(), value.as_bits())
    return value


@dataclass(frozen=True)
class FlatPort:
    """Flat ports, seen as a stream."""

    valid: Any
    ready: Any
    payload: Any

    @classmethod
    def axis(cls, port: Any) -> "FlatPort":
        return cls(port.tvalid, port.tready, _joined(port, ["tdata", "tkeep", "tlast"]))

    @classmethod
    def record(cls, port: Any) -> "FlatPort":
        names = [name for name in port.signature.members if name not in ("valid", "ready")]
        return cls(port.valid, port.ready, _joined(port, names))


def wires_of(port: Any) -> tuple[Value, Value, Value]:
    """A stream's valid, ready and payload: looking them up in each cycle takes long."""
    return Value.cast(port.valid), Value.cast(port.ready), Value.cast(port.payload)


def _joined(port: Any, names: list[str]) -> data.View:
    parts = {name: getattr(port, name) for name in names}
    layout = data.StructLayout({name: len(part) for name, part in parts.items()})
    return data.View(layout, Cat(parts.values()))


@dataclass
class Source:
    """Driver of a stream; `cycles[i]` is the cycle in which payload i was transferred."""

    port: Any
    payloads: list[int]
    willing: Willing
    garbage: random.Random
    cycles: list[int] = field(default_factory=list)
    offering: bool = False

    def __post_init__(self) -> None:
        self.wires = wires_of(self.port)
        self._width = len(self.wires[2])

    def drive(self, ctx: Any, cycle: int) -> None:
        if self.done:
            self.offering = False
        elif not self.offering:
            self.offering = self.willing(cycle)
        # What stands on the wires while valid is low must not matter.
        payload = (
            self.payloads[len(self.cycles)]
            if self.offering
            else self.garbage.getrandbits(self._width)
        )
        valid, _, wires = self.wires
        ctx.set(valid, int(self.offering))
        ctx.set(wires, payload)

    def observe(self, cycle: int, valid: int, ready: int, payload: int) -> bool:
        if valid and ready:
            self.cycles.append(cycle)
            self.offering = False
        return bool(valid and ready)

    @property
    def done(self) -> bool:
        return len(self.cycles) == len(self.payloads)


@dataclass
class Sink:
    """Receiver of a stream; `cycles[i]` is the cycle in which `received[i]` was transferred.

    It checks the rules of streams: a valid payload neither changes nor is withdrawn.
    """

    port: Any
    count: int
    willing: Willing
    received: list[int] = field(default_factory=list)
    cycles: list[int] = field(default_factory=list)
    standing: int | None = None

    def __post_init__(self) -> None:
        self.wires = wires_of(self.port)

    def drive(self, ctx: Any, cycle: int) -> None:
        ctx.set(self.wires[1], int(self.done or self.willing(cycle)))

    def observe(self, cycle: int, valid: int, ready: int, payload: int) -> bool:
        if self.standing is not None:
            assert valid, f"cycle {cycle}: valid was withdrawn"
            assert payload == self.standing, f"cycle {cycle}: the payload changed while valid"
        self.standing = payload if valid and not ready else None
        if valid and ready:
            assert not self.done, f"cycle {cycle}: more than {self.count} transfers came out"
            self.received.append(payload)
            self.cycles.append(cycle)
        return bool(valid and ready)

    @property
    def done(self) -> bool:
        return len(self.received) == self.count

    @property
    def payloads(self) -> list[Any]:
        """As dicts, or integers for plain payloads."""
        return [fields(self.port.payload.shape(), value) for value in self.received]

    def assert_received(self, expected: Sequence[Any]) -> None:
        shape = self.port.payload.shape()
        for index, (got, want) in enumerate(zip(self.received, expected, strict=True)):
            if got != bits(shape, want):
                assert fields(shape, got) == fields(shape, bits(shape, want)), f"transfer {index}"


class Bench:
    """A component with its sources and sinks. Can run again and again, each time from reset: most
    of a short simulation's time goes into preparing it.
    """

    def __init__(self, component: Any) -> None:
        self.component = component
        self.ends: list[Source | Sink] = []
        self._took = 0
        self._runs = 0
        self._simulator: Simulator | None = None

    def source(self, port: Any, payloads: Sequence[Any], *, willing: Willing = always) -> Source:
        shape = port.payload.shape()
        source = Source(
            port, [bits(shape, p) for p in payloads], willing, random.Random(len(self.ends))
        )
        self.ends.append(source)
        return source

    def sink(self, port: Any, count: int, *, willing: Willing = always) -> Sink:
        sink = Sink(port, count, willing)
        self.ends.append(sink)
        return sink

    def run(self) -> int:
        """Run until all is sent and received, and a little longer; gives the cycles taken.

        Raises `AssertionError` when nothing moves for a long time, when more comes out than was
        expected, or when the component's own assertions fail.
        """
        if self._simulator is None:
            m = Module()
            # Not every component has a clock of its own.
            m.domains.sync = ClockDomain()
            m.submodules.component = self.component
            self._simulator = Simulator(m)
            self._simulator.add_clock(1e-9)
            self._simulator.add_testbench(self._clock)
        else:
            self._simulator.reset()
        try:
            with self._waves():
                self._simulator.run()
        finally:
            self.ends = []
        return self._took

    def _waves(self) -> AbstractContextManager[Any]:
        """With WAVES in the environment, each run writes a file of its own."""
        if not os.environ.get("WAVES"):
            return nullcontext()
        folder = Path("build/waves")
        folder.mkdir(parents=True, exist_ok=True)
        test = os.environ.get("PYTEST_CURRENT_TEST", "bench").split("::")[-1].split(" ")[0]
        self._runs += 1
        assert self._simulator is not None
        return self._simulator.write_vcd(str(folder / f"{test}-{self._runs}.vcd"))

    async def _clock(self, ctx: Any) -> None:
        moved = cycle = 0
        wires = [wire for end in self.ends for wire in end.wires]
        edge = ctx.tick().sample(*wires)
        while cycle - moved < SETTLE_CYCLES or not all(end.done for end in self.ends):
            assert cycle - moved < HANG_CYCLES, f"nothing has moved since cycle {moved}"
            for end in self.ends:
                end.drive(ctx, cycle)
            _, _, *values = await edge
            for k, end in enumerate(self.ends):
                if end.observe(cycle, *values[3 * k : 3 * k + 3]):
                    moved = cycle
            cycle += 1
        self._took = moved + 1


def assert_no_bubble(cycles: Sequence[int]) -> None:
    """Transfers in consecutive cycles."""
    gaps = [i for i in range(1, len(cycles)) if cycles[i] != cycles[i - 1] + 1]
    assert not gaps, f"bubbles before transfers {gaps} of {len(cycles)}"
