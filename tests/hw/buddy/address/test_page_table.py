"""The page table: a lookup finds what was written before it, one a cycle."""

import random
from dataclasses import replace

import pytest
from amaranth.hdl import ClockDomain, Module

from cdma.golden.buddy.address_map import AddressMap, MapStatus, PageFields, Target
from cdma.golden.buddy.entry import EntryCodec
from cdma.golden.buddy.memory import BuddyMemory
from cdma.hw.buddy.address.page_table import PageTable
from cdma.hw.config import BUDDY_PRESETS, EntryConfig
from cdma.hw.emit.netlist import to_verilog
from cdma.hw.emit.verilog import LINT_WAIVERS
from tests.hw.emit.test_verilog import lint
from tests.lib.rtl.bench import STALLS, Bench, assert_no_bubble, from_cycle, stalls
from tests.lib.shares import configs
from tests.lib.simulator import Simulator

TINY = BUDDY_PRESETS["tiny"]
CONFIGS = {
    "tiny": TINY,
    # No power of two, so that page numbers of as many bits are beyond the table.
    "odd": replace(TINY, page_bytes=65536, pages=11),
    "wide": replace(TINY, page_bytes=2 << 20, pages=64),
    "one": replace(TINY, pages=1),
    "three": replace(TINY, entry=EntryConfig(mode="best-of-three")),
}
UNMAPPED = {"fields": 0, "frame": 0, "mapped": 0}


@pytest.fixture(scope="module", params=configs(CONFIGS, quick=["tiny", "odd", "three"]))
def bench(request):
    return Bench(PageTable(request.param))


def entry_at_random(generator, config):
    entry = {
        "fields": generator.getrandbits(24),
        "frame": generator.getrandbits(28),
        "mapped": generator.random() < 0.8,
        "parameters": {},
    }
    if config.entry.has_parameters:
        entry["parameters"] = {
            "centre": generator.getrandbits(8),
            "pattern": generator.getrandbits(2),
        }
    return entry


class Writer:
    """Writes the table while it is looked up; knows the entries of every cycle."""

    def __init__(self, table, generator):
        self.table, self.generator = table, generator
        self.entries = [{}]

    def drive(self, ctx, cycle):
        now = dict(self.entries[-1])
        write = self.table.write
        index = self.generator.choice([self.generator.randrange(24), 1 << 19, (1 << 20) - 1])
        entry = entry_at_random(self.generator, self.table.config)
        en = self.generator.random() < 0.5
        ctx.set(write.en, en)
        ctx.set(write.index, index)
        ctx.set(write.entry, entry)
        # Reset clears the table, a page a cycle.
        if en and cycle >= self.table.config.pages > index:
            now[index] = entry
        self.entries.append(now)

    def at(self, cycle, page):
        """The entry that a lookup has that is taken in this cycle."""
        return self.entries[cycle].get(page, UNMAPPED)


def drive_with(source, writer):
    drive = source.drive

    def both(ctx, cycle):
        writer.drive(ctx, cycle)
        drive(ctx, cycle)

    source.drive = both


def addresses_at_random(config, generator, count):
    """In the table, just beyond it, and far away."""
    size = config.page_bytes
    near = [generator.randrange(2 * config.pages * size) for _ in range(count)]
    far = [generator.getrandbits(40) for _ in range(count)]
    # Those that a table of as many bits would take for a page of its own.
    alias = [(generator.randrange(config.pages) + (1 << 13)) * size for _ in range(count)]
    kinds = [near, near, near, near, far, [address % (1 << 40) for address in alias]]
    return [generator.choice(kinds)[k] for k in range(count)]


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_lookups_find_what_was_written_before_them(bench, source, sink):
    table = bench.component
    generator = random.Random(1)
    addresses = addresses_at_random(table.config, generator, 600)
    given = bench.source(table.i, [{"address": a} for a in addresses], willing=stalls(source, 1))
    out = bench.sink(table.o, len(addresses), willing=stalls(sink, 2))
    writer = Writer(table, generator)
    drive_with(given, writer)
    bench.run()
    mapped = 0
    for address, cycle, got in zip(addresses, given.cycles, out.payloads, strict=True):
        assert got["address"] == address
        expected = writer.at(cycle, address // table.config.page_bytes)
        assert got["page"]["mapped"] == expected["mapped"], hex(address)
        if expected["mapped"]:
            assert got["page"] == expected, hex(address)
            mapped += 1
    assert mapped > 25


def test_lookup_per_cycle_after_a_constant_latency(bench):
    table = bench.component
    given = bench.source(table.i, [{"address": 977 * k} for k in range(60)])
    out = bench.sink(table.o, 60)
    bench.run()
    assert_no_bubble(given.cycles)
    latencies = [o - i for i, o in zip(given.cycles, out.cycles, strict=True)]
    assert latencies == [PageTable.latency] * 60


def test_table_of_a_golden_memory():
    """The table holds what an allocator has mapped, with unmapped pages between and behind."""
    pages, size = TINY.pages, TINY.page_bytes
    layout = AddressMap(
        device_bytes=pages * size,
        logical_bytes=pages * size,
        carve_out_bytes=pages * size,
        page_bytes=size,
    )
    memory = BuddyMemory(layout, EntryCodec())
    for target in Target:
        memory.allocate(2 * size, target)
    memory.map_page(pages - 1, PageFields(compressed=False, target=7, buddy_page=5), 3)
    table = PageTable(TINY)
    bench = Bench(table)
    addresses = [page * size + 77 for page in range(pages + 2)]
    given = bench.source(
        table.i, [{"address": a} for a in addresses], willing=from_cycle(2 * pages)
    )
    out = bench.sink(table.o, len(addresses))
    drive = given.drive

    def map_and_drive(ctx, cycle):
        page = cycle % pages
        fields, frame = memory.page_entry(page)
        mapped = memory.translate([page * size]).status[0] != MapStatus.OUT_OF_REGION
        ctx.set(table.write.en, cycle in range(pages, 2 * pages))
        ctx.set(table.write.index, page)
        ctx.set(table.write.entry, {"fields": fields, "frame": frame, "mapped": int(mapped)})
        drive(ctx, cycle)

    given.drive = map_and_drive
    bench.run()
    for page, got in enumerate(out.payloads[:pages]):
        fields, frame = memory.page_entry(page)
        assert (got["page"]["fields"], got["page"]["frame"]) == (fields, frame)
    mapped = [got["page"]["mapped"] for got in out.payloads]
    assert mapped == [1] * 10 + [0] * (pages - 11) + [1, 0, 0]


def test_reset_drops_lookups_and_unmaps_every_page():
    table = PageTable(TINY)
    m = Module()
    m.domains.sync = domain = ClockDomain()
    m.submodules.table = table
    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    entry = {"fields": 0x812345, "frame": 0x765_4321, "mapped": 1}

    async def mapped(ctx):
        ctx.set(table.o.ready, 1)
        found = []
        for page in range(TINY.pages):
            ctx.set(table.i.valid, 1)
            ctx.set(table.i.payload.address, page * TINY.page_bytes)
            await ctx.tick()
            assert ctx.get(table.o.valid)
            found.append(ctx.get(table.o.payload.page.mapped))
        ctx.set(table.i.valid, 0)
        return found

    async def body(ctx):
        await ctx.tick().repeat(TINY.pages)
        for page in range(TINY.pages):
            ctx.set(table.write.en, 1)
            ctx.set(table.write.index, page)
            ctx.set(table.write.entry, entry)
            await ctx.tick()
        ctx.set(table.write.en, 0)
        assert await mapped(ctx) == [1] * TINY.pages
        ctx.set(table.i.valid, 1)
        ctx.set(table.o.ready, 0)
        await ctx.tick()
        assert ctx.get(table.o.valid)
        ctx.set(domain.rst, 1)
        await ctx.tick()
        ctx.set(domain.rst, 0)
        for _ in range(TINY.pages):
            assert not ctx.get(table.o.valid)
            assert not ctx.get(table.i.ready)
            assert ctx.get(table.clearing)
            await ctx.tick()
        assert not ctx.get(table.clearing)
        assert await mapped(ctx) == [0] * TINY.pages

    simulator.add_testbench(body)
    simulator.run()


@pytest.mark.parametrize("pages", [1, 11, 1024])
def test_verilog_is_clean(pages, tmp_path):
    table = PageTable(replace(TINY, pages=pages))
    modules = to_verilog(table, "page_table", assertions=False)
    waivers = "".join(f"/* verilator lint_off {rule} */\n" for rule in LINT_WAIVERS)
    text = waivers + "\n\n".join(module.text for module in modules) + "\n"
    lint("page_table", text, tmp_path)
