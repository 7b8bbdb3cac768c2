"""The register block: every register of the map, as its RDL says, and the port in any weather."""

import random
from dataclasses import replace

import pytest

from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.registers import Registers, register_map
from cdma.hw.emit.netlist import to_verilog
from cdma.hw.emit.verilog import LINT_WAIVERS
from cdma.hw.registers.map import Kind
from cdma.hw.registers.port import RegisterPort
from tests.hw.emit.test_verilog import lint
from tests.lib.rtl.axi_lite import OKAY, SLVERR, RegisterBench

CONFIG = EngineConfig()
MAP = register_map(CONFIG)
OUTWARD = (Kind.STORED, Kind.PULSE, Kind.EVENT, Kind.LOCK)
EVERY_BIT = 0xFFFF_FFFF


@pytest.fixture(scope="module")
def bench():
    registers = Registers(CONFIG)
    return RegisterBench(registers, registers.s_axil)


def fields_of(*kinds):
    return [(r, f) for r in MAP.values() for f in r.fields.values() if f.kind in kinds]


def member(registers, register, field):
    """The part of the hardware's side that is in this register."""
    whole = getattr(getattr(registers, register.group), field.name)
    return (
        whole[len(whole) - field.width :] if register.name.endswith("_HI") else whole[: field.width]
    )


async def stored_values(bus):
    return {r.name: await bus.get(r.offset) for r, _ in fields_of(Kind.STORED)}


# What software finds.


def test_every_register_reads_its_reset_value(bench):
    async def body(bus):
        for register in MAP.values():
            assert (register.name, await bus.get(register.offset)) == (
                register.name,
                register.reset,
            )

    bench.run(body)


def test_constants_tell_the_configuration():
    config = EngineConfig(
        codec=CodecConfig(element_bytes=2, sector_bytes=64),
        units=3,
        host_bytes=64,
        buffer_bytes=12_288,
    )
    registers = register_map(config)
    assert registers["ID"].reset.to_bytes(4, "big") == b"CDMA"
    assert registers["CONFIG0"].values(registers["CONFIG0"].reset) == {
        "units": 3,
        "sector_bytes": 64,
        "element_bytes": 2,
        "host_bytes": 64,
    }
    assert registers["CONFIG1"].reset == 12_288


def test_stored_fields_keep_what_is_written_and_show_it_to_hardware(bench):
    generator = random.Random(1)

    async def body(bus):
        expected = await stored_values(bus)
        for register in {r.name: r for r, _ in fields_of(Kind.STORED)}.values():
            stored = [f for f in register.fields.values() if f.kind is Kind.STORED]
            mask = sum(f.mask for f in stored)
            # No pulses: they have tests of their own.
            for word in (mask, 0, generator.getrandbits(32) & mask):
                others = sum(f.mask for f in register.fields.values()) - mask
                await bus.put(register.offset, (word | ~mask) & ~others & EVERY_BIT)
                assert await bus.get(register.offset) == word, register.name
                for field in stored:
                    shown = bus.ctx.get(member(bus.component, register, field))
                    assert shown == field.get(word), f"{register.name}.{field.name}"
            expected[register.name] = word
        assert await stored_values(bus) == expected

    bench.run(body)


def test_halves_are_joined_with_the_lower_one_first(bench):
    async def body(bus):
        await bus.put(0x20, 0x89AB_CDC0)
        await bus.put(0x24, 0x0123_4567)
        assert bus.ctx.get(bus.component.ring_base.address) << 6 == 0x0123_4567_89AB_CDC0

    bench.run(body)


def test_strobes_choose_the_bytes(bench):
    generator = random.Random(2)

    async def body(bus):
        for register in {r.name: r for r, _ in fields_of(Kind.STORED)}.values():
            mask = sum(f.mask for f in register.fields.values() if f.kind is Kind.STORED)
            word = register.reset
            for strobe in generator.sample(range(16), 6):
                data = generator.getrandbits(32)
                lanes = sum(0xFF << 8 * lane for lane in range(4) if strobe >> lane & 1)
                await bus.put(register.offset, data & mask, strobe)
                word = (word & ~lanes | data & lanes) & mask
                assert await bus.get(register.offset) == word, f"{register.name}, {strobe:04b}"

    bench.run(body)


def test_read_only_registers_ignore_writes(bench):
    async def body(bus):
        for register in MAP.values():
            if not any(f.kind in OUTWARD for f in register.fields.values()):
                await bus.put(register.offset, ~register.reset & EVERY_BIT)
                assert await bus.get(register.offset) == register.reset, register.name

    bench.run(body)


def test_addresses_without_a_register_are_refused(bench):
    taken = {register.offset for register in MAP.values()}
    free = [a for a in range(0, 0x1000, 4) if a not in taken]
    beside = [a for a in free if {a - 4, a + 4} & taken]
    chosen = sorted({*beside, *random.Random(3).sample(free, 60), 0xFFC})

    async def body(bus):
        before = {r.name: await bus.get(r.offset) for r in MAP.values()}
        for address in chosen:
            assert await bus.read(address) == (0, SLVERR), hex(address)
            assert await bus.write(address, EVERY_BIT) == SLVERR, hex(address)
        assert {r.name: await bus.get(r.offset) for r in MAP.values()} == before

    bench.run(body)


def test_low_address_bits_do_not_matter(bench):
    async def body(bus):
        for low in range(4):
            await bus.put(0x50 + low, 100 + low)
            assert await bus.get(0x53 - low) == 100 + low

    bench.run(body)


def closed_by(signal):
    return {r.name: r for r, f in fields_of(Kind.STORED) if f.closed == signal}


@pytest.mark.parametrize("signal", ["setup_closed", "windows_closed"])
def test_closed_registers_refuse_writes_and_all_others_take_them(bench, signal):
    closed = closed_by(signal)
    assert len(closed) == {"setup_closed": 3, "windows_closed": 18}[signal]

    async def body(bus):
        ctx, registers = bus.ctx, bus.component
        for register in {r.name: r for r, _ in fields_of(Kind.STORED)}.values():
            mask = sum(f.mask for f in register.fields.values() if f.kind is Kind.STORED)
            before = await bus.get(register.offset)
            ctx.set(getattr(registers, signal), 1)
            for strobe in (0xF, 1, 8):
                answer = await bus.write(register.offset, ~before & mask, strobe)
                assert answer == (SLVERR if register.name in closed else OKAY), register.name
            refused = await bus.get(register.offset)
            assert (refused == before) == (register.name in closed), register.name
            ctx.set(getattr(registers, signal), 0)
            await bus.put(register.offset, ~before & mask)
            assert await bus.get(register.offset) == ~before & mask, register.name

    bench.run(body)


@pytest.mark.parametrize(
    ("register", "field"), fields_of(Kind.LOCK), ids=lambda x: getattr(x, "name", "")
)
def test_lock_stays_once_it_was_written_with_1(bench, register, field):
    async def body(bus):
        for word, strobe in ((0, 0xF), (~field.mask & EVERY_BIT, 0xF), (field.mask, 0xE)):
            await bus.put(register.offset, word, strobe)
            assert await bus.get(register.offset) == 0
        await bus.put(register.offset, field.mask)
        for word in (0, field.mask, EVERY_BIT, 0):
            assert await bus.get(register.offset) == field.mask
            assert bus.ctx.get(member(bus.component, register, field)) == 1
            await bus.put(register.offset, word)
        bus.ctx.set(bus.component.ring_clear, 1)
        await bus.tick()
        assert await bus.get(register.offset) == field.mask

    bench.run(body)


# What hardware does.


@pytest.mark.parametrize(
    ("register", "field"), fields_of(Kind.PULSE), ids=lambda x: getattr(x, "name", "")
)
def test_self_clearing_bit_is_high_for_one_cycle(bench, register, field):
    highs = []

    async def software(bus):
        await bus.put(register.offset, field.mask)
        assert await bus.get(register.offset) & field.mask == 0
        # Neither a 0 nor a byte without a strobe does it.
        await bus.put(register.offset, 0)
        await bus.put(register.offset, field.mask, 0xE)

    async def hardware(bus):
        for _ in range(25):
            highs.append((await bus.tick(member(bus.component, register, field)))[0])

    bench.run(software, hardware)
    assert sum(highs) == 1


@pytest.mark.parametrize(
    ("register", "field"), fields_of(Kind.EVENT), ids=lambda x: getattr(x, "name", "")
)
def test_event_is_kept_until_written_with_1_and_interrupts_when_enabled(bench, register, field):
    async def body(bus):
        ctx, registers = bus.ctx, bus.component
        sets = getattr(getattr(registers, register.group), f"{field.name}_set")
        everything = sum(f.mask for f in register.fields.values())

        async def happen():
            ctx.set(sets, 1)
            await bus.tick()
            ctx.set(sets, 0)

        await happen()
        assert await bus.get(register.offset) == field.mask
        assert ctx.get(registers.irq) == 0
        await bus.put(MAP["IRQ_ENABLE"].offset, everything & ~field.mask)
        assert ctx.get(registers.irq) == 0
        await bus.put(MAP["IRQ_ENABLE"].offset, field.mask)
        await bus.tick()
        assert ctx.get(registers.irq) == 1
        await bus.put(register.offset, 0)
        await bus.put(register.offset, everything & ~field.mask)
        await bus.put(register.offset, field.mask, 0xE)
        assert await bus.get(register.offset) == field.mask
        await bus.put(register.offset, field.mask)
        assert await bus.get(register.offset) == 0
        assert ctx.get(registers.irq) == 0

    bench.run(body)


def test_event_in_the_cycle_of_its_clearing_is_not_lost(bench):
    async def body(bus):
        sets = bus.component.irq_status.done_set
        for cycle in range(6):
            # The event comes in one of the cycles around that of the write.
            await bus.put(0x40, 1)
            bus.ctx.set(sets, 1)
            await bus.tick()
            bus.ctx.set(sets, 0)

            bus.ctx.set(bus.port.awaddr, 0x40)
            bus.ctx.set(bus.port.wdata, 1)
            bus.ctx.set(bus.port.wstrb, 0xF)
            bus.ctx.set(bus.port.awvalid, 1)
            bus.ctx.set(bus.port.wvalid, 1)
            bus.ctx.set(bus.port.bready, 1)
            bus.ctx.set(sets, cycle == 0)
            await bus.tick()
            bus.ctx.set(bus.port.awvalid, 0)
            bus.ctx.set(bus.port.wvalid, 0)
            for now in range(1, 8):
                bus.ctx.set(sets, now == cycle)
                await bus.tick()
            # The write clears in cycle 1: what came before is gone, what came with it or after is
            # still there.
            assert await bus.get(0x40) == (cycle >= 1), f"event in cycle {cycle}"

    bench.run(body)


def test_live_fields_read_what_hardware_shows(bench):
    generator = random.Random(4)

    async def body(bus):
        for _ in range(5):
            shown = {}
            for register, field in fields_of(Kind.LIVE):
                value = generator.getrandbits(field.width)
                bus.ctx.set(member(bus.component, register, field), value)
                shown[register.name, field.name] = value
            for register, field in fields_of(Kind.LIVE):
                word = await bus.get(register.offset)
                assert field.get(word) == shown[register.name, field.name], register.name

    bench.run(body)


def test_error_registers_hold_what_was_captured(bench):
    generator = random.Random(5)

    async def body(bus):
        ctx, registers = bus.ctx, bus.component
        held = {}
        for capture in (0, 1, 0, 1, 0):
            for register, field in fields_of(Kind.CAPTURED):
                value = generator.getrandbits(field.width)
                ctx.set(member(registers, register, field), value)
                if capture:
                    held[register.name, field.name] = value
            ctx.set(registers.error_capture, capture)
            await bus.tick()
            ctx.set(registers.error_capture, 0)
            for register, field in fields_of(Kind.CAPTURED):
                word = await bus.get(register.offset)
                assert field.get(word) == held.get((register.name, field.name), field.reset)

    bench.run(body)


def test_doorbell_is_told_with_the_new_value(bench):
    seen = []

    async def software(bus):
        await bus.put(0x2C, 0x1234)
        await bus.put(0x2C, 0x1234)
        await bus.put(0x2C, 0xFFFF, 0xC)
        await bus.put(0x28, 3)
        await bus.put(0x2C, 0x56, 0x1)

    async def hardware(bus):
        ring_tail = bus.component.ring_tail
        for _ in range(30):
            written, index = await bus.tick(ring_tail.written, ring_tail.index)
            if written:
                seen.append(index)

    bench.run(software, hardware)
    assert seen == [0x1234, 0x1234, 0x1256]


def test_ring_clear_sets_tail_and_enable_to_zero_and_nothing_else(bench):
    async def body(bus):
        for register, field in fields_of(Kind.STORED):
            await bus.put(register.offset, field.mask)
        before = await stored_values(bus)
        bus.ctx.set(bus.component.ring_clear, 1)
        await bus.tick()
        bus.ctx.set(bus.component.ring_clear, 0)
        assert await stored_values(bus) == {**before, "RING_TAIL": 0, "CONTROL": 0}
        assert before["RING_TAIL"]
        assert before["CONTROL"]

    bench.run(body)


# Counters.


COUNTERS = [(r, MAP[r.name.replace("_LO", "_HI")], f) for r, f in fields_of(Kind.COUNTER)]


@pytest.fixture(scope="module")
def brimming():
    """Counters whose lower halves are about to overflow."""
    registers = Registers(CONFIG)
    registers.registers = dict(MAP)
    for low, _high, field in COUNTERS:
        full = replace(field, reset=(1 << 32) - 40)
        registers.registers[low.name] = replace(low, fields={field.name: full})
    return RegisterBench(registers, registers.s_axil)


def test_counters_add_their_increments(bench):
    generator = random.Random(6)
    sums = dict.fromkeys((low.group for low, _, _ in COUNTERS), 0)

    async def body(bus):
        for _ in range(40):
            for low, _high, field in COUNTERS:
                step = generator.getrandbits(field.step_bits)
                bus.ctx.set(getattr(bus.component, low.group).increment, step)
                sums[low.group] += step
            await bus.tick()
        for low, _high, _field in COUNTERS:
            bus.ctx.set(getattr(bus.component, low.group).increment, 0)
        for low, high, _field in COUNTERS:
            total = await bus.get(low.offset) + (await bus.get(high.offset) << 32)
            assert total == sums[low.group], low.name

    bench.run(body)


@pytest.mark.parametrize("counters", [COUNTERS[:2], COUNTERS[-2:]], ids=["first", "last"])
def test_both_halves_are_of_the_moment_at_which_the_lower_one_was_read(brimming, counters):
    generator = random.Random(7)
    values = {low.name: [(1 << 32) - 40] for low, _, _ in counters}

    async def software(bus):
        for _ in range(14):
            # Read all lower halves first: each has its own latch.
            starts, lows = {}, {}
            for low, _high, _field in counters:
                starts[low.name] = len(values[low.name])
                lows[low.name] = await bus.get(low.offset)
                starts[low.name] = range(starts[low.name] - 1, len(values[low.name]))
            for low, high, _field in counters:
                value = lows[low.name] + (await bus.get(high.offset) << 32)
                possible = [values[low.name][i] for i in starts[low.name]]
                assert value in possible, f"{low.name}: {value:#x}"

    async def hardware(bus):
        for cycle in range(14 * 2 * len(counters) * 5):
            for low, _high, field in counters:
                step = 1 if cycle % 2 else generator.getrandbits(field.step_bits) & 1
                bus.ctx.set(getattr(bus.component, low.group).increment, step)
                values[low.name].append(values[low.name][-1] + step)
            await bus.tick()

    brimming.run(hardware, software)
    assert all(numbers[-1] > 1 << 32 for numbers in values.values())


def test_overflow_beside_the_read_is_in_both_halves_or_in_none(brimming):
    before, after = (1 << 32) - 40, 1 << 32
    seen = set()
    for cycle in range(8):

        async def software(bus, cycle=cycle):
            total = await bus.get(0x108) + (await bus.get(0x10C) << 32)
            assert total in (before, after), f"{total:#x}, overflow in cycle {cycle}"
            seen.add(total)
            while bus.cycle < 14:
                await bus.tick()
            assert await bus.get(0x108) == 0
            assert await bus.get(0x10C) == 1
            await bus.put(0xF8, 1)
            assert await bus.get(0x108) == 0
            assert await bus.get(0x10C) == 0

        async def hardware(bus, cycle=cycle):
            for now in range(12):
                bus.ctx.set(bus.component.raw_bytes_out.increment, 40 * (now == cycle))
                await bus.tick()

        brimming.run(hardware, software)
    assert seen == {before, after}


def test_frozen_counters_stand_still_and_cleared_ones_start_again(bench):
    async def body(bus):
        registers = bus.component
        maxima = fields_of(Kind.MAXIMUM)
        lows = [low for low, _, _ in COUNTERS] + [register for register, _ in maxima]

        async def drive(value):
            for low, _high, _field in COUNTERS:
                bus.ctx.set(getattr(registers, low.group).increment, value & 1)
            for register, _field in maxima:
                bus.ctx.set(getattr(registers, register.group).value, value)
            await bus.tick()

        async def all_read():
            return [await bus.get(register.offset) for register in lows]

        for value in (5, 9, 7, 0):
            await drive(value)
        assert await all_read() == [3] * len(COUNTERS) + [9] * len(maxima)
        await bus.put(0xF8, 2)
        for value in (11, 0):
            await drive(value)
        assert await all_read() == [3] * len(COUNTERS) + [9] * len(maxima)
        await bus.put(0xF8, 1)
        assert await all_read() == [0] * len(lows)
        await drive(1)
        await drive(0)
        assert await all_read() == [1] * len(lows)

    bench.run(body)


# The port.


@pytest.mark.parametrize(("address_delay", "data_delay"), [(0, 0), (0, 1), (1, 0), (0, 7), (7, 0)])
def test_address_and_data_come_in_any_order(bench, address_delay, data_delay):
    async def body(bus):
        for value in (1, 2, 3):
            response = await bus.write(
                0x50, value, address_delay=address_delay, data_delay=data_delay
            )
            assert response == OKAY
            assert await bus.get(0x50) == value

    bench.run(body)


def test_answers_take_two_cycles_and_come_every_two(bench):
    async def body(bus):
        port, ctx = bus.port, bus.ctx
        for valid in (port.awvalid, port.wvalid, port.bready, port.arvalid, port.rready):
            ctx.set(valid, 1)
        ctx.set(port.awaddr, 0x50)
        ctx.set(port.araddr, 0x50)
        seen = [
            await bus.tick(port.awready, port.wready, port.bvalid, port.arready, port.rvalid)
            for _ in range(9)
        ]
        asks, answers = (1, 1, 0, 1, 0), (0, 0, 0, 0, 0)
        both = (1, 1, 1, 1, 1)
        assert seen == [asks, answers, both, answers, both, answers, both, answers, both]
        assert RegisterPort.response_latency == 2

    bench.run(body)


def test_random_accesses_with_stalls_on_every_channel(bench):
    generator = random.Random(8)
    stored = list({r.name: r for r, _ in fields_of(Kind.STORED)}.values())
    log = {r.name: [r.reset] for r in stored}
    going = {}
    done = []

    async def writer(bus):
        for _ in range(150):
            register = generator.choice(stored)
            mask = sum(f.mask for f in register.fields.values() if f.kind is Kind.STORED)
            data = generator.getrandbits(32) & mask
            # Before it is done, a reader may see either.
            going[register.name] = data
            delays = [generator.choice((0, 0, 1, 5)) for _ in range(3)]
            await bus.write(
                register.offset,
                data,
                address_delay=delays[0],
                data_delay=delays[1],
                answer_delay=delays[2],
            )
            log[register.name].append(data)
            del going[register.name]
        done.append(True)

    async def reader(bus):
        reads = random.Random(9)
        while not done:
            register = reads.choice(stored)
            start = len(log[register.name]) - 1
            data, response = await bus.read(
                register.offset,
                delay=reads.choice((0, 0, 1, 5)),
                answer_delay=reads.choice((0, 0, 1, 5)),
            )
            possible = log[register.name][start:]
            if register.name in going:
                possible = [*possible, going[register.name]]
            assert (data in possible, response) == (True, OKAY), register.name

    bench.run(writer, reader)


def test_no_output_follows_an_input_without_a_clock_edge(bench):
    generator = random.Random(10)

    async def body(bus):
        members = list(bus.component.signature.flatten(bus.component))
        outputs = [value for _, m, value in members if m.flow.name == "Out"]
        inputs = [value for _, m, value in members if m.flow.name == "In"]
        for _ in range(30):
            for _ in range(5):
                before = [bus.ctx.get(value) for value in outputs]
                for value in inputs:
                    bus.ctx.set(value, generator.getrandbits(len(value)))
                await bus.ctx.delay(1e-12)
                assert [bus.ctx.get(value) for value in outputs] == before
            await bus.tick()

    bench.run(body)


# The artefacts.


def test_verilog_is_clean_and_named_after_the_map(tmp_path):
    modules = to_verilog(Registers(CONFIG), "registers", assertions=False)
    waivers = "".join(f"/* verilator lint_off {rule} */\n" for rule in LINT_WAIVERS)
    text = waivers + "\n\n".join(module.text for module in modules) + "\n"
    lint("registers", text, tmp_path)
    header = text[: text.index(");")]
    for port in (
        "control_abort",
        "ring_base_address",
        "cycles_busy_increment",
        "irq_status_done_set",
    ):
        assert f" {port}" in header
    for name in ("reads_error_tag", "ring_tail_lanes", "stall_dram_high"):
        assert f" {name};" in text or f" {name} =" in text
    assert [module.name for module in modules] == ["registers", "registers_port"]
