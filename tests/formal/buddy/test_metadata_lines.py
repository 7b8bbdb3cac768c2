"""Lines of metadata: none is fetched or written that no lookup was in.

The solver picks a line. As long as no lookup is of it, no request of the cache is, whatever memory
answers, whichever bits flip in the tags, and whatever the tags hold before they have been cleared.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Shape, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import data, memory
from amaranth.lib.wiring import In

from cdma.hw.buddy.metadata.cache import MetadataCache
from cdma.hw.buddy.metadata.evictions import EvictionBuffer
from cdma.hw.buddy.metadata.line import (
    LineShape,
    SliceLookup,
    StoreTask,
    TagAccess,
    TagWord,
    Walk,
)
from cdma.hw.buddy.metadata.lookups import LookupArbiter
from cdma.hw.buddy.metadata.metadata import BuddyMetadata
from cdma.hw.buddy.metadata.ports import EvictionPort, LineRequestArbiter, RefillPort
from cdma.hw.buddy.metadata.slice import MetadataSlice
from cdma.hw.buddy.metadata.store import MetadataStore
from cdma.hw.buddy.metadata.tags import MetadataTags
from cdma.hw.buddy.payloads import MetadataLookup
from cdma.hw.bus.burst import ReadRequest, WriteRequest
from cdma.hw.bus.request_arbiter import RequestArbiter
from cdma.hw.config import METADATA_CACHES, MetadataCacheConfig
from cdma.hw.lib.codes.ecc import EccDecoder
from cdma.hw.lib.fork import Fork
from tests.formal.bench import Bench, Condition, Contract, Inside, Port, anything
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.buddy.cached_entry import DRAIN, WALK
from tests.formal.buddy.contracts import UnnamedSectors, contract_of, lines_of
from tests.formal.buddy.metadata_parts import PARTS, PlainEncoder
from tests.formal.queues import FollowedFifo
from tests.formal.rules import ALWAYS
from tests.formal.smtbmc import prove
from tests.formal.wiring import Shell, open_block, streams

CACHES = {name: METADATA_CACHES[name] for name in ("tiny", "slice", "paper_3_2", "paper_table2")}
TINY = CACHES["tiny"]


class FlippingDecoder(EccDecoder):
    """An `EccDecoder` of codewords without check bits, in which one or two bits may have flipped.

    What it is said to give then is proven by trying all flips (`tests/hw/lib/codes`).
    """

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += [
            self.uncorrectable.eq(AnySeq(1)),
            self.corrected.eq(AnySeq(1) & ~self.uncorrectable),
            self.o.eq(Mux(self.uncorrectable, AnySeq(len(self.o)), self.i)),
        ]
        return m


class PickedMemory(memory.Memory):
    """A memory that shows what is at one address.

    Attributes
    ----------
    picked : memory.ReadPort
        Shows what is at `picked.addr`, which is to be driven.
    reads : list[memory.ReadPort]
        The ports that its user has made.
    """

    def __init__(self, *, shape: Any, depth: int, init: Any) -> None:
        super().__init__(shape=shape, depth=depth, init=init)
        self.reads: list[memory.ReadPort] = []
        self.picked = super().read_port(domain="comb")

    def read_port(self, **options: Any) -> memory.ReadPort:
        self.reads.append(super().read_port(**options))
        return self.reads[-1]


@pytest.fixture(autouse=True)
def _parts_are_open(monkeypatch):
    open_parts(monkeypatch)


def open_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show what tags and queues hold, and let bits flip."""
    monkeypatch.setattr(f"{PARTS}.tags.memory", SimpleNamespace(Memory=PickedMemory))
    monkeypatch.setattr(f"{PARTS}.tags.EccEncoder", PlainEncoder)
    monkeypatch.setattr(f"{PARTS}.tags.EccDecoder", FlippingDecoder)
    monkeypatch.setattr(f"{PARTS}.evictions.Fifo", FollowedFifo)


def narrow_lines(monkeypatch: pytest.MonkeyPatch, config: MetadataCacheConfig) -> None:
    """Make the numbers of lines two bits wider than those of sets.

    Where they are moved as a whole, and compared with one another, that is as good as any width;
    with 35 bits the solver had not decided it in a minute.
    """
    shape = LineShape(config)
    low_bits = shape.offset_bits + shape.slice_bits + shape.set_bits
    monkeypatch.setattr(f"{PARTS}.line.DEVICE_ADDRESS_BITS", low_bits + 2)


class UnnamedLine:
    """A line of a slice that no lookup is of, and the contracts inside the slice.

    Attributes
    ----------
    number : Signal
        Of the line in the slice.
    cleared : Signal
        For each way of its set: since the reset, the tags were told to drop what it holds.
    allocated : Signal
        For each number of an eviction: it has been given to one since the reset, or is now.
    were_allocated : Signal
        The same without those of now.
    """

    def __init__(self, bench: Bench, config: MetadataCacheConfig) -> None:
        self.bench = bench
        self.config = config
        self.shape = LineShape(config)
        self.number = Signal(self.shape.line_bits, name="unnamed_line")
        self.set = self.number[: self.shape.set_bits]
        self.tag = self.number[self.shape.set_bits :]
        self.cleared = Signal(config.ways)
        self.allocated = Signal(self.shape.evictions)
        self.were_allocated = Signal(self.shape.evictions)
        bench.m.d.comb += self.number.eq(AnyConst(len(self.number)))
        bench.m.d.sync += self.were_allocated.eq(self.allocated)

    def clears(self, access: Any) -> list[Value]:
        """For each way of its set, whether an access drops what that holds, unseen."""
        is_clear = access.is_walk & access.walk.blind
        in_set = access.lookup.line[: self.shape.set_bits] == self.set
        if not self.shape.set_bits:
            in_set = Const(1)
        return [is_clear & in_set & self._is_way(access, w) for w in range(self.config.ways)]

    def _is_way(self, access: Any, way: int) -> Value:
        return access.way == way if self.shape.way_bits else Const(1)

    def follow_clears(self, tags_input: Any) -> None:
        """Drive `cleared` by what the tags take."""
        moves = tags_input.valid & tags_input.ready
        for w, clears in enumerate(self.clears(tags_input.payload)):
            with self.bench.m.If(moves & clears):
                self.bench.m.d.sync += self.cleared[w].eq(1)

    def follow_allocations(self, allocates: Value, number: Value) -> None:
        """Drive `allocated` by what the tags evict."""
        self.bench.m.d.comb += self.allocated.eq(
            self.were_allocated | (allocates << number)[: self.shape.evictions]
        )

    def any_allocations(self) -> None:
        """Let any numbers be given at any time."""
        self.bench.m.d.comb += self.allocated.eq(self.were_allocated | AnySeq(self.shape.evictions))

    def is_allocated(self, number: Value) -> Value:
        return self.allocated.bit_select(number, 1)

    def is_other(self, number: Value) -> Value:
        return number != self.number

    def _contract(self, name: str, conditions: Any) -> Contract:
        def rules(_bench: Bench, port: Port) -> Sequence[Condition]:
            return list(conditions(port.payload))

        return Contract(name, rules)

    @property
    def lookup(self) -> Contract:
        """The contract of a `SliceLookup`."""
        return self._contract("SliceLookup", lambda item: [(ALWAYS, self.is_other(item.line))])

    @property
    def line(self) -> Contract:
        """The contract of a line to fetch, to evict, or to write."""
        return self._contract("line", lambda item: [(ALWAYS, self.is_other(item))])

    @property
    def command(self) -> Contract:
        """The contract of a `Walk`."""
        return self._contract("Walk", walk_rules)

    @property
    def access(self) -> Contract:
        """The contract of a `TagAccess`."""

        def conditions(item: Any) -> list[Condition]:
            sees = ~(item.is_walk & item.walk.blind)
            return [
                (~item.is_walk, self.is_other(item.lookup.line)),
                (sees, self.cleared.all()),
                *((item.is_walk & premise, then) for premise, then in walk_rules(item.walk)),
            ]

        return self._contract("TagAccess", conditions)

    @property
    def task(self) -> Contract:
        """The contract of a `StoreTask`."""
        return self._contract(
            "StoreTask", lambda item: [(item.evict, self.is_allocated(item.eviction))]
        )

    @property
    def row(self) -> Contract:
        """The contract of an `EvictedRow`."""
        return self._contract(
            "EvictedRow", lambda item: [(ALWAYS, self.is_allocated(item.eviction))]
        )


def walk_rules(walk: Any) -> list[Condition]:
    """A blind walk drops all lines, and writes none."""
    return [(walk.blind, walk.invalidate & ~walk.failed)]


# What is inside a slice


def tags_proof(config: MetadataCacheConfig) -> Bench:
    """Neither fetched nor evicted is the line."""
    bench = Bench()
    tags = MetadataTags(config)
    inside = bench.add(tags, ignored=True)
    line = UnnamedLine(bench, config)
    bench.assume_item(tags.i.valid, tags.i.payload, line.access)
    bench.m.d.comb += [
        tags.i.valid.eq(AnySeq(1)),
        Value.cast(tags.i.payload).eq(AnySeq(len(Value.cast(tags.i.payload)))),
        tags.o.ready.eq(AnySeq(1)),
        tags.fetch.ready.eq(AnySeq(1)),
        *(getattr(tags, name).eq(AnySeq(1)) for name in ("can_fetch", "can_evict", "conflict")),
        tags.failed.eq(AnySeq(1)),
        tags.eviction.eq(AnySeq(len(tags.eviction))),
    ]
    bench.assume(tags.eviction < line.shape.evictions)
    line.follow_clears(tags.i)
    line.follow_allocations(tags.evict, tags.eviction)
    bench.assert_item(tags.fetch.valid, tags.fetch.payload, line.line)
    bench.assert_item(tags.evict, tags.evicted_line, line.line)
    bench.assert_item(tags.o.valid & tags.o.ready, tags.o.payload, line.task)
    require_tags(bench, inside, line)
    return bench


def require_tags(bench: Bench, inside: Inside, line: UnnamedLine) -> None:
    """State what memory and stages hold, and from when on a way is clear."""
    m, config, shape = bench.m, line.config, line.shape
    codewords = inside.component("array.codewords")
    access_shape = TagAccess(config)
    stages = [
        (inside["array.read_valid"], data.View(access_shape, inside["array.read_access"])),
        (inside.register("array.valid"), data.View(access_shape, inside.register("array.access"))),
    ]
    m.d.comb += codewords.picked.addr.eq(line.set)
    bits = TagWord(config).size
    kept = Value.cast(codewords.picked.data)
    read = Value.cast(codewords.reads[0].data)
    in_set = [
        valid & (access.lookup.line[: shape.set_bits] == line.set if shape.set_bits else 1)
        for valid, access in stages
    ]
    word_bits = len(kept) // config.ways
    dropped = Signal(config.ways)
    clears = [line.clears(access) for _, access in stages]
    (reading, read_access), (deciding, access) = stages
    fires = inside["fire"]
    corrected, uncorrectable = (
        inside.register(f"array.{name}") for name in ("corrected", "uncorrectable")
    )
    bench.require((corrected & uncorrectable) == 0)
    for w in range(config.ways):
        word = data.View(TagWord(config), kept[word_bits * w : word_bits * w + bits])
        with m.If(deciding & fires & clears[1][w]):
            m.d.sync += dropped[w].eq(1)
        waits = (reading & clears[0][w]) | (deciding & clears[1][w])
        bench.implies(dropped[w] | waits, line.cleared[w])
        bench.implies(line.cleared[w] & ~dropped[w], waits)
        bench.implies(dropped[w], ~(word.valid & (word.tag == line.tag)))
        # What is read is what is kept, but for bits that have flipped.
        place = slice(word_bits * w, word_bits * w + word_bits)
        bench.implies(in_set[0], read[place] == kept[place])
        decoded = inside[f"array.word_{w}"]
        bench.implies(
            in_set[1] & ~uncorrectable[w],
            decoded == Value.cast(word),
        )
        sees = [~(one.is_walk & one.walk.blind) for one in (read_access, access)]
        bench.implies(reading & sees[0], dropped[w] | (deciding & clears[1][w]))
        bench.implies(deciding & sees[1], dropped[w])
    for valid, one in stages:
        bench.implies(valid & ~one.is_walk, line.is_other(one.lookup.line))
        for premise, then in walk_rules(one.walk):
            bench.implies(valid & one.is_walk & premise, then)


def store_proof(config: MetadataCacheConfig) -> Bench:
    """Rows have the number of the eviction that they are of."""
    bench = Bench()
    store = MetadataStore(config)
    inside = bench.add(store, ignored=True)
    line = UnnamedLine(bench, config)
    line.any_allocations()
    bench.assume_item(store.i.valid, store.i.payload, line.task)
    for signal in (store.i.valid, store.o.ready, store.rows.ready, store.fill_complete):
        bench.m.d.comb += signal.eq(AnySeq(1))
    for value in (store.i.payload, store.fill_error, store.fill_data, store.failed_set):
        bench.m.d.comb += Value.cast(value).eq(AnySeq(len(Value.cast(value))))
    bench.m.d.comb += store.failed_way.eq(AnySeq(len(store.failed_way)))
    bench.assert_item(store.rows.valid, store.rows.payload, line.row)
    for stage in ("reading", "decoded"):
        task = data.View(StoreTask(config), inside[f"{stage}_task"])
        bench.implies(inside[f"{stage}_evict"], line.is_allocated(task.eviction))
    return bench


def evictions_proof(config: MetadataCacheConfig) -> Bench:
    """A request is of a line that was evicted, of the number that the solver picks."""
    bench = Bench()
    evictions = EvictionBuffer(config)
    inside = bench.add(evictions, ignored=True)
    line = UnnamedLine(bench, config)
    m = bench.m
    for signal in (evictions.allocate, evictions.rows.valid, evictions.drop):
        m.d.comb += signal.eq(AnySeq(1))
    for signal in (evictions.beats.ready, evictions.request.ready, evictions.response.valid):
        m.d.comb += signal.eq(AnySeq(1))
    for value in (evictions.line, evictions.query, evictions.rows.payload, evictions.dropped):
        m.d.comb += Value.cast(value).eq(AnySeq(len(Value.cast(value))))
    m.d.comb += Value.cast(evictions.response.payload).eq(AnySeq(2))
    line.follow_allocations(evictions.allocate, evictions.number)
    bench.assume_item(evictions.allocate, evictions.line, line.line)
    bench.assume_item(evictions.rows.valid, evictions.rows.payload, line.row)
    # Of the queue of requests, the solver follows any one.
    requests = inside.component("requests")
    m.d.comb += requests.follows.eq(AnySeq(1))
    requests.require(bench, inside, "requests.")
    given = line.were_allocated
    bench.require(evictions.number < line.shape.evictions)
    for k in range(line.shape.evictions):
        bench.implies(requests.followed & (requests.item == k), given[k])
        bench.implies(given[k], line.is_other(inside[f"line_{k}"]))
    is_followed = requests.followed & (requests.ahead == 0)
    bench.assert_item(evictions.request.valid & is_followed, evictions.request.payload, line.line)
    return bench


def slice_proof(config: MetadataCacheConfig) -> Bench:
    """The parts of a slice give anything that keeps their contracts."""
    bench = Bench()
    part = MetadataSlice(config)
    module = part.elaborate(None)
    part._MustUse__used = True
    bench.subject = "MetadataSlice"
    line = UnnamedLine(bench, config)
    parts: dict[str, Any] = {}
    for name, (inner, src_loc) in list(module._named_submodules.items()):
        if name == "fsm":
            continue
        parts[name] = inner
        module._named_submodules[name] = (Shell(inner), src_loc)
    inside = bench.add(module, ignored=True)
    tags, tasks, store = parts["tags"], parts["tasks"], parts["store"]
    evictions = parts["evictions"]
    line.follow_clears(tags.i)
    line.follow_allocations(evictions.allocate, evictions.number)
    bench.assume(evictions.number < line.shape.evictions)
    for source, contract in ((part.lookup, line.lookup), (part.command, line.command)):
        bench.m.d.comb += anything(source)
        bench.assume_item(source.valid, source.payload, contract)
    waits = Signal()
    bench.m.d.sync += waits.eq(part.command.valid & ~part.command.ready)
    bench.assume(~waits | part.command.valid | ResetSignal())
    for output in (part.o, part.read_request, part.write_request, part.write_beats):
        bench.m.d.comb += output.ready.eq(AnySeq(1))
    for source in (part.read_beats, part.write_response):
        bench.m.d.comb += anything(source)
    bench.child("MetadataTags", True, tags.i.valid, tags.i.payload, line.access)
    bench.child("MetadataTags", False, tags.fetch.valid, tags.fetch.payload, line.line)
    bench.child("MetadataTags", False, tags.evict, tags.evicted_line, line.line)
    bench.child("MetadataTags", False, tags.o.valid & tags.o.ready, tags.o.payload, line.task)
    bench.child("Fifo", True, tasks.i.valid & tasks.i.ready, tasks.i.payload, line.task)
    bench.child("Fifo", False, tasks.o.valid, tasks.o.payload, line.task)
    bench.child("MetadataStore", True, store.i.valid, store.i.payload, line.task)
    bench.child("MetadataStore", False, store.rows.valid, store.rows.payload, line.row)
    rows, request = evictions.rows, evictions.request
    bench.child("EvictionBuffer", True, evictions.allocate, evictions.line, line.line)
    bench.child("EvictionBuffer", True, rows.valid, rows.payload, line.row)
    bench.child("EvictionBuffer", False, request.valid, request.payload, line.line)
    fetches = parts["fetches"]
    bench.child("SkidBuffer", True, fetches.i.valid, fetches.i.payload, line.line)
    bench.child("SkidBuffer", False, fetches.o.valid, fetches.o.payload, line.line)
    for requests in (part.read_request, part.write_request):
        bench.assert_item(requests.valid, requests.payload, line.line)
    require_walks(bench, inside, line, part)
    return bench


def require_walks(bench: Bench, inside: Inside, line: UnnamedLine, part: MetadataSlice) -> None:
    """State how far the walk has come that drops all lines."""
    config, shape = line.config, line.shape
    state = inside["fsm_state"]
    walk = data.View(Walk(), inside.register("walk"))
    count = inside.register("line")
    for premise, then in walk_rules(walk):
        bench.implies(premise, then)
    waits_for_command = (state == DRAIN) & ~inside.register("failed") & ~ResetSignal()
    bench.implies(waits_for_command, part.command.valid)
    for w in range(config.ways):
        position = Cat(Const(w, shape.way_bits), line.set)
        has_come = ~((state == WALK) & walk.blind) | (count > position)
        bench.implies(has_come, line.cleared[w])
    bench.implies(~((state == WALK) & walk.blind), line.cleared.all())


SLICE_PROOFS = {
    "tags": tags_proof,
    "store": store_proof,
    "evictions": evictions_proof,
    "slice": slice_proof,
}
SLICE_CASES = {
    f"{part}-{name}": (part, config) for part in SLICE_PROOFS for name, config in CACHES.items()
}


@pytest.mark.verify
@pytest.mark.parametrize(("part", "config"), SLICE_CASES.values(), ids=SLICE_CASES)
def test_a_slice_asks_for_no_line_but_those_of_its_lookups(part, config, tmp_path, monkeypatch):
    if part == "evictions":
        narrow_lines(monkeypatch, config)
    prove(SLICE_PROOFS[part](config), tmp_path, depth=1, cover_depth=8)


# The slices together

DECIDING = (Fork, RequestArbiter)
"""Components of a cache that decide whose turn it is: they are no stand-ins."""


def shared_proof(block: Any, config: MetadataCacheConfig) -> Bench:
    """Requests of a block are none of the line, if its lookups and its slices' requests are not."""
    bench = Bench()
    sectors = UnnamedSectors.of(bench, config.line_bytes)
    shape = LineShape(config)

    def contract_at(item: Any, place: int, _port: Any) -> Contract | None:
        if isinstance(item, ReadRequest | WriteRequest):
            return lines_of(sectors)
        if isinstance(item, SliceLookup):
            return of_slice("SliceLookup", place, lambda lookup: lookup.line)
        if isinstance(item, Walk):
            return Contract("Walk", lambda _bench, port: walk_rules(port.payload))
        if isinstance(item, MetadataLookup):
            return contract_of(item, sectors)
        if isinstance(item, int | Shape) and Shape.cast(item).width == shape.line_bits:
            return of_slice("line", place, lambda number: number)
        return None

    def of_slice(name: str, number: int, line_in: Any) -> Contract:
        def rules(_bench: Bench, port: Port) -> list[Condition]:
            whole = Cat(Const(number, shape.slice_bits), line_in(port.payload))
            return [(ALWAYS, whole != sectors.line.last[shape.offset_bits :])]

        return Contract(name, rules)

    inside = open_block(bench, block, contract_at)
    for name, (part, src_loc) in list(inside._named_submodules.items()):
        if isinstance(part, DECIDING):
            continue
        inside._named_submodules[name] = (Shell(part), src_loc)
        number = int(name.removeprefix("slice_")) if name.startswith("slice_") else None
        for flow, item, place, port in streams(part):
            contract = contract_at(item, place if number is None else number, port)
            if contract is not None:
                bench.child(type(part).__name__, flow is In, port.valid, port.payload, contract)
    # Without its assertions a domain must have a statement.
    inside.d.sync += Signal(name="unused").eq(0)
    opened = bench.add(inside, ignored=True)
    if isinstance(block, MetadataCache):
        for premise, then in walk_rules(data.View(Walk(), opened.register("walk"))):
            bench.implies(premise, then)
    return bench


def lookups_proof(config: MetadataCacheConfig) -> Bench:
    """The arbiter passes on what a source offers."""
    bench = Bench()
    arbiter = LookupArbiter(3, 4)
    inside = bench.add(arbiter, ignored=True)
    contract = contract_of(MetadataLookup(), UnnamedSectors.of(bench, config.line_bytes))
    assert contract is not None
    granted = inside["stalled_grants"]
    ports = [bench.drive(lookup, contract) for lookup in arbiter.lookup]
    for k, port in enumerate(ports):
        bench.implies(inside["stalled"] & granted[k], port.waiting)
    bench.implies(inside["stalled"], granted.any())
    bench.m.d.comb += [
        *anything(arbiter.cache_hint),
        *anything(arbiter.cache_result),
        arbiter.cache_lookup.ready.eq(AnySeq(1)),
        arbiter.hint.ready.eq(AnySeq(1)),
        *(result.ready.eq(1) for result in arbiter.result),
    ]
    # In reset, a lookup may go away that was granted.
    given = arbiter.cache_lookup
    bench.assert_item(given.valid & ~ResetSignal(), given.payload, contract)
    return bench


@pytest.mark.verify
def test_lookups_are_passed_on_as_they_are_offered(tmp_path):
    prove(lookups_proof(TINY), tmp_path, depth=1, cover_depth=8)


BLOCKS: dict[str, Callable[[MetadataCacheConfig], Any]] = {
    "metadata": lambda config: BuddyMetadata(config, sources=3, lookups=4),
    "cache": MetadataCache,
    "refills": RefillPort,
    "evictions": EvictionPort,
    "requests": LineRequestArbiter,
}
SHARED_CASES = {
    f"{block}-{name}": (block, config)
    for block in BLOCKS
    for name, config in CACHES.items()
    # Alone, a slice has no ports to share.
    if config.slices > 1 or block in ("metadata", "cache")
}


@pytest.mark.verify
@pytest.mark.parametrize(("block", "config"), SHARED_CASES.values(), ids=SHARED_CASES)
def test_the_cache_asks_for_no_line_but_those_of_its_lookups(block, config, tmp_path):
    prove(shared_proof(BLOCKS[block](config), config), tmp_path, depth=1, cover_depth=4)


def contract_benches(monkeypatch: pytest.MonkeyPatch) -> list[Bench]:
    """The proofs of the smallest cache, and of one with several slices, that state contracts."""
    open_parts(monkeypatch)
    several = CACHES["paper_3_2"]
    return [
        *(proof(TINY) for proof in SLICE_PROOFS.values()),
        lookups_proof(TINY),
        *(shared_proof(BLOCKS[block](several), several) for block in BLOCKS),
        shared_proof(MetadataCache(TINY), TINY),
    ]


FAULTS = {
    "evicts by the lookup's tag": (
        *("tags", MetadataTags),
        "self.evicted_line.eq(Cat(array.set, victim.tag))",
        "self.evicted_line.eq(Cat(array.set, victim.tag + 1))",
    ),
    "evicts what has flipped": (
        *("tags", MetadataTags),
        "tag_error.eq(array.uncorrectable.any())",
        "tag_error.eq(array.uncorrectable[0])",
    ),
    "fetches the line behind": (
        *("tags", MetadataTags),
        "self.fetch.payload.eq(line)",
        "self.fetch.payload.eq(line + 1)",
    ),
    "keeps what a walk is to drop": (
        *("tags", MetadataTags),
        "with m.If(access.drops):",
        "with m.If(access.drops & (array.access.way == 0)):",
    ),
    "rows of the next eviction": (
        *("store", MetadataStore),
        "self.rows.payload.eviction.eq(step.task.eviction)",
        "self.rows.payload.eviction.eq(step.task.eviction + 1)",
    ),
    "requests of the next eviction": (
        *("evictions", EvictionBuffer),
        "requests.i.payload.eq(row.eviction)",
        "requests.i.payload.eq(row.eviction + 1)",
    ),
    "walks that end a line early": (
        *("slice", MetadataSlice),
        "with m.If(line == shape.lines - 1):",
        "with m.If(line == shape.lines - 2):",
    ),
    "lookups while a walk is under way": (
        *("slice", MetadataSlice),
        "access.is_walk.eq(1),",
        "access.is_walk.eq(line[0]),",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS)
def test_a_slice_that_asks_for_another_line_is_found(fault, tmp_path, monkeypatch):
    part, component, right, wrong = FAULTS[fault]
    break_elaborate(monkeypatch, component, right, wrong)
    if part == "evictions":
        narrow_lines(monkeypatch, TINY)
    find_fault(SLICE_PROOFS[part](TINY), tmp_path, depth=12)


SHARED_FAULTS = {
    "lines of another slice": (
        *("requests", LineRequestArbiter),
        "Const(k, shape.slice_bits)",
        "Const(0, shape.slice_bits)",
    ),
    "a row too many": (
        *("requests", LineRequestArbiter),
        "request.payload.beats.eq(shape.rows - 1)",
        "request.payload.beats.eq(shape.rows)",
    ),
    "lookups of the next slice": (
        *("cache", MetadataCache),
        "lookup_slice == k if",
        "lookup_slice == len(slices) - 1 - k if",
    ),
    "clears that keep lines": (
        *("cache", MetadataCache),
        'Walk().const({"invalidate": 1, "blind": 1})',
        'Walk().const({"blind": 1})',
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", SHARED_FAULTS)
def test_a_cache_that_asks_for_another_line_is_found(fault, tmp_path, monkeypatch):
    block, component, right, wrong = SHARED_FAULTS[fault]
    break_elaborate(monkeypatch, component, right, wrong)
    config = CACHES["paper_3_2"]
    find_fault(shared_proof(BLOCKS[block](config), config), tmp_path, depth=6)


@pytest.mark.verify
def test_lookups_that_come_without_a_source_are_found(tmp_path, monkeypatch):
    break_elaborate(monkeypatch, LookupArbiter, "space & valid.any()", "space")
    find_fault(lookups_proof(TINY), tmp_path, depth=4)
