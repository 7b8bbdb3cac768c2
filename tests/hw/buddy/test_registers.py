"""The buddy controller's registers: what software relies on, and the page table behind them."""

import random

import pytest

from cdma.golden.buddy.address_map import PageFields
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.buddy.registers import WITH_ALL_REGISTERS, BuddyRegisters, register_map
from cdma.hw.config import BUDDY_PRESETS, METADATA_CACHES, BuddyConfig, EntryConfig
from cdma.hw.emit.netlist import to_verilog
from cdma.hw.emit.verilog import LINT_WAIVERS
from tests.hw.emit.test_verilog import lint
from tests.lib.rtl.axi_lite import RegisterBench

CONFIG = BuddyConfig()
MAP = register_map()
OFFSETS = {
    "ID": 0x000,
    "VERSION": 0x004,
    "CONFIG0": 0x008,
    "CONFIG1": 0x00C,
    "CONFIG2": 0x010,
    "CONFIG3": 0x014,
    "CONTROL": 0x020,
    "STATUS": 0x024,
    "IRQ_STATUS": 0x028,
    "IRQ_ENABLE": 0x02C,
    "GBBR_LO": 0x030,
    "GBBR_HI": 0x034,
    "CARVE_OUT_BYTES_LO": 0x038,
    "CARVE_OUT_BYTES_HI": 0x03C,
    "LOGICAL_BYTES_LO": 0x040,
    "LOGICAL_BYTES_HI": 0x044,
    "METADATA_BASE_LO": 0x048,
    "METADATA_BASE_HI": 0x04C,
    "TIMEOUT_CYCLES": 0x050,
    "PAGE_INDEX": 0x060,
    "PAGE_FIELDS": 0x064,
    "PAGE_FRAME": 0x068,
    "ERROR_STATUS": 0x080,
    "ERROR_ADDR_LO": 0x088,
    "ERROR_ADDR_HI": 0x08C,
    "COUNTERS_CONTROL": 0x0F8,
}
COUNTERS = (
    "CYCLES_BUSY",
    "READS",
    "WRITES",
    "PARTIAL_WRITES",
    "DEVICE_SECTORS_READ",
    "DEVICE_SECTORS_WRITTEN",
    "BUDDY_SECTORS_READ",
    "BUDDY_SECTORS_WRITTEN",
    "OVERFETCHED_SECTORS",
    "SPILLED",
    "METADATA_HITS",
    "METADATA_MISSES",
    "METADATA_EVICTIONS",
    "METADATA_CORRECTED",
    "METADATA_UNCORRECTABLE",
    "STALL_HAZARD",
    "STALL_BUDDY",
)


@pytest.fixture(scope="module")
def bench():
    registers = BuddyRegisters(CONFIG)
    return RegisterBench(registers, registers.s_axil)


def test_addresses_stay_as_software_knows_them():
    pairs = {
        f"{name}_{half}": 0x100 + 8 * number + 4 * (half == "HI")
        for number, name in enumerate(COUNTERS)
        for half in ("LO", "HI")
    }
    assert {name: register.offset for name, register in MAP.items()} == {**OFFSETS, **pairs}


def test_bits_stay_as_software_knows_them():
    places = {
        register: {name: (f.low, f.width) for name, f in MAP[register].fields.items()}
        for register in (
            "CONTROL",
            "STATUS",
            "IRQ_STATUS",
            "IRQ_ENABLE",
            "PAGE_INDEX",
            "PAGE_FIELDS",
            "PAGE_FRAME",
            "ERROR_STATUS",
            "COUNTERS_CONTROL",
        )
    }
    events = {"flushed": (0, 1), "error": (1, 1), "lost": (2, 1)}
    assert places == {
        "CONTROL": {"enable": (0, 1), "flush": (1, 1), "invalidate": (2, 1), "clear": (3, 1)},
        "STATUS": {"idle": (0, 1), "flushing": (1, 1), "lost": (2, 1), "clearing": (3, 1)},
        "IRQ_STATUS": events,
        "IRQ_ENABLE": events,
        "PAGE_INDEX": {"index": (0, 20)},
        "PAGE_FIELDS": {"fields": (0, 24), "mapped": (31, 1)},
        "PAGE_FRAME": {"frame": (0, 28)},
        "ERROR_STATUS": {"status": (0, 4), "write": (8, 1)},
        "COUNTERS_CONTROL": {"clear": (0, 1), "freeze": (1, 1)},
    }


def test_statuses_are_those_of_accesses():
    meanings = MAP["ERROR_STATUS"].fields["status"].meanings
    assert {m.name: m.value for m in meanings} == {s.name: s.value for s in AccessStatus}


@pytest.mark.parametrize("name", BUDDY_PRESETS)
def test_constants_tell_the_configuration(name):
    config = BUDDY_PRESETS[name]
    registers = register_map(config)
    assert registers["ID"].reset.to_bytes(4, "big") == b"BUDY"
    told = {}
    for number in range(4):
        register = registers[f"CONFIG{number}"]
        told |= register.values(register.reset)
    assert told == {
        "sector_bytes": config.entry.sector_bytes,
        "element_bytes": config.entry.element_bytes,
        "mode": 0,
        "log2_page_bytes": config.page_bytes.bit_length() - 1,
        "pages": config.pages,
        "cache_slices": config.cache.slices,
        "cache_ways": config.cache.ways,
        "cache_line_bytes": config.cache.line_bytes,
        "cache_bytes": config.cache.capacity_bytes,
    }


def test_mode_is_told_by_name():
    config = BuddyConfig(entry=EntryConfig(mode="bpc"), cache=METADATA_CACHES["tiny"])
    register = register_map(config)["CONFIG0"]
    field = register.fields["mode"]
    names = {meaning.value: meaning.name for meaning in field.meanings}
    assert names[field.get(register.reset)] == "BPC"
    field = MAP["CONFIG0"].fields["mode"]
    assert names[field.get(MAP["CONFIG0"].reset)] == "BEST_OF"
    register = register_map(WITH_ALL_REGISTERS)["CONFIG0"]
    assert names[register.fields["mode"].get(register.reset)] == "BEST_OF_THREE"


def test_only_controllers_with_xc_have_page_parameters():
    registers = register_map(WITH_ALL_REGISTERS)
    assert {*registers} - {*MAP} == {"PAGE_PARAMETERS"}
    register = registers["PAGE_PARAMETERS"]
    assert register.offset == 0x06C
    places = {name: (field.low, field.width) for name, field in register.fields.items()}
    assert places == {"centre": (0, 8), "pattern": (8, 2)}
    bench = RegisterBench(registers := BuddyRegisters(WITH_ALL_REGISTERS), registers.s_axil)

    async def body(bus):
        await bus.put(register.offset, 0x2A5)
        assert await bus.get(register.offset) == 0x2A5
        parameters = bus.component.page_parameters
        assert (bus.ctx.get(parameters.centre), bus.ctx.get(parameters.pattern)) == (0xA5, 2)

    bench.run(body)


def test_write_of_a_frame_stores_a_page_s_entry(bench):
    """Once, with what was written before it; nothing else does."""
    generator = random.Random(1)
    wanted = []
    seen = []
    done = []

    async def software(bus):
        for _ in range(20):
            fields = PageFields(
                compressed=True, target=generator.randrange(5), buddy_page=generator.getrandbits(20)
            ).pack()
            page = generator.getrandbits(20), fields, generator.getrandbits(1)
            frame = generator.getrandbits(28)
            await bus.put(MAP["PAGE_INDEX"].offset, page[0])
            await bus.put(MAP["PAGE_FIELDS"].offset, fields | page[2] << 31)
            if generator.random() < 0.8:
                await bus.put(MAP["PAGE_FRAME"].offset, frame)
                wanted.append((*page, frame))
        done.append(True)

    async def hardware(bus):
        registers = bus.component
        while not done:
            written, *entry = await bus.tick(
                registers.page_frame.written,
                registers.page_index.index,
                registers.page_fields.fields,
                registers.page_fields.mapped,
                registers.page_frame.frame,
            )
            if written:
                seen.append(tuple(entry))

    bench.run(software, hardware)
    assert seen == wanted
    assert len(wanted) > 10


def test_regions_are_shown_as_wholes(bench):
    values = {
        "gbbr": ("address", 0x0123_4567_89AB_CDE0),
        "carve_out_bytes": ("bytes", 0x0000_0040_0000_0020),
        "logical_bytes": ("bytes", 0x0000_00FF_0000_2000),
        "metadata_base": ("address", 0x0000_0080_0000_0100),
    }

    async def body(bus):
        for group, (_, value) in values.items():
            await bus.put(MAP[f"{group.upper()}_LO"].offset, value & 0xFFFF_FFFF)
            await bus.put(MAP[f"{group.upper()}_HI"].offset, value >> 32)
        for group, (field, value) in values.items():
            assert bus.ctx.get(getattr(getattr(bus.component, group), field)) == value

    bench.run(body)


def test_first_error_is_captured(bench):
    async def body(bus):
        ctx, registers = bus.ctx, bus.component
        ctx.set(registers.error_status.status, AccessStatus.CORRUPT_ENTRY.value)
        ctx.set(registers.error_status.write, 1)
        ctx.set(registers.error_addr.address, 0x12_3456_7880)
        ctx.set(registers.error_capture, 1)
        await bus.tick()
        ctx.set(registers.error_capture, 0)
        ctx.set(registers.error_status.status, 0)
        ctx.set(registers.error_addr.address, 0)
        assert await bus.get(MAP["ERROR_STATUS"].offset) == 0x10B
        assert await bus.get(MAP["ERROR_ADDR_LO"].offset) == 0x3456_7880
        assert await bus.get(MAP["ERROR_ADDR_HI"].offset) == 0x12

    bench.run(body)


def test_verilog_is_clean(tmp_path):
    modules = to_verilog(BuddyRegisters(CONFIG), "buddy_registers", assertions=False)
    waivers = "".join(f"/* verilator lint_off {rule} */\n" for rule in LINT_WAIVERS)
    text = waivers + "\n\n".join(module.text for module in modules) + "\n"
    lint("buddy_registers", text, tmp_path)
