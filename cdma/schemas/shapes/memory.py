"""Documents about compressed memory: buddy profile and buddy replay."""

from typing import Annotated, NotRequired, TypedDict

from cdma.schemas.shapes.common import (
    Bytes,
    BytesPerSecond,
    Configuration,
    Count,
    Cycles,
    Share,
)


class ProfileMode(TypedDict):
    """A choice of targets."""

    ratio: float
    buddy_access_fraction: Share


class ProfileThreshold(ProfileMode):
    """Targets by another threshold."""

    threshold: Share


class ProfileAllocation(TypedDict):
    """An allocation, and the target that suits it."""

    name: str
    bytes: Bytes
    snapshots: Count
    target: float
    histogram: Annotated[dict[str, float], "share of entries by their size in bytes"]
    overflow: Annotated[dict[str, float], "share of entries that spill, by target"]
    within_96: NotRequired[Annotated[Share, "entries of at most 96 B; with best-of-three"]]
    within_96_without_xc: NotRequired[Annotated[Share, "the same without XC"]]


class ProfileTime(TypedDict):
    """A snapshot's accesses to buddy memory."""

    time: str
    buddy_access_fraction: Share


class Profile(TypedDict):
    """Snapshots of memory, and a target ratio for each allocation."""

    snapshots: list[str]
    codec: str
    element_bytes: int | None
    bf16: NotRequired[Annotated[bool, "with --bf16"]]
    parameters: NotRequired[Annotated[str, "with best-of-three"]]
    threshold: Share
    carve_out: float
    zero_page: bool
    page_bytes: Bytes
    reserved_bytes: Bytes
    device_bytes: Bytes
    buddy_bytes: Bytes
    metadata_bytes: Bytes
    ratio: float
    buddy_access_fraction: Share
    eight_sizes_ratio: float
    modes: dict[str, ProfileMode]
    allocations: list[ProfileAllocation]
    over_time: list[ProfileTime]
    sweep: NotRequired[Annotated[list[ProfileThreshold], "with --sweep-threshold"]]


class ReplayAllocation(TypedDict):
    """An allocation in compressed memory."""

    name: str
    bytes: Bytes
    target: float


class ReplayFigures(TypedDict):
    """A replay, with the controller's counters."""

    name: str
    bit_exact: bool
    cycles: Cycles
    bytes_per_s: BytesPerSecond
    slowdown: Annotated[float, "over uncompressed memory, as a part"]
    mean_read_latency_cycles: float | None
    buddy_access_fraction: Share
    metadata_hit_rate: float | None
    metadata_cache_bytes: Bytes
    link_gb_per_s: float
    link_out_busy: Share
    link_in_busy: Share
    reads: Count
    writes: Count
    partial_writes: Count
    device_sectors_read: Count
    device_sectors_written: Count
    buddy_sectors_read: Count
    buddy_sectors_written: Count
    overfetched_sectors: Count
    spilled: Count
    metadata_hits: Count
    metadata_misses: Count
    metadata_evictions: Count
    stall_hazard: Cycles
    stall_buddy: Cycles


class Replay(TypedDict):
    """Accesses to compressed memory on the RTL, beside the same to uncompressed memory."""

    config: str
    metadata_cache_bytes: Bytes
    link_gb_per_s: float
    trace: Annotated[str | None, "the file; null of a pattern"]
    bf16: NotRequired[Annotated[bool, "with --bf16"]]
    pattern: str | None
    accesses: Count
    outstanding: Annotated[int, "of reads, and of writes, in each channel"]
    channels: int
    seed: int
    clock_hz: float
    configuration: Configuration
    allocations: list[ReplayAllocation]
    bytes: Bytes
    bit_exact: bool
    baseline: ReplayFigures
    runs: list[ReplayFigures]
