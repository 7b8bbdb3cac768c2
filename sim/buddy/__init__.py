"""Buddy Compression in software: what a programmer does before there is a compressed allocation.

Snapshots of memory (`snapshots`) are measured per allocation and given target ratios (`profile`,
`targets`; Buddy Compression, §3.4), and drawn (`heat_map`; Fig 6). Traces (`patterns`) of accesses
to them (`content`) are replayed on the controller's RTL (`replay`) and held to the golden model
(`expected`).
"""

from cdma.plan.buddy.heat_map import heat_map_picture
from cdma.plan.buddy.profile import (
    AllocationProfile,
    Annotation,
    Profile,
    ProfileError,
    TargetResult,
    profile,
)
from cdma.plan.buddy.snapshots import (
    WORKLOADS,
    Allocation,
    SnapshotError,
    Time,
    in_bf16,
    load_snapshots,
    read_arrays,
)
from cdma.sim.buddy.channels import ChannelsReplay, replay_channels, split
from cdma.sim.buddy.content import Content, Region, ReplayError, snapshot_content, spilling_content
from cdma.sim.buddy.expected import Expected, expect
from cdma.sim.buddy.replay import Replay, link_slowdowns, replay_trace, sweep_caches, sweep_links
from cdma.sim.buddy.traces import PATTERNS, load_trace, pattern_trace

__all__ = [
    "PATTERNS",
    "WORKLOADS",
    "Allocation",
    "AllocationProfile",
    "Annotation",
    "ChannelsReplay",
    "Content",
    "Expected",
    "Profile",
    "ProfileError",
    "Region",
    "Replay",
    "ReplayError",
    "SnapshotError",
    "TargetResult",
    "Time",
    "expect",
    "heat_map_picture",
    "in_bf16",
    "link_slowdowns",
    "load_snapshots",
    "load_trace",
    "pattern_trace",
    "profile",
    "read_arrays",
    "replay_channels",
    "replay_trace",
    "snapshot_content",
    "spilling_content",
    "split",
    "sweep_caches",
    "sweep_links",
]
