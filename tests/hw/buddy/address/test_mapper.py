"""The mapper: every translation is golden's, one a cycle, and nothing wraps."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import AddressMap, MapStatus, PageFields, Target
from cdma.hw.buddy.address.mapper import SectorMapper
from cdma.hw.buddy.payloads import Mapping, MapRequest
from cdma.hw.config import BUDDY_PRESETS, EntryConfig
from cdma.hw.emit.netlist import to_verilog
from cdma.hw.emit.verilog import LINT_WAIVERS
from tests.hw.emit.test_verilog import lint
from tests.lib.rtl.bench import STALLS, Bench, assert_no_bubble, stalls
from tests.lib.simulator import Simulator

PAGE_BYTES = (8192, 65536, 2 << 20)
EVERY_ERROR = set(MapStatus)


class Placed(wiring.Component):
    """A mapper whose regions are set, as the registers do."""

    def __init__(self, layout: AddressMap, mode: str = "best-of") -> None:
        self.layout = layout
        self.config = config = replace(
            BUDDY_PRESETS["narrow"], page_bytes=layout.page_bytes, entry=EntryConfig(mode=mode)
        )
        super().__init__(
            {
                "i": In(stream.Signature(MapRequest(config))),
                "o": Out(stream.Signature(Mapping(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.mapper = mapper = SectorMapper(self.config)
        wiring.connect(m, wiring.flipped(self.i), mapper.i)
        wiring.connect(m, wiring.flipped(self.o), mapper.o)
        for name in ("logical_bytes", "metadata_base", "carve_out_bytes", "gbbr"):
            value = getattr(self.layout, name)
            # Whatever is in the lower bits of a place, sectors are aligned.
            value |= 0x1F if name in ("metadata_base", "gbbr") else 0
            m.d.comb += getattr(mapper, name).eq(value)
        return m


def layout_of(page_bytes, **changes):
    sizes = {
        "device_bytes": 512 * page_bytes,
        "logical_bytes": 1024 * page_bytes,
        "carve_out_bytes": 700 * page_bytes + 32,
        "gbbr": 0x0123_4567_89AB_CDE0 // 32 * 32,
        "page_bytes": page_bytes,
    }
    return AddressMap(**{**sizes, **changes})


@pytest.fixture(scope="module", params=PAGE_BYTES)
def bench(request):
    return Bench(Placed(layout_of(request.param)))


@pytest.fixture
def layout(bench):
    return bench.component.layout


class Requests:
    """Addresses with the entries of their pages, and what golden makes of them."""

    def __init__(self, layout, addresses, fields, frames, mapped=True):
        self.addresses, self.fields, self.frames = map(np.asarray, (addresses, fields, frames))
        self.mapped = np.broadcast_to(mapped, self.addresses.shape)
        self.found = layout.translate(self.addresses, self.fields, self.frames)
        self.status = np.where(self.mapped, self.found.status, MapStatus.OUT_OF_REGION)

    @property
    def payloads(self):
        return [
            {
                "address": int(address),
                "page": {"fields": int(fields), "frame": int(frame), "mapped": int(mapped)},
            }
            for address, fields, frame, mapped in zip(
                self.addresses, self.fields, self.frames, self.mapped, strict=True
            )
        ]

    def assert_found(self, mappings):
        found = self.found
        for index, got in enumerate(mappings):
            expected = {"status": int(self.status[index])}
            # Nothing but the status means anything where it is not OK.
            if not self.status[index]:
                expected |= {
                    "compressed": int(found.compressed[index]),
                    "target": int(found.target[index]),
                    "device_address": int(found.device_address[index]),
                    "buddy_address": int(found.buddy_address[index]),
                    "metadata_address": int(found.metadata_address[index]),
                    "metadata_upper": int(found.metadata_shift[index] == 4),
                }
                if not found.compressed[index] or found.target[index] == Target.X1:
                    # It has no buddy slot.
                    del expected["buddy_address"]
            assert {name: got[name] for name in expected} == expected, self.payloads[index]


def at_random(layout, count, seed):
    """Most of them right, with every kind of wrong among them."""
    generator = np.random.default_rng(seed)

    def mostly(right, bits):
        anywhere = generator.integers(0, 1 << bits, count)
        within = generator.integers(0, right, count)
        return np.where(generator.random(count) < 0.9, within, anywhere)

    buddy_pages = mostly(layout.carve_out_bytes // layout.buddy_unit_bytes, 20)
    targets = mostly(len(Target), 3)
    compressed = generator.random(count) < 0.85
    return Requests(
        layout,
        mostly(layout.logical_bytes, 40),
        compressed.astype(np.int64) << 23 | targets << 20 | buddy_pages,
        mostly(layout.metadata_base // layout.frame_bytes, 28),
        generator.random(count) < 0.95,
    )


def at_borders(layout):
    """Both sides of everything that is compared, for every target."""
    page, last_entry = layout.page_bytes, layout.page_bytes - 128
    rows = []
    for target in range(9):
        compressed = target < 8
        for offset in (0, 127, 128, last_entry, page - 1):
            frames = layout.metadata_base // layout.frame_bytes
            for frame in (0, *range(frames - 17, frames + 2), (1 << 28) - 1):
                rows.append((offset, compressed, target, 0, frame))
            units = layout.carve_out_bytes // layout.buddy_unit_bytes
            for unit in (*range(units - 5, units + 2), (1 << 20) - 1):
                rows.append((offset, compressed, target, unit, 0))
        for address in (layout.logical_bytes - 1, layout.logical_bytes, (1 << 40) - 1):
            rows.append((address, compressed, target, 0, 0))
    addresses, *parts, frames = zip(*rows, strict=True)
    fields = [
        PageFields(compressed=compressed, target=target % 8, buddy_page=unit).pack()
        for compressed, target, unit in zip(*parts, strict=True)
    ]
    return Requests(layout, addresses, fields, frames)


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_random_translations_are_those_of_golden(bench, layout, source, sink):
    requests = at_random(layout, 1200, 1)
    assert set(requests.status) == EVERY_ERROR
    assert (requests.status == MapStatus.OK).sum() > 500
    bench.source(bench.component.i, requests.payloads, willing=stalls(source, 1))
    out = bench.sink(bench.component.o, 1200, willing=stalls(sink, 2))
    bench.run()
    requests.assert_found(out.payloads)


def test_borders_are_those_of_golden(bench, layout):
    requests = at_borders(layout)
    assert set(requests.status) == EVERY_ERROR
    bench.source(bench.component.i, requests.payloads)
    out = bench.sink(bench.component.o, len(requests.payloads))
    bench.run()
    requests.assert_found(out.payloads)


def test_translation_per_cycle_after_a_constant_latency(bench, layout):
    requests = at_random(layout, 60, 2)
    given = bench.source(bench.component.i, requests.payloads)
    out = bench.sink(bench.component.o, 60)
    bench.run()
    assert_no_bubble(given.cycles)
    assert [o - i for i, o in zip(given.cycles, out.cycles, strict=True)] == (
        [SectorMapper.translation_latency] * 60
    )


# Ends of address spaces, which golden's memories never reach.

ONE_ENTRY = PageFields(compressed=True, target=Target.X2).pack()


def test_parameters_of_pages_go_with_their_entries():
    bench = Bench(Placed(layout_of(8192), "best-of-three"))
    requests = at_random(bench.component.layout, 200, 7)
    pages = [{"centre": k, "pattern": k % 4} for k in range(200)]
    for payload, page in zip(payloads := requests.payloads, pages, strict=True):
        payload["page"]["parameters"] = page
    bench.source(bench.component.i, payloads, willing=stalls(0.4, 1))
    out = bench.sink(bench.component.o, len(payloads), willing=stalls(0.4, 2))
    bench.run()
    requests.assert_found(out.payloads)
    assert [got["parameters"] for got in out.payloads] == pages


def statuses(layout, rows):
    """Statuses of pairs of addresses and frames."""
    bench = Bench(Placed(layout))
    payloads = [
        {"address": address, "page": {"fields": ONE_ENTRY, "frame": frame, "mapped": 1}}
        for address, frame in rows
    ]
    bench.source(bench.component.i, payloads)
    out = bench.sink(bench.component.o, len(payloads))
    bench.run()
    return [(MapStatus(got["status"]), got) for got in out.payloads]


def test_device_memory_ends_where_addresses_do():
    """A frame beyond 2^40 is refused, though device memory claims to be larger."""
    page = 2 << 20
    layout = layout_of(page, device_bytes=1 << 50, logical_bytes=1 << 30)
    far = (1 << 40) // layout.frame_bytes
    for status, _ in statuses(layout, [(0, 0), (0, far), (0, (1 << 28) - 1)]):
        assert status == MapStatus.OUT_OF_REGION
    # As large as it can be: metadata, and the slot before them, reach up to the end.
    layout = layout_of(page, device_bytes=1 << 40, logical_bytes=1 << 30)
    last_frame = layout.metadata_base // layout.frame_bytes - 8
    (first, _), (second, got), (third, _) = statuses(
        layout, [(0, far), ((1 << 30) - 1, last_frame), (0, last_frame + 8)]
    )
    assert (first, second, third) == (
        MapStatus.OUT_OF_REGION,
        MapStatus.OK,
        MapStatus.OUT_OF_REGION,
    )
    assert got["metadata_address"] == (1 << 40) - 1
    assert got["device_address"] == layout.metadata_base - 64


def test_carve_out_ends_where_addresses_do():
    page = 8192
    # The page's last slot ends at 2^64.
    layout = layout_of(page, gbbr=(1 << 64) - page // 2)
    ((status, got),) = statuses(layout, [(page - 128, 0)])
    assert (status, got["buddy_address"]) == (MapStatus.OK, (1 << 64) - 64)
    layout = layout_of(page, gbbr=(1 << 64) - page // 2 + 32)
    found = statuses(layout, [(page - 256, 0), (page - 128, 0)])
    assert [status for status, _ in found] == [MapStatus.OK, MapStatus.CARVE_OUT_OVERFLOW]


def test_reset_drops_what_is_outstanding():
    mapper = SectorMapper(BUDDY_PRESETS["narrow"])
    m = Module()
    m.domains.sync = domain = ClockDomain()
    m.submodules.mapper = mapper
    simulator = Simulator(m)
    simulator.add_clock(1e-9)

    async def body(ctx):
        ctx.set(mapper.i.valid, 1)
        await ctx.tick().repeat(SectorMapper.translation_latency + 1)
        assert ctx.get(mapper.o.valid)
        assert not ctx.get(mapper.i.ready), "it holds a translation in each stage, and one more"
        ctx.set(mapper.i.valid, 0)
        ctx.set(domain.rst, 1)
        await ctx.tick()
        ctx.set(domain.rst, 0)
        ctx.set(mapper.o.ready, 1)
        for _ in range(5):
            assert not ctx.get(mapper.o.valid)
            await ctx.tick()

    simulator.add_testbench(body)
    simulator.run()


@pytest.mark.parametrize("page_bytes", PAGE_BYTES)
def test_verilog_is_clean(page_bytes, tmp_path):
    config = replace(BUDDY_PRESETS["narrow"], page_bytes=page_bytes)
    modules = to_verilog(SectorMapper(config), "sector_mapper", assertions=False)
    waivers = "".join(f"/* verilator lint_off {rule} */\n" for rule in LINT_WAIVERS)
    text = waivers + "\n\n".join(module.text for module in modules) + "\n"
    lint("sector_mapper", text, tmp_path)
