"""Addresses of entries: no two share a byte, and none lies outside its region, whatever pages say.

The arithmetic has no state: the first cycle is all there is, and the proof is complete. It is about
any two addresses, any entries of their pages that an allocator may have made, and any regions. A
second proof is about the stages in which the mapper does it.
"""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Array, Cat, Signal, Value
from amaranth.hdl._ast import AnyConst
from amaranth.lib import data

from cdma.golden.buddy.address_map import (
    BUDDY_PAGE_BITS,
    BUDDY_SLOT_BYTES,
    DEVICE_SLOT_BYTES,
    METADATA_RATIO,
    MapStatus,
    Target,
)
from cdma.golden.buddy.entry import ENTRY_BYTES, SECTOR_BYTES
from cdma.hw.buddy.address.mapper import (
    REGION_BITS,
    MapChecker,
    SectorMapper,
    SlotFinder,
    SlotPlacer,
)
from cdma.hw.buddy.payloads import MapRequest
from cdma.hw.config import BUDDY_PRESETS, BuddyConfig
from cdma.hw.lib.pipeline import PipelineRegister, SkidBuffer
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.smtbmc import check, prove
from tests.lib.shares import configs

CONFIGS = {
    f"{page_bytes >> 10}K": replace(BUDDY_PRESETS["tiny"], page_bytes=page_bytes)
    for page_bytes in (8 << 10, 64 << 10, 2 << 20)
}
TINY = CONFIGS["8K"]
REGIONS = ("logical_bytes", "metadata_base", "carve_out_bytes", "gbbr")
_TARGETS = 8


def free(bench: Bench, shape: Any, name: str) -> Any:
    """Make a value that the solver picks once and that stays constant."""
    signal = Signal(shape, name=name)
    bench.m.d.comb += Value.cast(signal).eq(AnyConst(len(Value.cast(signal))))
    return signal


def regions_of(bench: Bench) -> SimpleNamespace:
    """Any that have a sector's alignment."""
    regions = SimpleNamespace(**{name: free(bench, REGION_BITS, name) for name in REGIONS})
    bench.assume(regions.metadata_base % SECTOR_BYTES == 0, regions.gbbr % SECTOR_BYTES == 0)
    return regions


def chain(
    bench: Bench, config: BuddyConfig, request: Any, regions: SimpleNamespace
) -> SimpleNamespace:
    """The mapper's arithmetic without its stages."""
    finder, placer, checker = SlotFinder(config), SlotPlacer(config), MapChecker(config)
    bench.m.submodules += [finder, placer, checker]
    bench.m.d.comb += [
        finder.request.eq(request),
        finder.logical_bytes.eq(regions.logical_bytes),
        placer.offsets.eq(finder.offsets),
        placer.metadata_base.eq(regions.metadata_base),
        checker.extents.eq(placer.extents),
        checker.metadata_base.eq(regions.metadata_base),
        checker.carve_out_bytes.eq(regions.carve_out_bytes),
        checker.gbbr.eq(regions.gbbr),
    ]
    return SimpleNamespace(offsets=finder.offsets, extents=placer.extents, mapping=checker.mapping)


class Entry:
    """An entry that the solver picks, and where it is, in the plainest way.

    Attributes
    ----------
    request, mapping
    ok : Value
    page, number : Value
        Of the page, and of the entry in all of logical memory.
    device, buddy : (Value, Value)
        The first byte of a slot, and the one behind it; on the buddy link, wide enough for 2^64.
    device_page, buddy_page : (Value, Value)
        The same of all its page's slots; the latter counted from GBBR.
    spills : Value
        There is a buddy slot.
    """

    def __init__(
        self, bench: Bench, config: BuddyConfig, regions: SimpleNamespace, name: str
    ) -> None:
        self.request = free(bench, MapRequest(config), name)
        self.mapping = chain(bench, config, self.request, regions).mapping
        self.ok = self.mapping.status == MapStatus.OK
        page_bits = config.page_bytes.bit_length() - 1
        self.page = self.request.address[page_bits:]
        self.number = self.request.address[ENTRY_BYTES.bit_length() - 1 :]
        target, fields = self.mapping.target, self.request.page.fields
        entries = config.page_bytes // ENTRY_BYTES

        def extent(start: Value, slots: tuple[int, ...], count: int) -> tuple[Value, Value]:
            sizes = [slot * count for slot in slots] + [0] * (_TARGETS - len(slots))
            return start, start + Array(sizes)[target]

        self.device = extent(self.mapping.device_address, DEVICE_SLOT_BYTES, 1)
        self.buddy = extent(self.mapping.buddy_address, BUDDY_SLOT_BYTES, 1)
        frame = self.request.page.frame << page_bits - 4
        unit = fields[:BUDDY_PAGE_BITS] << page_bits - 2
        self.device_page = extent(frame, DEVICE_SLOT_BYTES, entries)
        self.buddy_page = extent(unit, BUDDY_SLOT_BYTES, entries)
        self.spills = self.mapping.compressed & (target != Target.X1)


def disjoint(one: tuple[Value, Value], other: tuple[Value, Value]) -> Value:
    return (one[1] <= other[0]) | (other[1] <= one[0])


def place_proof(config: BuddyConfig) -> Bench:
    """Every byte of a slot, and of metadata, is in its region."""
    bench = Bench()
    regions = regions_of(bench)
    entry = Entry(bench, config, regions, "entry")
    bench.implies(
        entry.ok,
        entry.request.page.mapped,
        entry.request.address < regions.logical_bytes,
        entry.device[1] <= regions.metadata_base,
        entry.mapping.metadata_address
        == regions.metadata_base + entry.request.address // METADATA_RATIO,
        entry.mapping.target < len(Target),
        entry.mapping.compressed | (entry.mapping.target == Target.X1),
    )
    bench.implies(
        entry.ok & entry.spills,
        entry.buddy[0] >= regions.gbbr,
        entry.buddy[1] <= regions.gbbr + regions.carve_out_bytes,
        entry.buddy[1] <= 1 << 64,
    )
    for target in Target:
        bench.cover(entry.ok & (entry.mapping.target == target))
    bench.cover(
        entry.ok & (entry.device[1] == regions.metadata_base),
        entry.ok & entry.spills & (entry.buddy[1] == 1 << 64),
        entry.ok & (entry.mapping.metadata_address == (1 << 40) - 1),
        *(entry.mapping.status == status for status in MapStatus),
    )
    return bench


def pair_proof(config: BuddyConfig, *, same_page: bool) -> Bench:
    """Two entries share no byte of their slots, and not their metadata."""
    bench = Bench()
    regions = regions_of(bench)
    one, other = (Entry(bench, config, regions, name) for name in ("one", "other"))
    both = Signal()
    bench.m.d.comb += both.eq(one.ok & other.ok)
    spill = Signal()
    bench.m.d.comb += spill.eq(both & one.spills & other.spills)
    bench.assume(one.number != other.number)
    if same_page:
        bench.assume(
            one.page == other.page, Value.cast(one.request.page) == Value.cast(other.request.page)
        )
    else:
        # What an allocator owes: pages that do not overlap, in whatever order and with any targets.
        bench.assume(
            one.page != other.page,
            disjoint(one.device_page, other.device_page),
            ~spill | disjoint(one.buddy_page, other.buddy_page),
        )
    bench.implies(both, disjoint(one.device, other.device))
    bench.implies(spill, disjoint(one.buddy, other.buddy))
    nibbles = [Cat(e.mapping.metadata_upper, e.mapping.metadata_address) for e in (one, other)]
    bench.implies(both, nibbles[0] != nibbles[1])
    bench.cover(
        spill & (one.device[1] == other.device[0]),
        spill & (one.buddy[1] == other.buddy[0]),
    )
    if same_page:
        bench.cover(both & (one.mapping.metadata_address == other.mapping.metadata_address))
    else:
        bench.cover(spill & (one.mapping.target != other.mapping.target))
    return bench


ARITHMETIC = {
    "places": place_proof,
    "entries of a page": lambda config: pair_proof(config, same_page=True),
    "entries of two pages": lambda config: pair_proof(config, same_page=False),
}


@pytest.mark.parametrize("proof", ARITHMETIC.values(), ids=ARITHMETIC)
@pytest.mark.parametrize("config", configs(CONFIGS, quick=()))
def test_entries_are_where_they_may_be_and_share_nothing(config, proof, tmp_path):
    check(proof(config), tmp_path, depth=1, cover_depth=1)


def stages_proof(config: BuddyConfig) -> Bench:
    """The stages' output is their input, in order, mapped by the arithmetic above."""
    bench = Bench()
    m = bench.m
    mapper = SectorMapper(config)
    inside = bench.add(mapper)
    regions = regions_of(bench)
    for name in REGIONS:
        m.d.comb += getattr(mapper, name).eq(getattr(regions, name))
    bench.drive(mapper.i)
    bench.watch(mapper.o)

    # The requests that are under way, one for each stage, two in the last.
    last = SkidBuffer(MapRequest(config))
    requests: list[PipelineRegister | SkidBuffer] = [
        PipelineRegister(MapRequest(config)) for _ in range(SectorMapper.translation_latency - 1)
    ]
    m.submodules += requests
    inside_last = bench.add(last)
    requests.append(last)
    m.d.comb += [
        requests[0].i.valid.eq(mapper.i.valid),
        requests[0].i.payload.eq(mapper.i.payload),
        requests[-1].o.ready.eq(mapper.o.ready),
    ]
    for front, back in pairwise(requests):
        m.d.comb += [
            back.i.valid.eq(front.o.valid),
            back.i.payload.eq(front.o.payload),
            front.o.ready.eq(back.i.ready),
        ]
    bench.require(mapper.i.ready == requests[0].i.ready)
    stages = {"found": "offsets", "placed": "extents"}
    for (stage, result), request in zip(stages.items(), requests[:-1], strict=True):
        made = chain(bench, config, request.o.payload, regions)
        valid = inside[f"{stage}.held_valid"]
        bench.require(valid == request.o.valid)
        bench.implies(valid, inside[f"{stage}.held"] == Value.cast(getattr(made, result)))
    for place in ("front", "spare"):
        request = data.View(MapRequest(config), inside_last[place])
        made = chain(bench, config, request, regions)
        valid = inside[f"checked.{place}_valid"]
        bench.require(valid == inside_last[f"{place}_valid"])
        bench.implies(valid, inside[f"checked.{place}"] == Value.cast(made.mapping))
    bench.implies(inside_last["spare_valid"], inside_last["front_valid"])
    # Where all is full, the last stage accepts what is behind it a cycle late.
    waited = bench.progress(mapper.i.valid & mapper.o.ready, mapper.i.ready, cycles=1)
    bench.implies(waited != 0, ~inside_last["spare_valid"])
    return bench


@pytest.mark.parametrize("config", configs(CONFIGS, quick=()))
def test_stages_keep_requests_apart_and_in_order(config, tmp_path):
    prove(stages_proof(config), tmp_path, depth=1)


FAULTS = {
    "slots that overlap": (
        "entries of a page",
        SlotFinder,
        "device_start.eq(_times(first, device))",
        "device_start.eq(_times(first, device) >> 1)",
    ),
    "buddy slots that overlap": (
        "entries of a page",
        SlotFinder,
        "buddy_start.eq(_times(first, buddy))",
        "buddy_start.eq(_times(first[1:], buddy))",
    ),
    "pages in one place": (
        "entries of two pages",
        SlotPlacer,
        "device_page + offsets.device_start",
        "device_page[1:] + offsets.device_start",
    ),
    "buddy pages in one place": (
        "entries of two pages",
        SlotPlacer,
        "buddy_page + offsets.buddy_start",
        "Value.cast(offsets.buddy_start)",
    ),
    "shared metadata": (
        "entries of a page",
        SlotPlacer,
        "offsets.address[_bits(ENTRY_BYTES)]",
        "offsets.address[_bits(ENTRY_BYTES) + 1]",
    ),
    "a slot in the metadata": (
        "places",
        MapChecker,
        "extents.device_end > metadata_start",
        "extents.device_start >= metadata_start",
    ),
    "metadata beyond device memory": (
        "places",
        MapChecker,
        "extents.metadata[DEVICE_ADDRESS_BITS:].any()",
        "extents.metadata[DEVICE_ADDRESS_BITS + 1 :].any()",
    ),
    "a slot beyond the carve-out": (
        "places",
        MapChecker,
        "extents.buddy_end > self.carve_out_bytes",
        "extents.buddy_start > self.carve_out_bytes",
    ),
    "a slot beyond all addresses": (
        "places",
        MapChecker,
        "buddy_end[-1] &",
        "buddy_end[0] & buddy_end[-1] &",
    ),
    "an unmapped page": ("places", SlotFinder, "~page.mapped | ", ""),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_arithmetic_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    proof, component, right, wrong = fault
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(ARITHMETIC[proof](TINY), tmp_path, depth=1)


@pytest.mark.verify
def test_stage_that_loses_what_waits_is_found(tmp_path, monkeypatch):
    break_elaborate(
        monkeypatch,
        SectorMapper,
        "placed.o.ready.eq(checked.i.ready)",
        "placed.o.ready.eq(placed.o.valid)",
    )
    find_fault(stages_proof(TINY), tmp_path, depth=6)
