"""The profiling pass of Buddy Compression (§3.4): from snapshots to targets, by allocation.

What is defined here, and where the paper leaves it open, is in docs/guide/buddy/buddy-profile.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cdma.golden.buddy.address_map import (
    DEVICE_SLOT_BYTES,
    METADATA_RATIO,
    MIN_PAGE_BYTES,
    Target,
    spills,
)
from cdma.golden.buddy.entry import (
    AS_IT_IS,
    BEST_OF_THREE,
    ENTRY_BYTES,
    MODES,
    SIZES,
    XC_METADATA,
    EntryCodec,
)
from cdma.golden.formats.interface import IntArray, element_bytes_of
from cdma.golden.formats.stream import ByteArray
from cdma.plan.buddy.page_parameters import of_entries, page_parameters
from cdma.plan.buddy.snapshots import Allocation, Time
from cdma.plan.buddy.targets import TargetChoice, buddy_bytes, choose, choose_single, device_bytes

Floats = npt.NDArray[np.float64]

THRESHOLD = 0.30
CARVE_OUT = 3.0
"""The paper's final design (§3.5)."""

NAIVE = "naive"
PER_ALLOCATION = "per-allocation"
ZERO_PAGE = "per-allocation+zero-page"
BEST = "best-achievable"

PARAMETERS = ("before", "own")
"""The snapshots that pages have their parameters from."""

_SIZES = np.array(SIZES)
_SPILLS = np.array([spills(target, np.arange(len(SIZES))) for target in Target])


class ProfileError(Exception):
    """A profile that cannot be made of what was asked for; the message is "cause; mend"."""


class Annotation(NamedTuple):
    """The annotation of an allocation that a program gives its allocator (§3.5)."""

    name: str
    nbytes: int
    target: Target


@dataclass(frozen=True)
class TargetResult:
    """The result of a policy for target ratios.

    Attributes
    ----------
    ratio : float
        Pages over the device memory that they take, metadata aside.
    buddy_access_fraction : float
        How many of the accesses need buddy memory, if all entries are accessed alike.
    """

    ratio: float
    buddy_access_fraction: float


@dataclass(frozen=True, eq=False, kw_only=True)
class AllocationProfile:
    """The compressibility of an allocation.

    Attributes
    ----------
    name : str
    nbytes : int
    times : tuple of Time
    classes : uint8 array (times, entries)
        Size classes, 0 to 7 (`cdma.golden.buddy.entry.SIZES`), of its entries at each time.
    third_code_entries : int
        How many entries, of all times together, the third code of "best-of-three" brings to 96 B.
        Without it these would be in class 7.
    """

    name: str
    nbytes: int
    times: tuple[Time, ...]
    classes: ByteArray
    third_code_entries: int = 0

    @property
    def entries(self) -> int:
        """Entries of 128 B, the last of them zero-filled."""
        return self.classes.shape[1]

    @property
    def is_constant(self) -> bool:
        """True if it never changes: there is one snapshot, and no time in its name."""
        return len(self.times) == 1 and not self.times[0].order

    @cached_property
    def counts(self) -> IntArray:
        """Number of entries in each size class at each time, int64 (times, 8)."""
        return np.array([np.bincount(row, minlength=len(SIZES)) for row in self.classes])

    @property
    def histogram(self) -> Floats:
        """The share of entries in each class, averaged over the snapshots, float64 (8,)."""
        return self.counts.sum(axis=0) / self.classes.size

    @property
    def overflow(self) -> Floats:
        """The share of entries that spill with each target, averaged likewise, float64 (5,)."""
        # One division of whole numbers, for a share of 3 in 10 has to be within 30 %.
        return _SPILLS @ self.counts.sum(axis=0) / self.classes.size

    @property
    def within_96(self) -> float:
        """The share of entries that take 96 B or less, averaged likewise."""
        return int(self.counts[:, :AS_IT_IS].sum()) / self.classes.size

    @property
    def within_96_by_two(self) -> float:
        """The same without the third code."""
        by_two = int(self.counts[:, :AS_IT_IS].sum()) - self.third_code_entries
        return by_two / self.classes.size

    @property
    def mean_entry_bytes(self) -> float:
        """Mean bytes of an entry in its size class; at least its 4 bits of metadata."""
        mean = float(self.counts.sum(axis=0) @ _SIZES / self.classes.size)
        return max(mean, ENTRY_BYTES / METADATA_RATIO)


@dataclass(frozen=True, eq=False, kw_only=True)
class Profile:
    """Allocations with their targets.

    Another threshold, as in `sweep`, needs no new measurement: `dataclasses.replace`.

    Attributes
    ----------
    allocations : tuple of AllocationProfile
    threshold : float
        The Buddy Threshold: how many of an allocation's entries may spill, 0 to 1.
    carve_out : float
        Buddy memory per device memory.
    zero_page : bool
        Whether allocations that are mostly zero get 16x.
    page_bytes : int
        A power of two of at least 8192. Allocations take whole pages.

    Raises
    ------
    ProfileError
        No allocations, or a parameter out of range.
    """

    allocations: tuple[AllocationProfile, ...]
    threshold: float = THRESHOLD
    carve_out: float = CARVE_OUT
    zero_page: bool = True
    page_bytes: int = MIN_PAGE_BYTES

    def __post_init__(self) -> None:
        if not self.allocations:
            raise ProfileError("there are no allocations; give snapshots of some")
        if not 0 <= self.threshold <= 1:
            raise ProfileError(
                f"the Buddy Threshold must be 0 to 1, not {self.threshold:g}; give 0.3"
            )
        if not 0 <= self.carve_out < float("inf"):
            raise ProfileError(f"the carve-out must be 0 or more, not {self.carve_out:g}; give 3")
        size = self.page_bytes
        if size < MIN_PAGE_BYTES or size & (size - 1):
            raise ProfileError(_no_page(size))

    def targets(self) -> dict[str, Target]:
        """The target of each allocation, by name."""
        names = (allocation.name for allocation in self.allocations)
        return dict(zip(names, self._final, strict=True))

    def annotations(self) -> list[Annotation]:
        """The allocator's input: names, bytes and targets, in order."""
        return [
            Annotation(allocation.name, allocation.nbytes, target)
            for allocation, target in zip(self.allocations, self._final, strict=True)
        ]

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the allocations without compression: whole pages."""
        return int(self._paged_entries.sum()) * ENTRY_BYTES

    @property
    def device_bytes(self) -> int:
        """Device memory that they take with their targets, metadata aside."""
        return device_bytes(self._paged_entries, self._final)

    @property
    def buddy_bytes(self) -> int:
        """Buddy memory that they reserve with their targets."""
        return buddy_bytes(self._paged_entries, self._final)

    @property
    def metadata_bytes(self) -> int:
        """Metadata of all pages."""
        return self.reserved_bytes // METADATA_RATIO

    @property
    def ratio(self) -> float:
        """Pages over the device memory that they take."""
        return self.reserved_bytes / self.device_bytes

    @property
    def buddy_access_fraction(self) -> float:
        """See `TargetResult`."""
        return self._spilled(self._final)

    @property
    def eight_sizes_ratio(self) -> float:
        """The paper's Fig 3: entries in eight sizes that nothing has to be packed for."""
        return self._ratio_of([allocation.mean_entry_bytes for allocation in self.allocations])

    def modes(self) -> dict[str, TargetResult]:
        """Compare four policies, each with a ratio no lower than the one before.

        naive
            One target for everything: the largest, up to 4x, with which the overflow of all
            entries together is within the threshold and that is not above the ratio of
            per-allocation targets.
        per-allocation
            Each allocation's largest target, up to 4x, with an overflow within the threshold.
        per-allocation+zero-page
            16x as well, while buddy slots take no more than the carve-out.
        best-achievable
            Each allocation takes either its entries' size classes, with no packing and no buddy
            memory, or the slots of its largest target within the threshold, the carve-out being
            as large as need be, whichever is less.
        """
        choice = self._choice
        plain = self._mode(choice.per_allocation)
        return {
            NAIVE: self._mode((self._naive(plain.ratio),) * len(self.allocations)),
            PER_ALLOCATION: plain,
            ZERO_PAGE: self._mode(choice.with_zero_page),
            BEST: self._best(),
        }

    def sweep(self, thresholds: Iterable[float]) -> dict[float, TargetResult]:
        """Ratio and buddy accesses with other thresholds (Fig 9)."""
        profiles = ((t, replace(self, threshold=t)) for t in thresholds)
        return {t: TargetResult(p.ratio, p.buddy_access_fraction) for t, p in profiles}

    def over_time(self) -> dict[str, float]:
        """The fraction of buddy accesses at each time, with these constant targets (Fig 8).

        By the times' labels, in order. At each time, those allocations count that have a
        snapshot then, and those that never change.
        """
        changing = (a for a in self.allocations if not a.is_constant)
        times = sorted({time for allocation in changing for time in allocation.times})
        return {time.label: self._spilled_at(time) for time in times or [Time(0, (), "")]}

    @cached_property
    def _paged_entries(self) -> IntArray:
        pages = [-(-allocation.nbytes // self.page_bytes) for allocation in self.allocations]
        return np.array(pages) * (self.page_bytes // ENTRY_BYTES)

    @cached_property
    def _overflow(self) -> Floats:
        return np.array([allocation.overflow for allocation in self.allocations])

    @cached_property
    def _choice(self) -> TargetChoice:
        return choose(self._paged_entries, self._overflow, self.threshold, self.carve_out)

    @property
    def _final(self) -> tuple[Target, ...]:
        return self._choice.with_zero_page if self.zero_page else self._choice.per_allocation

    def _naive(self, limit: float) -> Target:
        weights = np.array([allocation.entries for allocation in self.allocations])
        overflow = weights @ self._overflow / weights.sum()
        return choose_single(self._paged_entries, overflow, self.threshold, self.carve_out, limit)

    def _mode(self, targets: Sequence[Target]) -> TargetResult:
        ratio = self.reserved_bytes / device_bytes(self._paged_entries, targets)
        return TargetResult(ratio, self._spilled(targets))

    def _best(self) -> TargetResult:
        targets = [
            max(target for target in Target if allocation.overflow[target] <= self.threshold)
            for allocation in self.allocations
        ]
        slots = [DEVICE_SLOT_BYTES[target] for target in targets]
        sizes = [allocation.mean_entry_bytes for allocation in self.allocations]
        taken = [min(size, slot) for size, slot in zip(sizes, slots, strict=True)]
        # What is in its size class does not spill; nor does anything with 1x.
        spilling = [
            target if slot <= size else Target.X1
            for target, size, slot in zip(targets, sizes, slots, strict=True)
        ]
        return TargetResult(self._ratio_of(taken), self._spilled(spilling))

    def _ratio_of(self, entry_bytes: Sequence[float]) -> float:
        return self.reserved_bytes / float(self._paged_entries @ np.array(entry_bytes))

    def _spilled(self, targets: Sequence[Target]) -> float:
        weights = np.array([allocation.entries for allocation in self.allocations])
        spilled = self._overflow[np.arange(len(targets)), list(targets)]
        return float(weights @ spilled / weights.sum())

    def _spilled_at(self, time: Time) -> float:
        spilled = entries = 0
        for allocation, target in zip(self.allocations, self._final, strict=True):
            if allocation.is_constant or time in allocation.times:
                row = 0 if allocation.is_constant else allocation.times.index(time)
                spilled += int(_SPILLS[target] @ allocation.counts[row])
                entries += allocation.entries
        return spilled / entries


def profile(
    allocations: Iterable[Allocation],
    *,
    threshold: float = THRESHOLD,
    codec: str = "best-of",
    element_bytes: int | None = None,
    carve_out: float = CARVE_OUT,
    zero_page: bool = True,
    page_bytes: int = MIN_PAGE_BYTES,
    parameters: str = "before",
) -> Profile:
    """Measure allocations and choose their targets.

    Parameters
    ----------
    allocations : iterable of Allocation
    codec : "best-of", "bpc" or "best-of-three"
        What entries are compressed with; see `cdma.golden.buddy.entry.EntryCodec`.
    element_bytes : int, optional
        ZVC's element size; by default each array's own, and 4 for types of 8 bytes or more.
    threshold, carve_out, zero_page, page_bytes
        See `Profile`.
    parameters : "before" or "own"
        Snapshots from which "best-of-three" has the parameters of pages: of the time before, and
        the first one's own, as a driver knows them; or each one's own.

    Raises
    ------
    ProfileError
        As `Profile`, and an unknown codec or origin of parameters.
    golden.CodecError
        An element size that ZVC does not have.
    """
    for name, value, known in (
        ("codec", codec, MODES),
        ("origin of parameters", parameters, PARAMETERS),
    ):
        if value not in known:
            raise ProfileError(f"unknown {name} {value!r}; choose {' or '.join(known)}")
    if page_bytes < MIN_PAGE_BYTES or page_bytes & (page_bytes - 1):
        raise ProfileError(_no_page(page_bytes))
    return Profile(
        allocations=tuple(
            _measure(allocation, codec, element_bytes, page_bytes, parameters)
            for allocation in allocations
        ),
        threshold=threshold,
        carve_out=carve_out,
        zero_page=zero_page,
        page_bytes=page_bytes,
    )


def _measure(
    allocation: Allocation,
    codec: str,
    element_bytes: int | None,
    page_bytes: int,
    parameters: str,
) -> AllocationProfile:
    rows, of_third_code = [], 0
    before: IntArray | None = None
    for array in allocation.arrays:
        entry_codec = EntryCodec(codec, element_bytes or element_bytes_of(array.dtype))
        page_bits: IntArray | int = 0
        if codec == BEST_OF_THREE:
            own = page_parameters(array, page_bytes)
            used = own if before is None or parameters == "own" else before
            page_bits = of_entries(used, -(-array.nbytes // ENTRY_BYTES), page_bytes)
            before = own
        metadata = entry_codec.metadata(array, page_bits)
        of_third_code += int(np.count_nonzero(metadata == XC_METADATA))
        rows.append(entry_codec.classes(metadata, page_bits))
    classes = np.array(rows)
    return AllocationProfile(
        name=allocation.name,
        nbytes=allocation.nbytes,
        times=allocation.times,
        classes=classes,
        third_code_entries=of_third_code,
    )


def _no_page(size: int) -> str:
    return f"a page must be a power of two of at least 8192 B, not {size}; give 65536"
