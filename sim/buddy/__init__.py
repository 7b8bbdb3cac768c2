"""Buddy Compression in software: what a programmer does before there is a compressed allocation.

Snapshots of memory (`snapshots`) are measured per allocation and given target ratios (`profile`,
`targets`; Buddy Compression, §3.4), and drawn (`heat_map`; Fig 6).
"""

from sim.buddy.heat_map import heat_map_png
from sim.buddy.profile import (
    AllocationProfile,
    Annotation,
    Mode,
    Profile,
    ProfileError,
    profile,
)
from sim.buddy.snapshots import (
    WORKLOADS,
    Allocation,
    SnapshotError,
    Time,
    load_snapshots,
    read_arrays,
)

__all__ = [
    "WORKLOADS",
    "Allocation",
    "AllocationProfile",
    "Annotation",
    "Mode",
    "Profile",
    "ProfileError",
    "SnapshotError",
    "Time",
    "heat_map_png",
    "load_snapshots",
    "profile",
    "read_arrays",
]
