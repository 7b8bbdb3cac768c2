"""Compression for bandwidth alone, and Buddy Compression beside it (Buddy Compression, Fig. 11).

Compression for bandwidth alone gives every entry a whole slot of device memory: fewer sectors are
read, but no memory is gained, and nothing spills. The controller's RTL does just that in compressed
pages of 1x. The paper's has no metadata, while the RTL has to know how many sectors to read; so the
reads are measured with metadata at hand, as what a second pass over the same memory takes.
"""

from dataclasses import replace
from functools import cache

import numpy as np

from cdma.golden.buddy.address_map import Target
from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.config import buddy_preset
from cdma.plan.buddy.profile import profile
from cdma.plan.platform.device import Device, device
from cdma.plan.workload.graph import Graph
from cdma.reproduce.larger_batches import NETWORKS
from cdma.sim.buddy import (
    Content,
    ReplayError,
    expect,
    load_snapshots,
    replay_trace,
    snapshot_content,
)
from cdma.sim.machine import AccessTrace, BuddyMachineConfig, buddy_machine_config

CHANNEL = "channel"
"""Controller and memory: one of the paper's 32 channels, with its 32nd of the link."""

OUTSTANDING = 256
"""Reads at once: more than the controller takes."""

WINDOW_BYTES = 512 << 10
"""Memory that is read a second time before what follows it. Its metadata fit the channel's cache
twice."""

BATCH = 64


def reads(content: Content, access_bytes: int, *, passes: int = 1) -> AccessTrace:
    """Read something of every entry, window by window, each window so many times.

    Whole entries come in their order; smaller accesses are one aligned piece of each entry, entries
    and pieces drawn at random, but the same ones each time.
    """
    entries = content.units(ENTRY_BYTES)
    rng = np.random.default_rng(0)
    order = []
    for start in range(0, int(entries[-1]) + 1, WINDOW_BYTES):
        window = entries[(entries >= start) & (entries < start + WINDOW_BYTES)]
        if access_bytes < ENTRY_BYTES:
            pieces = rng.integers(0, ENTRY_BYTES // access_bytes, window.size)
            window = rng.permutation(window) + access_bytes * pieces
        order += [window] * passes
    address = np.concatenate(order)
    return AccessTrace.uniform(
        write=False,
        address=address,
        nbytes=access_bytes,
        id=np.arange(address.size) % (1 << content.config.id_bits),
        beat_bytes=min(access_bytes, content.config.entry.sector_bytes),
    )


def bandwidth_gain(
    content: Content,
    machine: BuddyMachineConfig,
    access_bytes: int,
    *,
    at_hand: bool = True,
    outstanding: int = OUTSTANDING,
) -> float:
    """The gain of reads over those of uncompressed memory, cycles over cycles less 1.

    Parameters
    ----------
    content : Content
        Compressed.
    machine : BuddyMachineConfig
    access_bytes : int
        As of `reads`.
    at_hand : bool
        Whether the metadata are in the controller's cache, or have to come from memory.
    outstanding : int
        Reads at once.

    Raises
    ------
    ReplayError
        A bit differs from the golden model.
    """

    def cycles(of: Content) -> int:
        first = _cycles(of, machine, reads(of, access_bytes), outstanding)
        if not at_hand:
            return first
        return _cycles(of, machine, reads(of, access_bytes, passes=2), outstanding) - first

    return cycles(content.uncompressed()) / cycles(content) - 1


def for_bandwidth(content: Content) -> Content:
    """The same content compressed for bandwidth alone: every page has a target of 1x."""
    regions = (replace(region, target=Target.X1) for region in content.regions)
    return Content(tuple(regions), content.config)


@cache
def workload(*sources: str) -> Content:
    """Snapshots of the middle of a run, with the targets that their profile gives."""
    config = buddy_preset(CHANNEL)
    found = load_snapshots(sources)
    targets = profile(found, page_bytes=config.page_bytes).targets()
    middle = []
    for allocation in found:
        place = slice(len(allocation.times) // 2, len(allocation.times) // 2 + 1)
        middle.append(
            replace(allocation, times=allocation.times[place], arrays=allocation.arrays[place])
        )
    return snapshot_content(middle, targets, config)


@cache
def alone(
    source: str, access_bytes: int, *, at_hand: bool = True, outstanding: int = OUTSTANDING
) -> float:
    """The gain of compression for bandwidth alone on a workload of `cdma buddy profile`."""
    content = for_bandwidth(workload(source))
    machine = buddy_machine_config(CHANNEL)
    return bandwidth_gain(content, machine, access_bytes, at_hand=at_hand, outstanding=outstanding)


@cache
def buddy(source: str, gb_per_s: float) -> float:
    """The gain of Buddy Compression on the same, behind a link of so many GB/s."""
    machine = buddy_machine_config(CHANNEL).with_link(gb_per_s)
    return bandwidth_gain(workload(source), machine, ENTRY_BYTES, at_hand=False)


def step_gains(memory_gain: float) -> dict[str, float]:
    """By network of the paper, the gain of a training step whose memory is faster by so much.

    Layers take the longer of arithmetic and memory, on the paper's GPU: a P100 with its channels.
    """
    return {name: _step_gain(name, memory_gain) for name in NETWORKS}


def _step_gain(network: str, memory_gain: float) -> float:
    found = _gpu()
    plain = faster = 0.0
    for layer in _graph(network).layers:
        for backward in (False, True):
            arithmetic, memory = found.layer_seconds(layer, backward=backward)
            plain += max(arithmetic, memory)
            faster += max(arithmetic, memory / (1 + memory_gain))
    return plain / faster - 1


@cache
def _graph(network: str) -> Graph:
    return Graph.from_table(network, BATCH)


def _gpu() -> Device:
    machine = buddy_machine_config(CHANNEL)
    return replace(device("p100"), dram_bytes_per_s=machine.channels * machine.device_bytes_per_s)


def _cycles(
    content: Content, machine: BuddyMachineConfig, trace: AccessTrace, outstanding: int
) -> int:
    done = replay_trace(content.config, expect(content, trace), machine, most_reads=outstanding)
    if done.faults:
        raise ReplayError(f"{done.faults[0]}; the controller's RTL is wrong")
    return done.cycles
