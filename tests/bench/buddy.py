"""The buddy controller's RTL beside one channel of the paper's GPU: latency, bandwidth, sweeps.

All of it is checked against the golden model, bit for bit.
"""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cdma.golden.buddy.address_map import Target
from cdma.hw.config import BuddyConfig, buddy_preset
from cdma.plan.buddy.profile import profile
from cdma.reproduce.buddy import ALEXNET_FRACTION, ALEXNET_SLOWDOWN
from cdma.sim.buddy import (
    PATTERNS,
    Content,
    Replay,
    expect,
    link_slowdowns,
    load_snapshots,
    pattern_trace,
    replay_trace,
    snapshot_content,
    spilling_content,
    sweep_caches,
)
from cdma.sim.buddy.replay import LINKS_GB_PER_S
from cdma.sim.machine import AccessTrace, BuddyMachineConfig, buddy_machine_config
from cdma.sim.machine.buddy.machine import MOST_READS

CONFIG = "channel"
BYTES = 4 << 20
ACCESSES = 8192
OUTSTANDING = 256
"""More than the controller takes."""
WORKLOAD = "mixed"


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures.

    The first run builds four controllers, which takes some minutes.
    """
    config, machine = buddy_preset(CONFIG), buddy_machine_config(CONFIG)
    return {
        "read_latency_cycles": _latency(console, config, machine),
        "bandwidth": _bandwidth(console, config, machine),
        "link": _link(console, config, machine),
        "cache": _cache(console, config, machine),
    }


def _latency(console: Console, config: BuddyConfig, machine: BuddyMachineConfig) -> dict[str, int]:
    """Measure one read of an entry alone, in cycles from the address to the last beat."""
    memory = machine.environment.dram_latency_cycles
    link = 2 * machine.environment.link_latency_cycles
    cold = AccessTrace.uniform(write=False, address=[0], nbytes=128)
    warm = AccessTrace.uniform(write=False, address=[0, 128], nbytes=128)
    fits, spills = (spilling_content(1 << 16, f, Target.X2, config) for f in (0.0, 1.0))
    figures = {
        "uncompressed": _last_latency(config, machine, fits.uncompressed(), cold),
        "metadata hit": _last_latency(config, machine, fits, warm),
        "metadata hit, spilled": _last_latency(config, machine, spills, warm),
        "metadata miss": _last_latency(config, machine, fits, cold),
        "metadata miss, spilled": _last_latency(config, machine, spills, cold),
    }
    table = _table(
        f"read of an entry, cycles; device memory takes {memory}, the link {link}",
        "",
        "cycles",
        "over uncompressed",
    )
    for name, cycles in figures.items():
        table.add_row(name, f"{cycles}", f"{cycles - figures['uncompressed']:+}")
    console.print(table)
    return figures


def _last_latency(
    config: BuddyConfig, machine: BuddyMachineConfig, content: Content, trace: AccessTrace
) -> int:
    done = _checked(replay_trace(config, expect(content, trace), machine, most_reads=1))
    return int(done.playback.latencies[-1])


def _bandwidth(
    console: Console, config: BuddyConfig, machine: BuddyMachineConfig
) -> dict[str, dict[str, float]]:
    """Measure the bandwidth of streams that do not spill, in GB/s of uncompressed data."""
    contents = {"uncompressed": spilling_content(BYTES, 0, Target.X2, config).uncompressed()}
    for target in list(Target)[1:]:
        contents[f"{target.ratio:.3g}x"] = spilling_content(BYTES, 0, target, config)
    peak = machine.device_bytes_per_s / 1e9
    table = _table(
        f"streams of entries that fit, GB/s; device memory has {peak:.1f}",
        "",
        "reads",
        "writes",
        "half of each",
    )
    figures = {}
    for name, content in contents.items():
        figures[name] = dict[str, float]()
        for kind, reads in (("reads", 1.0), ("writes", 0.0), ("half of each", 0.5)):
            done = _stream(config, machine, content, reads)
            figures[name][kind] = done.bytes_per_s / 1e9
        table.add_row(name, *(f"{gb_per_s:.1f}" for gb_per_s in figures[name].values()))
    console.print(table)
    return figures


def _stream(
    config: BuddyConfig, machine: BuddyMachineConfig, content: Content, reads: float
) -> Replay:
    trace = pattern_trace(content, "stream", accesses=ACCESSES, read_fraction=reads)
    return _checked(
        replay_trace(
            config, expect(content, trace), machine, most_reads=OUTSTANDING, most_writes=OUTSTANDING
        )
    )


def _link(
    console: Console, config: BuddyConfig, machine: BuddyMachineConfig
) -> dict[str, dict[str, float]]:
    """Slowdowns with AlexNet's fraction of buddy accesses, beside the paper's (Fig 11).

    With as many accesses outstanding as `cdma buddy replay` has by itself, and with more than the
    controller takes.
    """
    table = _table(
        f"slowdown of streams with {ALEXNET_FRACTION:.1%} buddy accesses, by the whole GPU's link",
        "",
        *(f"{rate} GB/s" for rate in LINKS_GB_PER_S),
    )
    figures: dict[str, dict[str, float]] = {}
    for outstanding in (MOST_READS, OUTSTANDING):
        for target in (Target.X1_33, Target.X2):
            content = spilling_content(BYTES, ALEXNET_FRACTION, target, config)
            for kind, reads in (("reads", 1.0), ("two reads to a write", 2 / 3)):
                trace = pattern_trace(content, "stream", accesses=ACCESSES, read_fraction=reads)
                found = link_slowdowns(config, content, trace, machine, outstanding=outstanding)
                name = f"{target.ratio:.3g}x, {kind}, {outstanding} outstanding"
                figures[name] = {f"{rate:g}": slowdown for rate, slowdown in found.items()}
                table.add_row(name, *(f"{slowdown:+.1%}" for slowdown in found.values()))
    table.add_row(
        "the paper's AlexNet",
        *(
            f"{ALEXNET_SLOWDOWN[rate]:+.1%}" if rate in ALEXNET_SLOWDOWN else "–"
            for rate in LINKS_GB_PER_S
        ),
    )
    console.print(table)
    return figures


def _cache(
    console: Console, config: BuddyConfig, machine: BuddyMachineConfig
) -> dict[str, dict[str, float]]:
    """Hit rates of metadata caches on our workloads (Fig 5b)."""
    allocations = load_snapshots([WORKLOAD])
    targets = profile(allocations, page_bytes=config.page_bytes).targets()
    content = snapshot_content(allocations, targets, config)
    figures: dict[str, dict[str, float]] = {}
    for pattern in PATTERNS:
        trace = pattern_trace(content, pattern, accesses=ACCESSES, read_fraction=0.75)
        for size, done in sweep_caches(config, expect(content, trace), machine).items():
            figures.setdefault(f"{size}", {})[pattern] = _checked(done).hit_rate or 0.0
    footprint = content.address_map.metadata_bytes
    table = _table(
        f"metadata hits on {WORKLOAD}, whose metadata are {footprint:,} B", "cache", *PATTERNS
    )
    for held, rates in figures.items():
        table.add_row(f"{int(held):,} B", *(f"{rate:.1%}" for rate in rates.values()))
    console.print(table)
    return figures


def _checked(replay: Replay) -> Replay:
    assert replay.bit_exact, replay.faults
    assert np.all(replay.playback.responses == 0)
    return replay


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="right" if heading not in ("", "cache") else "left")
    return table
