"""The simulator: clocks, testbenches and time."""

import inspect
import operator
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from amaranth.hdl import (
    ClockDomain,
    Const,
    Fragment,
    MemoryData,
    ShapeCastable,
    Signal,
    Value,
    ValueCastable,
)
from amaranth.hdl._ast import Concat, Operator, Slice
from amaranth.hdl._ir import DriverConflict
from amaranth.sim import DomainReset
from amaranth.sim._pyeval import eval_value

from tests.lib.simulator.design import Design
from tests.lib.simulator.python_code import ones

FEMTOS = 1e15


class Tick:
    """The next edge of a clock, and what to sample just before it."""

    __slots__ = ("domain", "sampled")

    def __init__(self, domain: str, sampled: tuple[Any, ...] = ()) -> None:
        self.domain = domain
        self.sampled = sampled

    def sample(self, *values: Any) -> "Tick":
        return Tick(self.domain, (*self.sampled, *values))

    def __await__(self) -> Generator["Tick", tuple[Any, ...], tuple[Any, ...]]:
        return (yield self)

    async def __aiter__(self) -> AsyncIterator[tuple[Any, ...]]:
        while True:
            yield await self

    async def repeat(self, count: int) -> tuple[Any, ...]:
        count = operator.index(count)
        if count < 1:
            raise ValueError(f"Repeat count must be a positive integer, not {count!r}")
        values: list[Any] = []
        for _ in range(count):
            _, reset, *values = await self
            if reset:
                raise DomainReset
        return tuple(values)

    async def until(self, condition: Any) -> tuple[Any, ...]:
        trigger = self.sample(condition)
        while True:
            _, reset, *values, done = await trigger
            if reset:
                raise DomainReset
            if done:
                return tuple(values)


class Delay:
    """Some time from now."""

    __slots__ = ("femtos",)

    def __init__(self, seconds: float) -> None:
        self.femtos = round(seconds * FEMTOS)

    def __await__(self) -> Generator["Delay", tuple[Any, ...], tuple[Any, ...]]:
        return (yield self)


class Context:
    """The simulation as a testbench sees it."""

    def __init__(self, simulator: "Simulator") -> None:
        self._simulator = simulator
        self.get = simulator.get
        self.set = simulator.set
        self._ticks: dict[str, Tick] = {}

    def tick(self, domain: str = "sync") -> Tick:
        if domain not in self._ticks:
            self._ticks[domain] = Tick(self._simulator.resolve(domain))
        return self._ticks[domain]

    def delay(self, seconds: float) -> Delay:
        return Delay(seconds)


class Testbench:
    """A running coroutine; `answer` is what it is resumed with."""

    __test__ = False

    def __init__(self, simulator: "Simulator", constructor: Callable[..., Any], background: bool):
        self.simulator = simulator
        self.constructor = constructor
        self.background = background
        self.reset()

    def reset(self) -> None:
        self.critical = not self.background
        self.coroutine = self.constructor(Context(self.simulator))
        self.runnable = True
        self.answer: tuple[Any, ...] | None = None

    def run(self) -> None:
        self.runnable = False
        try:
            trigger = self.coroutine.send(self.answer)
        except StopIteration:
            self.critical = False
            return
        if type(trigger) is Tick:
            self.simulator.on_edge[trigger.domain].append((self, trigger.sampled))
        else:
            due = self.simulator.now + trigger.femtos
            self.simulator.delayed.append((due, self))


class Clock:
    def __init__(self, domain: str, index: int, phase: int, period: int) -> None:
        self.domain, self.index, self.phase, self.half = domain, index, phase, period // 2
        self.reset()

    def reset(self) -> None:
        self.due = self.phase


class Simulator:
    """The part of `amaranth.sim.Simulator` that the tests use."""

    def __init__(self, toplevel: Any) -> None:
        fragment = Fragment.get(toplevel, platform=None)
        fragment._propagate_domains(ClockDomain)
        self._domains = fragment.domains
        self._design = Design(fragment)
        self._clocks: list[Clock] = []
        self._testbenches: list[Testbench] = []
        self.on_edge: dict[str, list[tuple[Testbench, tuple[Any, ...]]]] = {}
        self.delayed: list[tuple[int, Testbench]] = []
        self._resets: dict[str, int | None] = {}
        self.now = 0

    def add_clock(self, period: float, *, domain: str = "sync") -> None:
        if domain not in self._domains:
            raise NameError(f"Domain {domain!r} is not present in simulation")
        if domain in self.on_edge:
            raise DriverConflict(f"Domain {domain!r} already has a clock driving it")
        found = self._domains[domain]
        index = self._design.index_of(found.clk)
        if self._design.drives(found.clk):
            raise DriverConflict("Clock signal is already driven by combinational logic")
        self._clocks.append(Clock(domain, index, int(period / 2 * FEMTOS), int(period * FEMTOS)))
        self.on_edge[domain] = []
        self._resets[domain] = None if found.rst is None else self._design.index_of(found.rst)

    def add_testbench(self, constructor: Any, *, background: bool = False) -> None:
        if not inspect.iscoroutinefunction(constructor):
            raise TypeError(f"a testbench is an async function, not {constructor!r}")
        self._testbenches.append(Testbench(self, constructor, background))

    def resolve(self, domain: str) -> str:
        if domain not in self.on_edge:
            raise NameError(f"Clock domain named {domain!r} does not exist")
        return domain

    def reset(self) -> None:
        self._design.reset()
        self.now = 0
        self.delayed.clear()
        for domain in self.on_edge:
            self.on_edge[domain].clear()
        for clock in self._clocks:
            clock.reset()
        for testbench in self._testbenches:
            testbench.reset()

    def run(self) -> None:
        """Until all testbenches are done that are not in the background."""
        self._run_testbenches()
        while any(testbench.critical for testbench in self._testbenches):
            self._advance()
            self._run_testbenches()

    def _run_testbenches(self) -> None:
        ran = True
        while ran:
            ran = False
            for testbench in self._testbenches:
                if testbench.runnable:
                    testbench.run()
                    ran = True
        self._settle()

    def _settle(self) -> None:
        design = self._design
        if 1 in design.dirty or 1 in design.dirty_checks:
            design.settle()

    def _advance(self) -> None:
        """To the next edge or end of a delay."""
        dues = [clock.due for clock in self._clocks] + [due for due, _ in self.delayed]
        if not dues:
            raise RuntimeError("nothing is left to wait for")
        self.now = min(dues)
        design = self._design
        rising = []
        for clock in self._clocks:
            if clock.due == self.now:
                clock.due += clock.half
                level = 1 - design.values[clock.index]
                if level:
                    rising.append(clock.domain)
                design.update(clock.index, level)
        if self.delayed:
            for due, testbench in self.delayed:
                if due == self.now:
                    testbench.runnable, testbench.answer = True, (True,)
            self.delayed = [item for item in self.delayed if item[0] != self.now]
        for domain in rising:
            waiting = self.on_edge[domain]
            self.on_edge[domain] = []
            reset = self._resets[domain]
            for testbench, sampled in waiting:
                testbench.runnable = True
                testbench.answer = (
                    True,
                    reset is not None and bool(design.values[reset]),
                    *[self.get(value) for value in sampled],
                )
        if rising:
            design.edge(domain for domain in rising if domain in design.edges)
        self._settle()

    # What testbenches read and change.

    def get(self, expression: Any) -> Any:
        self._settle()
        if type(expression) is Signal:
            return int(self._design.values[self._design.index_of(expression)])
        value = self._value(Value.cast(expression))
        if isinstance(expression, ValueCastable):
            shape = expression.shape()
            if isinstance(shape, ShapeCastable):
                return shape.from_bits(value)
        return value

    def _value(self, value: Value) -> int:
        kind = type(value)
        if kind is Signal:
            return int(self._design.values[self._design.index_of(value)])
        if kind is Slice:
            return self._value(value.value) >> value.start & ones(value.stop - value.start)
        if kind is Const:
            return value.value
        if kind is Concat:
            result = offset = 0
            for part in value.parts:
                width = len(part)
                result |= (self._value(part) & ones(width)) << offset
                offset += width
            return result
        return eval_value(_State(self._design), value)

    def set(self, expression: Any, value: Any) -> None:
        if isinstance(expression, ValueCastable):
            shape = expression.shape()
            if isinstance(shape, ShapeCastable):
                value = shape.const(value)
        bits = value if type(value) is int else Const.cast(value).value
        target = Value.cast(expression)
        self._assign(target, bits)

    def _assign(self, target: Value, bits: int) -> None:
        kind = type(target)
        if kind is Signal:
            index = self._design.index_of(target)
            if self._design.drives(target):
                raise DriverConflict(
                    "Combinationally driven signals cannot be overriden by testbenches"
                )
            width = len(target)
            bits &= ones(width)
            if target.shape().signed and bits >> (width - 1):
                bits -= 1 << width
            self._design.update(index, bits)
        elif kind is Concat:
            for part in target.parts:
                self._assign(part, bits)
                bits >>= len(part)
        elif kind is Slice:
            size = ones(target.stop - target.start)
            kept = self._value(target.value) & ~(size << target.start)
            self._assign(target.value, kept | (bits & size) << target.start)
        elif kind is Operator and target.operator in ("u", "s"):
            self._assign(target.operands[0], bits)
        elif kind is MemoryData._Row:
            memory = self._design.memory_of(target._memory)
            self._design.write(memory, target._index, bits & ones(len(target)))
        else:
            raise TypeError(f"{target!r} cannot be set")


class _Row:
    def __init__(self, rows: list[int]) -> None:
        self.read = rows.__getitem__


class _Slot:
    def __init__(self, curr: int) -> None:
        self.curr = curr


class _State:
    """A design as `amaranth.sim` looks at it, for expressions that are rarely read."""

    def __init__(self, design: Design) -> None:
        self.get_signal = design.index_of
        self.get_memory = lambda memory: ~design.memory_of(memory)
        self.slots = self
        self._design = design

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            return _Row(self._design.rows[~index])
        return _Slot(int(self._design.values[index]))
