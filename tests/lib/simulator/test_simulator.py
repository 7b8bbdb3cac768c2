"""The simulator of these tests against Amaranth's own."""

import random

import amaranth.sim
import pytest
from amaranth.hdl import (
    Array,
    Assert,
    Cat,
    ClockDomain,
    Module,
    Mux,
    ResetInserter,
    Signal,
    Value,
    signed,
    unsigned,
)
from amaranth.hdl._ir import DriverConflict
from amaranth.lib import data
from amaranth.lib.memory import Memory

from cdma.hw.codec.stream.status import ByteMeter
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.config import CodecConfig
from tests.lib.simulator.simulator import Simulator

BOTH = [Simulator, amaranth.sim.Simulator]
SHAPES = [unsigned(1), unsigned(3), unsigned(8), unsigned(40), signed(1), signed(4), signed(9)]


def expression(rng: random.Random, leaves: list[Value], depth: int) -> Value:
    def inner() -> Value:
        return expression(rng, leaves, depth - 1)

    if depth == 0:
        if rng.random() < 0.1:
            return Value.cast(rng.randrange(-9, 20))
        return rng.choice(leaves)
    match rng.randrange(16):
        case 0:
            return rng.choice([inner() + inner(), inner() - inner()])
        case 1:
            return inner() * inner()
        case 2:
            return rng.choice([inner() // inner(), inner() % inner()])
        case 3:
            return rng.choice([inner() & inner(), inner() | inner(), inner() ^ inner()])
        case 4:
            return rng.choice([inner() < inner(), inner() <= inner(), inner() > inner()])
        case 5:
            return rng.choice([inner() >= inner(), inner() == inner(), inner() != inner()])
        case 6:
            amount = inner()[:2]
            return rng.choice([inner() << amount, inner() >> amount])
        case 7:
            return rng.choice([~inner(), -inner(), +inner(), abs(inner())])
        case 8:
            value = inner()
            return rng.choice([value.any(), value.all(), value.xor(), value.bool()])
        case 9:
            return rng.choice([Cat(inner(), 1).as_signed(), inner().as_unsigned()])
        case 10:
            value = inner()
            stop = rng.randint(0, len(value))
            return value[rng.randint(0, stop) : stop]
        case 11:
            # Beyond a value that `as_signed` or `as_unsigned` gave, Amaranth's simulator (0.5.10)
            # finds other bits than its netlist has.
            value, offset = Cat(inner()), inner()[:4]
            width = rng.randint(1, 5)
            return rng.choice([value.bit_select(offset, width), value.word_select(offset, 3)])
        case 12:
            return Cat(inner(), inner(), inner())
        case 13:
            value, leaf = inner(), rng.choice(leaves)
            overlapping = Cat(value, leaf[: len(leaf) // 2 + 1], leaf, leaf[0])
            return rng.choice([value.replicate(3), overlapping.xor(), Cat(*value, 1)])
        case 14:
            return Mux(inner(), inner(), inner())
        case _:
            choices = rng.choice([[inner() for _ in range(rng.choice([3, 11]))], [3, 1, 4, 1, -5]])
            return Value.cast(Array(choices)[inner()[:4]])


def clipped(value: Value) -> Value:
    """Products of products grow wide."""
    return value if len(value) <= 64 else value[:64]


def assigned(rng: random.Random, target: Signal, leaves: list[Value]) -> list[object]:
    """Assignments to all or parts of a signal."""
    value = clipped(expression(rng, leaves, 2))
    half = len(target) // 2
    index = rng.choice(leaves)[:3]
    return [
        target.eq(value),
        rng.choice(
            [
                target[half:].eq(value),
                target.as_unsigned()[: half + 1].eq(value),
                target.bit_select(index, max(1, half)).eq(value),
                target[half:].bit_select(index, 2).eq(value),
                Cat(target[:half], target[half:]).eq(value),
                target.as_signed().eq(value),
                Value.cast(Array([target[:half], target[half:]])[index[:1]]).eq(value),
                Array([target, Signal(5)])[index[:1]][half:].eq(value),
            ]
        ),
    ]


def branches(m: Module, rng: random.Random, domain: str, targets, leaves) -> None:
    """The same signals, assigned in every sort of branch."""
    statements = [statement for target in targets for statement in assigned(rng, target, leaves)]
    half = len(statements) // 2
    match rng.randrange(3):
        case 0:
            with m.If(rng.choice(leaves).bool()):
                m.d[domain] += statements[:half]
            with m.Elif(expression(rng, leaves, 2).bool()):
                m.d[domain] += statements[half:]
            with m.Else():
                m.d[domain] += statements[1::2]
        case 1:
            with m.Switch(Cat(*(leaf[0] for leaf in leaves))[:4]):
                with m.Case("1--0", "0000"):
                    m.d[domain] += statements[::2]
                with m.Case(5, 7):
                    m.d[domain] += statements[half:]
                with m.Default():
                    m.d[domain] += statements[:half]
        case _:
            with m.Switch(Cat(*(leaf[0] for leaf in leaves))[:2]):
                for k in range(4):
                    with m.Case(k):
                        m.d[domain] += statements[k::4]
            m.d[domain] += statements[:1]


class Design:
    """Random logic between inputs and outputs, with registers and a memory."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.inputs = [Signal(shape, name=f"i{k}") for k, shape in enumerate(SHAPES)]
        self.reset = Signal()
        self.outputs = []
        m = Module()
        m.domains.sync = self.domain = ClockDomain()
        first = self._stage(m, rng, "comb", self.inputs)
        held = self._stage(m, rng, "sync", [*self.inputs, *first])
        inner = Module()
        later = self._stage(inner, rng, "comb", [*first, *held])
        kept = self._stage(inner, rng, "sync", later)
        m.submodules.inner = ResetInserter(self.reset)(inner)
        self._memory(m, [*later, *kept, *held])
        # Another fragment drives other bits of the same signal.
        m.d.comb += self.outputs[0].eq(self.outputs[1])
        self.module = m

    def _stage(self, m: Module, rng: random.Random, domain: str, leaves) -> list[Signal]:
        made = [Signal(shape, init=-1 if shape.signed else 1) for shape in SHAPES]
        for k in range(0, len(made), 2):
            branches(m, rng, domain, made[k : k + 2], leaves)
        last = Signal(8, reset_less=True)
        m.d[domain] += last.eq(clipped(expression(rng, leaves, 4)))
        self.outputs += [*made, last]
        return made

    def _memory(self, m: Module, wires: list[Signal]) -> None:
        m.submodules.memory = memory = Memory(shape=unsigned(8), depth=5, init=[1, 2, 3])
        write = memory.write_port(granularity=4)
        other = memory.write_port()
        free = memory.read_port(domain="comb")
        plain = memory.read_port()
        through = memory.read_port(transparent_for=(write, other))
        m.d.comb += [
            write.addr.eq(wires[1]),
            write.data.eq(wires[2]),
            write.en.eq(wires[3]),
            other.addr.eq(wires[1] + 1),
            other.data.eq(wires[3]),
            other.en.eq(wires[4]),
        ]
        for k, port in enumerate([free, plain, through]):
            m.d.comb += port.addr.eq(wires[k])
        m.d.comb += [plain.en.eq(wires[0][0]), through.en.eq(1)]
        self.outputs += [free.data, plain.data, through.data]


def trace(simulator_class, seed: int) -> list[list[int]]:
    """Every output in every cycle, before and after the edge."""
    rng = random.Random(seed)
    design = Design(seed)
    seen: list[list[int]] = []

    async def testbench(ctx):
        for _ in range(40):
            for wire in design.inputs:
                if rng.random() < 0.5:
                    ctx.set(wire, rng.getrandbits(len(wire)))
            ctx.set(design.reset, rng.random() < 0.1)
            ctx.set(design.domain.rst, rng.random() < 0.05)
            seen.append([ctx.get(output) for output in design.outputs])
            _, reset, *values = await ctx.tick().sample(*design.outputs)
            seen.append([reset, *values])

    simulator = simulator_class(design.module)
    simulator.add_clock(1e-9)
    simulator.add_testbench(testbench)
    simulator.run()
    # And again, from reset.
    rng.seed(seed)
    simulator.reset()
    simulator.run()
    return seen


@pytest.mark.parametrize("seed", range(12))
def test_random_designs_as_in_amaranths(seed):
    assert trace(Simulator, seed) == trace(amaranth.sim.Simulator, seed)


@pytest.mark.parametrize(
    "component",
    [lambda: ZvcCompressor(CodecConfig(sector_bytes=32)), lambda: ByteMeter(8)],
    ids=["zvc", "meter"],
)
def test_components_as_in_amaranths(component):
    """Streams that stall at random, bits that are not what the component expects."""
    traces = []
    for simulator_class in BOTH:
        rng = random.Random(1)
        made = component()
        seen: list[tuple[int, ...]] = []
        traces.append(seen)

        async def testbench(ctx, rng=rng, made=made, seen=seen):
            outputs = [made.i.ready, made.o.valid, Value.cast(made.o.payload)]
            payload = Value.cast(made.i.payload)
            for _ in range(150):
                ctx.set(made.i.valid, rng.random() < 0.7)
                ctx.set(payload, rng.getrandbits(len(payload)))
                ctx.set(made.o.ready, rng.random() < 0.7)
                _, _, *values = await ctx.tick().sample(*outputs)
                seen.append(tuple(values))

        run(simulator_class, made, testbench)
    assert traces[0] == traces[1]
    assert len(set(traces[0])) > 20


def run(simulator_class, module, *testbenches, background=()):
    simulator = simulator_class(module)
    simulator.add_clock(1e-9)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    for testbench in background:
        simulator.add_testbench(testbench, background=True)
    simulator.run()


class Counter:
    """Counts; `twice` follows combinationally."""

    def __init__(self) -> None:
        self.module = m = Module()
        m.domains.sync = self.domain = ClockDomain()
        self.step, self.count, self.twice = Signal(4, init=1), Signal(8), Signal(9)
        self.pair = Signal(data.StructLayout({"low": 4, "high": signed(4)}))
        m.d.comb += self.twice.eq(self.count << 1)
        m.d.sync += self.count.eq(self.count + self.step)
        m.d.sync += Assert(self.count != 99, "ninety-nine")
        m.d.comb += Assert(self.twice != 2 * 77)


@pytest.mark.parametrize("simulator_class", BOTH)
def test_samples_are_of_before_the_edge(simulator_class):
    dut = Counter()
    seen = []

    async def testbench(ctx):
        edge = await ctx.tick().sample(dut.count, dut.twice, dut.count == 0)
        seen.append((edge, ctx.get(dut.count), ctx.get(dut.twice)))
        ctx.set(dut.step, 5)
        seen.append(await ctx.tick().repeat(3))
        seen.append(await ctx.tick().sample(dut.count).repeat(1))
        seen.append(await ctx.tick().sample(dut.twice).until(dut.count >= 40))
        async for _, reset, count in ctx.tick().sample(dut.count):
            seen.append((reset, count))
            if count > 50:
                break

    run(simulator_class, dut.module, testbench)
    assert seen == [
        ((True, False, 0, 0, 1), 1, 2),
        (),
        (16,),
        (82,),
        (False, 46),
        (False, 51),
    ]


@pytest.mark.parametrize("simulator_class", BOTH)
def test_testbenches_in_the_order_they_were_added(simulator_class):
    dut = Counter()
    seen = []

    async def first(ctx):
        for _ in range(3):
            await ctx.tick()
            ctx.set(dut.step, 7)
            seen.append("first")

    async def second(ctx):
        for _ in range(3):
            await ctx.tick()
            seen.append(ctx.get(dut.step))
            await ctx.delay(1e-10)
            seen.append(ctx.get(dut.count))
            ctx.set(dut.step, 1)

    async def forever(ctx):
        while True:
            await ctx.tick()
            seen.append("background")

    run(simulator_class, dut.module, first, second, background=[forever])
    assert seen == [
        *("first", 7, "background", 1),
        *("first", 7, "background", 2),
        *("first", 7, "background", 3),
    ]


@pytest.mark.parametrize("simulator_class", BOTH)
def test_values_of_every_shape(simulator_class):
    dut = Counter()

    async def testbench(ctx):
        ctx.set(dut.pair, {"low": 3, "high": -2})
        assert ctx.get(dut.pair.high) == -2
        assert ctx.get(dut.pair).low == 3
        assert ctx.get(dut.pair) == dut.pair.shape().const({"low": 3, "high": -2})
        ctx.set(dut.pair.high, -8)
        ctx.set(dut.step[1:3], 3)
        assert ctx.get(Cat(dut.pair, dut.step)) == 0x783
        ctx.set(Cat(dut.step, dut.pair.low), 0x9F)
        assert (ctx.get(dut.step), ctx.get(dut.pair.low)) == (15, 9)
        ctx.set(dut.step, 0x101)
        assert ctx.get(dut.step) == 1
        _, _, pair = await ctx.tick().sample(dut.pair)
        assert pair.high == -8
        with pytest.raises(DriverConflict, match="Combinationally driven"):
            ctx.set(dut.twice, 1)

    run(simulator_class, dut.module, testbench)


@pytest.mark.parametrize("simulator_class", BOTH)
@pytest.mark.parametrize(("start", "message"), [(97, "ninety-nine"), (76, "Assertion violated")])
def test_assertions_fail(simulator_class, start, message):
    dut = Counter()
    cycles = 0

    async def testbench(ctx):
        nonlocal cycles
        ctx.set(dut.count, start)
        for cycles in range(10):  # noqa: B007
            await ctx.tick()

    with pytest.raises(AssertionError, match=message):
        run(simulator_class, dut.module, testbench)
    assert cycles == {97: 2, 76: 0}[start]


@pytest.mark.parametrize("simulator_class", BOTH)
def test_a_reset_ends_a_wait(simulator_class):
    dut = Counter()
    seen = []

    async def testbench(ctx):
        await ctx.tick().repeat(2)
        ctx.set(dut.domain.rst, 1)
        with pytest.raises(amaranth.sim.DomainReset):
            await ctx.tick().repeat(2)
        seen.append(ctx.get(dut.count))
        ctx.set(dut.domain.rst, 0)
        await ctx.tick()
        seen.append(ctx.get(dut.count))

    run(simulator_class, dut.module, testbench)
    assert seen == [0, 1]


@pytest.mark.parametrize("simulator_class", BOTH)
def test_copies_of_copies(simulator_class):
    m = Module()
    m.domains.sync = ClockDomain()
    source, near, far, half = Signal(4), Signal(4, init=3), Signal(4), Signal(4)
    narrow, held = Signal(3), Signal(4)
    inner = Module()
    inner.d.comb += [far.eq(near), half[:2].eq(near[:2])]
    inner.d.sync += held.eq(far)
    m.submodules.inner = inner
    m.d.comb += [near.eq(source), narrow.eq(source), half[2:].eq(far[2:])]

    async def testbench(ctx):
        assert ctx.get(Cat(near, far, half)) == 0
        ctx.set(source, 13)
        assert [ctx.get(signal) for signal in (near, far, half, narrow)] == [13, 13, 13, 5]
        assert await ctx.tick().sample(held, far) == (True, False, 0, 13)
        assert ctx.get(held) == 13
        for signal in (near, far, half, narrow):
            with pytest.raises(DriverConflict):
                ctx.set(signal, 1)

    run(simulator_class, m, testbench)


@pytest.mark.parametrize("simulator_class", BOTH)
def test_register_that_is_set_from_outside_goes_on_from_there(simulator_class):
    m = Module()
    m.domains.sync = ClockDomain()
    source, held, counted = Signal(4, init=5), Signal(4), Signal(4)
    m.d.sync += [held.eq(source), counted.eq(counted + 1)]

    async def testbench(ctx):
        await ctx.tick().repeat(2)
        ctx.set(held, 9)
        ctx.set(counted, 9)
        assert await ctx.tick().sample(held, counted) == (True, False, 9, 9)
        assert (ctx.get(held), ctx.get(counted)) == (5, 10)

    run(simulator_class, m, testbench)


def test_loops_between_statements_settle_or_say_so():
    m = Module()
    m.domains.sync = ClockDomain()
    a, b, through = Signal(4), Signal(4), Signal(2)
    # Bits depend on other bits only, signals on each other.
    m.d.comb += [a.eq(Cat(through, b[:2])), b.eq(Cat(a[:2], a[2:]))]
    bad = Signal()
    held = Signal()
    m.d.comb += bad.eq(~bad & held)

    async def testbench(ctx):
        ctx.set(through, 2)
        assert ctx.get(b) == 0b1010
        ctx.set(held, 1)
        with pytest.raises(RuntimeError, match="does not settle"):
            ctx.get(bad)

    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    simulator.add_testbench(testbench)
    with pytest.raises(RuntimeError, match="does not settle"):
        simulator.run()
