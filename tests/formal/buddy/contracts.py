"""Contracts from Buddy's translations to its memories: which sectors payloads may name.

As `tests/formal/dma/contracts.py` does, for a sector of device memory and one of buddy memory that
no translation names: neither is read or written then. Nor is a line of metadata fetched or written
that holds none of an entry whose translation names them: the solver picks such a line as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Value

from cdma.golden.buddy.address_map import (
    BUDDY_SLOT_BYTES,
    DEVICE_SLOT_BYTES,
    ENTRY_SECTORS,
    Target,
)
from cdma.golden.buddy.entry import ENTRY_BYTES, SECTOR_BYTES
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    ENTRY_OFFSET_BITS,
    SECTOR_OFFSET_BITS,
    AccessStatus,
    AdmittedAccess,
    CollectedWrite,
    EntryAccess,
    EntryRead,
    EntryWrite,
    Mapping,
    MetadataLookup,
    SectorRun,
    StoredEntry,
    WriteKind,
)
from cdma.hw.buddy.read.issue import IssuedRead, LookedUpRead
from cdma.hw.buddy.write.run_writer import WriteRun
from cdma.hw.bus.burst import ReadRequest, WriteRequest
from tests.formal.bench import Bench, Condition, Contract, Port
from tests.formal.dma.contracts import UnnamedMemory, both, page_rules
from tests.formal.rules import ALWAYS


class Choice:
    """As an `Array` of constants, by multiplexers.

    Yosys makes a memory of an `Array`, and an induction begins with anything in it.
    """

    def __init__(self, values: Sequence[int]) -> None:
        self.values = list(values)

    def __getitem__(self, index: Value) -> Value:
        chosen: Value = Const(self.values[0], range(max(self.values) + 1))
        for k, value in enumerate(self.values):
            chosen = Mux(index == k, value, chosen)
        return chosen


@dataclass(frozen=True)
class UnnamedSectors:
    """A sector of each memory, and a line of metadata."""

    device: UnnamedMemory
    buddy: UnnamedMemory
    line: UnnamedMemory

    @classmethod
    def of(cls, bench: Bench, line_bytes: int = SECTOR_BYTES) -> "UnnamedSectors":
        return cls(
            UnnamedMemory(bench, "device", DEVICE_ADDRESS_BITS, SECTOR_BYTES),
            UnnamedMemory(bench, "buddy", BUDDY_ADDRESS_BITS, SECTOR_BYTES),
            UnnamedMemory(bench, "line", DEVICE_ADDRESS_BITS, line_bytes),
        )

    def at(self, address_bits: int) -> tuple[str, UnnamedMemory]:
        """The memory with addresses of so many bits, and its name."""
        if address_bits == DEVICE_ADDRESS_BITS:
            return "device", self.device
        return "buddy", self.buddy


def spared(memory: UnnamedMemory, address: Value, count: Value) -> Condition:
    """So many sectors from the one of an address on are none of the memory's."""
    start = Cat(Const(0, SECTOR_OFFSET_BITS), address[SECTOR_OFFSET_BITS:])
    return memory.spared(start, count * SECTOR_BYTES)


def slot_sectors(mapping: Any, slots: Sequence[int]) -> Value:
    """Sectors of an entry's slot, of the target that it has."""
    return Choice([-(-slot // SECTOR_BYTES) for slot in slots])[mapping.target]


def placed_in_buddy(mapping: Any, sectors: UnnamedSectors) -> list[Condition]:
    """An entry's target, and its slot in buddy memory."""
    slot = slot_sectors(mapping, BUDDY_SLOT_BYTES)
    return [
        (ALWAYS, mapping.target < len(Target)),
        (~mapping.compressed, mapping.target == Target.X1),
        *both(mapping.compressed, [spared(sectors.buddy, mapping.buddy_address, slot)]),
    ]


def elsewhere(address: Value, sectors: UnnamedSectors) -> Condition:
    """The metadata at an address are not in the line."""
    low_bits = (sectors.line.block_bytes - 1).bit_length()
    return ALWAYS, address[low_bits:] != sectors.line.last[low_bits:]


def placed(mapping: Any, sectors: UnnamedSectors) -> list[Condition]:
    """An entry's slots, of the target that it has, and its metadata."""
    slot = slot_sectors(mapping, DEVICE_SLOT_BYTES)
    return [
        *placed_in_buddy(mapping, sectors),
        *both(mapping.compressed, [elsewhere(mapping.metadata_address, sectors)]),
        (~mapping.compressed, mapping.device_address[:ENTRY_OFFSET_BITS] == 0),
        spared(sectors.device, mapping.device_address, slot),
    ]


def within_entry(access: Any) -> list[Condition]:
    """An access has a beat, and its beats end in its entry."""
    first = access.address[:ENTRY_OFFSET_BITS] >> access.size
    return [
        (ALWAYS, access.beats != 0),
        (ALWAYS, ((first + access.beats) << access.size) <= ENTRY_BYTES),
    ]


def contract_of(shape: Any, sectors: UnnamedSectors) -> Contract | None:
    """The contract of a stream with payloads of that shape, if it has one."""

    def named(name: str, conditions: Any) -> Contract:
        def rules(_bench: Bench, port: Port) -> list[Condition]:
            return list(conditions(port.payload))

        return Contract(name, rules)

    def read(entry: Any) -> list[Condition]:
        ok = entry.status == AccessStatus.OK
        return [*within_entry(entry.access), *both(ok, placed(entry.mapping, sectors))]

    def looked_up(item: Any) -> list[Condition]:
        mapping = item.read.mapping
        ok = item.read.status == AccessStatus.OK
        return [
            (ALWAYS, item.looked_up == (mapping.compressed & ok)),
            (ALWAYS, item.sectors <= ENTRY_SECTORS),
            (~ok, item.sectors == 0),
            (item.looked_up, item.sectors == slot_sectors(mapping, DEVICE_SLOT_BYTES)),
            *both(ok, placed_in_buddy(mapping, sectors)),
            *both(ok, [spared(sectors.device, mapping.device_address, item.sectors)]),
        ]

    def issued(item: Any) -> list[Condition]:
        ok = item.read.status == AccessStatus.OK
        return both(ok, placed_in_buddy(item.read.mapping, sectors))

    def written(entry: Any) -> list[Condition]:
        ok = (entry.status == AccessStatus.OK) & (entry.kind != WriteKind.FAILED)
        compressed = entry.kind != WriteKind.UNCOMPRESSED
        # Whatever has become of it since, its metadata are looked up, or poisoned.
        looked_up = compressed & (entry.kind != WriteKind.FAILED)
        return [
            *both(looked_up, [elsewhere(entry.mapping.metadata_address, sectors)]),
            *both(
                ok,
                [(ALWAYS, entry.mapping.compressed == compressed), *placed(entry.mapping, sectors)],
            ),
        ]

    def run(memory: UnnamedMemory, run: Any) -> list[Condition]:
        return [
            (ALWAYS, run.sectors <= ENTRY_SECTORS),
            spared(memory, run.address, run.sectors),
        ]

    def burst(memory: UnnamedMemory, request: Any) -> list[Condition]:
        return [
            *page_rules(request.address, request.beats, SECTOR_BYTES),
            memory.spared(request.address, (request.beats + 1) * SECTOR_BYTES),
        ]

    match shape:
        case EntryAccess():
            return named("EntryAccess", within_entry)
        case CollectedWrite():
            return named("CollectedWrite", lambda write: within_entry(write.access))
        case AdmittedAccess():
            return named("AdmittedAccess", lambda admitted: within_entry(admitted.access))
        case Mapping():
            return named(
                "Mapping",
                lambda place: both(place.status == 0, placed(place, sectors)),
            )
        case EntryRead():
            return named("EntryRead", read)
        case IssuedRead():
            return named("IssuedRead", issued)
        case LookedUpRead():
            return named("LookedUpRead", looked_up)
        case EntryWrite():
            return named("EntryWrite", written)
        case StoredEntry():
            return named("StoredEntry", lambda entry: written(entry.write))
        case MetadataLookup():
            return named(
                "MetadataLookup",
                lambda lookup: [elsewhere(lookup.address, sectors)],
            )
        case SectorRun():
            side, memory = sectors.at(shape["address"].width)
            return named(f"SectorRun, {side}", lambda item: run(memory, item))
        case WriteRun():
            side, memory = sectors.at(shape["run"].shape["address"].width)
            return named(f"WriteRun, {side}", lambda item: run(memory, item.run))
        case ReadRequest() | WriteRequest():
            side, memory = sectors.at(shape["address"].width)
            return named(f"bursts, {side}", lambda item: burst(memory, item))
    return None


def lines_of(sectors: UnnamedSectors) -> Contract:
    """The contract of the metadata cache's requests: each is of a line, and not of that one."""
    line_bytes = sectors.line.block_bytes

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        request = port.payload
        return [
            (ALWAYS, request.address[: (line_bytes - 1).bit_length()] == 0),
            (ALWAYS, request.beats == line_bytes // SECTOR_BYTES - 1),
            elsewhere(request.address, sectors),
        ]

    return Contract("bursts, metadata", rules)
