"""Content of compressed memory when a trace is replayed, and data of its writes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cdma.golden.buddy.address_map import (
    BUDDY_SLOT_BYTES,
    DEVICE_SLOT_BYTES,
    METADATA_RATIO,
    AddressMap,
    Target,
    spills,
)
from cdma.golden.buddy.entry import ENTRY_BYTES, EntryCodec
from cdma.golden.buddy.memory import BuddyMemory
from cdma.golden.buddy.xc_entry import CENTRE_BITS
from cdma.golden.formats.interface import IntArray, as_bytes
from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import BuddyConfig
from cdma.plan.buddy.page_parameters import page_parameters
from cdma.plan.buddy.snapshots import Allocation
from cdma.sim.machine.bus.machine import whole_pages

GBBR = 1 << 40

_BITS_OF_TARGET = {Target.X1_33: 20, Target.X2: 12, Target.X4: 5, Target.X16: 0}
"""Random numbers of so many bits fill these targets' device slots, as BPC compresses them."""


class ReplayError(Exception):
    """Raised for a replay that cannot be made of its arguments; the message is "cause; mend"."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Region:
    """An allocation in logical memory.

    Attributes
    ----------
    name : str
    target : Target
    before : uint8 array (nbytes,)
        What it holds at first.
    after : uint8 array (nbytes,)
        What writes put there.
    compressed : bool
        If not, it is kept as it is, and has no target.
    parameters : int64 array (pages,), optional
        XC's ten bits of each of its pages, as in `EntryCodec`; without them no page has XC.
    """

    name: str
    target: Target
    before: ByteArray
    after: ByteArray
    compressed: bool = True
    parameters: IntArray | None = None

    def pages(self, page_bytes: int) -> int:
        """Number of whole pages that the region occupies."""
        return -(-self.before.size // page_bytes)

    def allocations(self, page_bytes: int) -> Iterator[tuple[int, dict[str, int]]]:
        """Yield allocations, one behind the other: bytes, and `centre` and `pattern` if need be.

        That is all of it at once, or page by page where pages have parameters of their own.
        """
        if self.parameters is None or not self.compressed:
            yield self.before.size, {}
            return
        for both in self.parameters.tolist():
            centre, pattern = both % 2**CENTRE_BITS, both >> CENTRE_BITS
            yield page_bytes, {"centre": centre, "pattern": pattern}


@dataclass(frozen=True, eq=False)
class Content:
    """Allocations, one behind the other in whole pages, from logical address 0 on.

    Attributes
    ----------
    regions : tuple of Region
    config : BuddyConfig
        Whose pages and codec they have.
    """

    regions: tuple[Region, ...]
    config: BuddyConfig

    def __post_init__(self) -> None:
        if not self.regions:
            raise ReplayError("there is nothing in memory; give data")
        if (pages := self._pages) > self.config.pages:
            raise ReplayError(
                f"the data take {pages} pages, the page table has {self.config.pages}; give less"
            )

    @property
    def address_map(self) -> AddressMap:
        """Smallest memories that hold the content."""
        size = self.config.page_bytes
        logical = self._pages * size
        metadata = logical // METADATA_RATIO
        entries = [r.pages(size) * size // ENTRY_BYTES for r in self.regions]
        targets = [r.target if r.compressed else Target.X1 for r in self.regions]
        device = np.dot(entries, np.array(DEVICE_SLOT_BYTES)[targets])
        buddy = np.dot(entries, np.array(BUDDY_SLOT_BYTES)[targets])
        return AddressMap(
            device_bytes=whole_pages(int(device) + metadata),
            logical_bytes=logical,
            carve_out_bytes=whole_pages(max(1, int(buddy))),
            gbbr=GBBR,
            page_bytes=size,
        )

    @property
    def starts(self) -> list[int]:
        """Logical addresses of the regions."""
        size = self.config.page_bytes
        pages = [region.pages(size) for region in self.regions]
        return [size * sum(pages[:i]) for i in range(len(pages))]

    @property
    def after(self) -> ByteArray:
        """Data of the trace's writes for each byte of logical memory, uint8 (logical_bytes,)."""
        whole = np.zeros(self._pages * self.config.page_bytes, np.uint8)
        for start, region in zip(self.starts, self.regions, strict=True):
            whole[start : start + region.after.size] = region.after
        return whole

    def uncompressed(self) -> "Content":
        """The same content in the paper's large memory, nothing of it compressed."""
        regions = (replace(region, compressed=False) for region in self.regions)
        return Content(tuple(regions), self.config)

    def memory(self) -> BuddyMemory:
        """Golden model of the memory with all of the content."""
        entry = self.config.entry
        memory = BuddyMemory(self.address_map, EntryCodec(entry.mode, entry.element_bytes))
        self.allocate(memory.allocate)
        for start, region in zip(self.starts, self.regions, strict=True):
            memory.write(start, region.before)
        return memory

    def allocate(self, allocate: Callable[..., int]) -> None:
        """Allocate all regions, one behind the other, in memory that is empty.

        Parameters
        ----------
        allocate
            As of `BuddyMemory` or of its driver.
        """
        for start, region in zip(self.starts, self.regions, strict=True):
            address = start
            for nbytes, parameters in region.allocations(self.config.page_bytes):
                found = allocate(nbytes, region.target, compressed=region.compressed, **parameters)
                assert found == address
                address += nbytes

    def units(self, nbytes: int) -> IntArray:
        """Addresses of all aligned pieces of so many bytes of the data, int64.

        Raises
        ------
        ReplayError
            There is none.
        """
        pieces = [
            start + np.arange(region.before.size // nbytes, dtype=np.int64) * nbytes
            for start, region in zip(self.starts, self.regions, strict=True)
        ]
        units = np.concatenate(pieces)
        if not units.size:
            raise ReplayError(f"no allocation has {nbytes} B; take smaller accesses")
        return units

    @property
    def _pages(self) -> int:
        return sum(region.pages(self.config.page_bytes) for region in self.regions)


def snapshot_content(
    allocations: Iterable[Allocation], targets: Mapping[str, Target], config: BuddyConfig
) -> Content:
    """Allocations as their first snapshots have them; writes put there what the last ones have.

    Where entries may be of XC, each page has the parameters that are best for its first content, as
    a driver knows them that has seen it.
    """
    page_bytes = config.page_bytes
    regions = [
        Region(
            name=allocation.name,
            target=targets[allocation.name],
            before=as_bytes(allocation.arrays[0]),
            after=as_bytes(allocation.arrays[-1]),
            parameters=(
                page_parameters(allocation.arrays[0], page_bytes)
                if config.entry.has_parameters
                else None
            ),
        )
        for allocation in allocations
    ]
    return Content(tuple(regions), config)


def spilling_content(
    nbytes: int, fraction: float, target: Target, config: BuddyConfig, *, seed: int = 0
) -> Content:
    """One allocation of random numbers, of which so many entries spill with a target.

    The others just fit its device slot. What writes put there spills in the same places.

    Raises
    ------
    ReplayError
        There is no such allocation: nothing spills with 1x.
    """
    if not 0 <= fraction <= 1:
        raise ReplayError(f"the fraction of buddy accesses must be 0 to 1, not {fraction:g}")
    if target not in _BITS_OF_TARGET:
        raise ReplayError("nothing spills with a target of 1x; choose 1.33, 2, 4 or 16")
    rng = np.random.default_rng(seed)
    entries = nbytes // ENTRY_BYTES
    spilled = rng.permutation(entries) < round(fraction * entries)
    codec = EntryCodec(config.entry.mode, config.entry.element_bytes)

    def numbers() -> ByteArray:
        rows = rng.integers(0, 1 << 32, (entries, ENTRY_BYTES // 4), np.uint32)
        rows[~spilled] &= np.uint32((1 << _BITS_OF_TARGET[target]) - 1)
        assert (spills(target, codec.metadata(rows)) == spilled).all()
        return as_bytes(rows)

    region = Region(name="random", target=target, before=numbers(), after=numbers())
    return Content((region,), config)
