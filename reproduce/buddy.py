"""Buddy Compression: E. Choukse et al., Buddy Compression (ISCA 2020)."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from cdma.golden.buddy.address_map import (
    BUDDY_SLOT_BYTES,
    DEVICE_SLOT_BYTES,
    FIELD_BITS,
    METADATA_RATIO,
    Target,
    split_sectors,
)
from cdma.golden.buddy.entry import ENTRY_BYTES, METADATA_BITS, SECTOR_BYTES, SIZES
from cdma.hw.codec.entry.compressor import EntryCompressor
from cdma.hw.codec.entry.decompressor import EntryDecompressor
from cdma.hw.config import METADATA_CACHES, EntryConfig, buddy_preset
from cdma.plan.buddy.profile import CARVE_OUT, THRESHOLD, profile
from cdma.plan.papers import printed
from cdma.reproduce import bandwidth_compression, larger_batches, scenarios
from cdma.reproduce.claim import Kind, Measured, Paper
from cdma.reproduce.rtl_cycles import cycles_to_output
from cdma.sim.buddy import Profile, link_slowdowns, load_snapshots, pattern_trace, spilling_content
from cdma.sim.buddy.replay import LINKS_GB_PER_S
from cdma.sim.machine import buddy_machine_config
from cdma.sim.machine.buddy.config import BUDDY_MACHINES
from cdma.sim.machine.buddy.machine import MOST_READS

PRINTED = printed("buddy")
PAPER = Paper("buddy", "Buddy Compression (E. Choukse et al., ISCA 2020)", PRINTED)

ALEXNET_FRACTION = PRINTED["alexnet"]["spilled_percent"] / 100
"""The share of AlexNet's accesses that go to buddy memory (§4.2)."""
ALEXNET_SLOWDOWN = {
    gbps: PRINTED["alexnet"][f"slowdown_{gbps}_percent"] / 100 for gbps in (150, 50)
}
"""By GB/s of the link (§4.2)."""

READS = 8192
CONTENT_BYTES = 4 << 20
OUTSTANDING = (MOST_READS, 256)
"""Reads at once: what `cdma buddy replay` has by itself, and more than the controller takes."""

THRESHOLDS = (0.1, 0.2, 0.3, 0.4)
"""The thresholds of Fig. 9, from the least to the most."""

FIRST_DOUBLING = 0.02
"""The least that the doubling of a small minibatch is to gain (Fig. 13b)."""

LEAST_GAIN = 0.01
"""The least that compression is to gain where it gains most (Fig. 13c)."""

TRAINING = "digits-cnn-training"
"""The workload of `cdma buddy profile` that stands for the paper's trainings in Fig. 11."""
SOLVERS = ("indices", "shallow-water")
"""Those that stand for its HPC benchmarks."""

FINAL_DESIGN = 2
"""The place of the final design, by allocation and with 16×, among the ratios of `modes`."""

_MEASURED = {
    "training": ("digits-cnn-training",),
    "solvers": ("heat", "shallow-water", "indices"),
}
_UNDER = "best-of codec; a digits CNN in training, and small solvers, for the paper's GPU dumps"


@PAPER.exact("§3.1", "sizes of compressed entries", kind=Kind.CONSTANT)
def _sizes() -> Measured:
    return Measured(f"{', '.join(map(str, SIZES))} B", list(SIZES) == PRINTED["sizes"]["sizes"])


@PAPER.exact("§3.2", "targets, and their sectors in device memory")
def _targets() -> Measured:
    ratios = [f"{target.ratio:.3g}" for target in list(Target)[:4]]
    dense = np.full(1, len(SIZES) - 1, np.uint8)
    sectors = [int(split_sectors(target, dense)[0][0]) for target in list(Target)[:4]]
    figure = PRINTED["targets"]
    return Measured(
        f"{', '.join(ratios)}×: {', '.join(map(str, sectors))}",
        (ratios, sectors) == ([f"{ratio:g}" for ratio in figure["ratios"]], figure["sectors"]),
    )


@PAPER.exact("§3.2", "metadata of all memory, entries per line of 32 B", kind=Kind.CONSTANT)
def _metadata() -> Measured:
    share = 1 / METADATA_RATIO
    entries = METADATA_CACHES["paper_3_2"].line_bytes * 8 // METADATA_BITS
    figure = PRINTED["metadata"]
    return Measured(
        f"{share:.2%}, {entries}",
        (f"{share:.1%}", entries - 1) == (f"{figure['percent']}%", figure["neighbors"]),
    )


@PAPER.exact("§3.2", "bits that page-table entries grow by", kind=Kind.CONSTANT)
def _page_table() -> Measured:
    return Measured(f"{FIELD_BITS}", PRINTED["page-table"]["bits"] == FIELD_BITS)


@PAPER.exact("§3.2", "carve-out for 4× at most", kind=Kind.CONSTANT)
def _carve_out() -> Measured:
    most = BUDDY_SLOT_BYTES[Target.X4] / DEVICE_SLOT_BYTES[Target.X4]
    return Measured(f"{most:g}×", most == CARVE_OUT == PRINTED["carve-out"]["times"])


@PAPER.exact("§3.5", "the threshold of the final design", kind=Kind.CONSTANT)
def _default_threshold() -> Measured:
    return Measured(f"{THRESHOLD:.0%}", PRINTED["default-threshold"]["percent"] == THRESHOLD * 100)


@PAPER.exact("§3.2", "a GPU of 12 GB with targets of 2×", kind=Kind.ARITHMETIC)
def _capacity() -> Measured:
    figure = PRINTED["capacity"]
    found = figure["memory_gb"] * figure["target"]
    return Measured(f"{found:g} GB", found == figure["data_gb"])


@PAPER.exact("§4.1", "cycles to compress an entry, and to decompress it")
def _latency() -> Measured:
    config = EntryConfig()
    compress = cycles_to_output(EntryCompressor(config), config.sectors)
    restore = cycles_to_output(EntryDecompressor(config), 1)
    return Measured(
        f"{compress} and {restore} of the RTL with {config.sector_bytes} B sectors",
        compress == restore == PRINTED["latency"]["cycles"],
    )


@PAPER.exact("§3.4", "the link's share of device bandwidth", kind=Kind.ARITHMETIC)
def _disparity() -> Measured:
    figure = PRINTED["disparity"]
    found = figure["device_gbps"] / figure["link_gbps"]
    return Measured(f"{found:g}×", found == figure["times"])


@PAPER.exact("Table 2", "memory channels and link of the paper's GPU", kind=Kind.CONSTANT)
def _channels() -> Measured:
    figure, machine = PRINTED["channels"], BUDDY_MACHINES["channel"]
    return Measured(
        f"{machine.channels} at {machine.clock_hz / 1e6:g} MHz, "
        f"{machine.link_bytes_per_s / 1e9:g} GB/s",
        (machine.channels, machine.clock_hz / 1e6, machine.link_bytes_per_s / 1e9)
        == (figure["channels"], figure["mhz"], figure["link_gbps"]),
    )


@PAPER.exact("§3.2, §3.5, Table 2", "the metadata cache", kind=Kind.CONSTANT, slip=True)
def _cache() -> Measured:
    figure = PRINTED["cache"]
    one, other = METADATA_CACHES["paper_3_2"], METADATA_CACHES["paper_table2"]
    return Measured(
        f"{one.capacity_bytes >> 10} KiB, lines of {one.line_bytes} B; or {other.slices} slices of "
        f"4, {other.capacity_bytes >> 10} KiB, of {other.line_bytes} B: both are presets",
        [one.capacity_bytes >> 10, one.slices, one.line_bytes]
        == [figure["whole_kb"], figure["slices"], figure["line_bytes"]]
        and [other.capacity_bytes >> 10, other.slices, other.line_bytes]
        == [
            figure["slice_kb"] * figure["l2_slices"],
            figure["l2_slices"],
            figure["l2_line_bytes"],
        ]
        and one.capacity_bytes != other.capacity_bytes,
    )


@PAPER.exact("Table 1", "footprint of 370.bt", kind=Kind.ARITHMETIC, slip=True)
def _footprint() -> Measured:
    sizes, units = (PRINTED.tables["1"].column(name) for name in ("footprint", "unit"))
    hpc = [size for name, size in sizes.items() if name[0].isdigit() or name.startswith("FF")]
    others = [size for size in hpc if size != sizes["370.bt"]]
    return Measured(
        f"the other HPC footprints are {min(others):g} to {max(others):g} GB; GB is meant",
        units["370.bt"] == "MB" and min(others) < sizes["370.bt"] * 1.1 < max(others),
    )


@cache
def _profiles() -> Mapping[str, Profile]:
    return {name: profile(load_snapshots(sources)) for name, sources in _MEASURED.items()}


@PAPER.shape(
    "§3.4, Fig. 7",
    "naive < per allocation ≤ with 16× < best achievable",
    under=_UNDER,
)
def _modes() -> Measured:
    parts, holds = [], True
    for name, found in _profiles().items():
        ratios = [mode.ratio for mode in found.modes().values()]
        naive, by_allocation, with_zero_page, best = ratios
        holds &= naive < by_allocation <= with_zero_page < best
        parts.append(f"{name} {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    return Measured("; ".join(parts), holds)


@PAPER.shape(
    "§3.4, Fig. 9",
    "a higher threshold: higher ratio, more buddy accesses",
    under=_UNDER,
)
def _threshold() -> Measured:
    parts, holds = [], True
    for name, found in _profiles().items():
        modes = list(found.sweep(THRESHOLDS).values())
        for a, b in pairwise(modes):
            holds &= a.ratio <= b.ratio
            holds &= a.buddy_access_fraction <= b.buddy_access_fraction
        ends = (modes[0], modes[-1])
        holds &= ends[0].ratio < ends[1].ratio
        holds &= ends[0].buddy_access_fraction < ends[1].buddy_access_fraction
        shown = (f"{m.ratio:.2f}× with {m.buddy_access_fraction:.1%}" for m in ends)
        parts.append(f"{name} {' to '.join(shown)}")
    return Measured("; ".join(parts), holds)


@PAPER.exact("§3.4", "a target above 4×, for what is mostly zero", kind=Kind.CONSTANT)
def _zero_page() -> Measured:
    found = Target.X16.ratio
    slot = DEVICE_SLOT_BYTES[Target.X16]
    return Measured(
        f"{found:g}× by {slot} B",
        (found, slot, ENTRY_BYTES) == tuple(PRINTED["zero-page"].values.values()),
    )


@PAPER.shape(
    "§4.2",
    "AlexNet's share of buddy accesses costs more behind a slower link",
    under=f"the controller's RTL beside one of 32 channels; a stream of {READS:,} reads, 5.4 % of "
    "whose entries spill, evenly spread; targets of 2×; beside uncompressed memory. The direction "
    "is the paper's, the size is not: few outstanding reads do not hide the link's latency, which "
    "comes after that of metadata that are not at hand",
    long=True,
)
def _alexnet() -> Measured:
    config, machine = buddy_preset("channel"), buddy_machine_config("channel")
    content = spilling_content(CONTENT_BYTES, ALEXNET_FRACTION, Target.X2, config)
    trace = pattern_trace(content, "stream", accesses=READS, read_fraction=1.0)
    parts, holds = [], True
    for outstanding in OUTSTANDING:
        found = link_slowdowns(
            config, content, trace, machine, ALEXNET_SLOWDOWN, outstanding=outstanding
        )
        holds &= found[150] < found[50]
        shown = "; ".join(f"{gbps}: {slowdown:+.1%}" for gbps, slowdown in found.items())
        parts.append(f"{outstanding} reads outstanding {shown}")
    return Measured(". ".join(parts), holds)


@PAPER.shape(
    "§4.2, Fig. 11",
    "compression for bandwidth alone: reads of whole entries are faster, of single sectors slower",
    under="the controller's RTL beside one of 32 channels, pages of 1×, reads alone, 256 "
    "outstanding, metadata at hand, as the paper's bandwidth compression has none; snapshots of "
    "our workloads; the traces do nothing but read, so that the size is not that of whole steps. "
    "Where metadata come from memory first, all sectors have been read by then, and nothing is "
    "gained; where few reads are outstanding, latency is all that counts",
    long=True,
)
def _bandwidth_only() -> Measured:
    whole = {name: _alone(name, ENTRY_BYTES) for name in (TRAINING, *SOLVERS)}
    sectors = {name: _alone(name, SECTOR_BYTES) for name in whole}
    not_at_hand = _alone(TRAINING, ENTRY_BYTES, at_hand=False)
    few = _alone(TRAINING, ENTRY_BYTES, outstanding=MOST_READS)
    return Measured(
        f"entries in order {scenarios.listed(whole, '+.1%')}; a sector of each at random "
        f"{scenarios.listed(sectors, '+.1%')}; entries of {TRAINING} {not_at_hand:+.1%} without "
        f"metadata at hand, {few:+.1%} with {MOST_READS} reads outstanding",
        min(whole.values()) > 0 > max(sectors.values()),
    )


def _alone(
    name: str, access_bytes: int, *, at_hand: bool = True, outstanding: int = OUTSTANDING[1]
) -> float:
    return bandwidth_compression.alone(name, access_bytes, at_hand=at_hand, outstanding=outstanding)


@PAPER.shape(
    "§4.2, Fig. 11",
    "Buddy Compression gains less than compression for bandwidth alone, the less the slower the "
    "link",
    under="the same, but for Buddy the targets of its profile, and metadata that come from memory; "
    "steps: layers of six networks on a P100 with 900 GB/s take the longer of arithmetic and "
    "memory, which is faster by the gain of the training's reads. The order is claimed, and no "
    "size: the mean of steps is of six trainings, the paper's of HPC, too, and behind slow links "
    "the paper's are slower than uncompressed memory, ours mostly not: 9 % of the training's "
    "entries spill, evenly spread, and the link is less than half busy",
    long=True,
)
def _links() -> Measured:
    links = sorted(LINKS_GB_PER_S, reverse=True)
    parts, holds = [], True
    for name in (TRAINING, *SOLVERS):
        gains = [_alone(name, ENTRY_BYTES)]
        gains += [bandwidth_compression.buddy(name, gb_per_s) for gb_per_s in links]
        holds &= all(a > b for a, b in pairwise(gains))
        parts.append(f"{name} {_percentages(gains)}")
        if name == TRAINING:
            steps = [scenarios.mean(bandwidth_compression.step_gains(gain)) for gain in gains]
            holds &= steps[0] > 0
            parts.append(f"its steps {_percentages(steps)}")
    return Measured(f"alone, {', '.join(map(str, links))} GB/s: {'; '.join(parts)}", holds)


def _percentages(gains: Sequence[float]) -> str:
    return ", ".join(f"{gain:+.1%}" for gain in gains)


@PAPER.shape(
    "Fig. 13b",
    "a larger minibatch is faster, until the GPU is full",
    under="layers' products as waves of tiles on a Titan Xp, at declared parts of its peak",
)
def _plateau() -> Measured:
    small, large = zip(*map(_doublings, larger_batches.NETWORKS), strict=True)
    shown = (f"{min(gains):+.1%} to {max(gains):+.1%}" for gains in (small, large))
    return Measured(
        "8 to 16: {}; 128 to 256: {}".format(*shown),
        min(small) > FIRST_DOUBLING and all(0 <= b < a for a, b in zip(small, large, strict=True)),
    )


def _doublings(network: str) -> tuple[float, float]:
    """The gains of doubling a small minibatch, and a large one."""
    speeds = [larger_batches.throughput(network, batch) for batch in (8, 16, 128, 256)]
    return speeds[1] / speeds[0] - 1, speeds[3] / speeds[2] - 1


@PAPER.shape(
    "Fig. 13c",
    "the minibatch that compression makes room for is faster, BigLSTM's among the most",
    under="the same; 12 GB, and 1.5 times that. The direction is the paper's, the size is not: our "
    "footprints leave room for minibatches that fill the GPU without compression, VGG16 has 160 "
    "where the paper's has not 64",
    long=True,
)
def _larger_batches() -> Measured:
    ratio = PRINTED["modes"]["dl"][FINAL_DESIGN]
    found = {name: larger_batches.larger_batches(name, ratio) for name in larger_batches.NETWORKS}
    gains = {name: each.gain for name, each in found.items()}
    mean = sum(gains.values()) / len(gains)
    shown = ", ".join(f"{n} {e.plain} to {e.compressed} {e.gain:+.1%}" for n, e in found.items())
    return Measured(
        f"mean {mean:+.1%}: {shown}",
        all(each.compressed > each.plain for each in found.values())
        and min(gains.values()) >= 0
        and gains["biglstm"] == max(gains.values()) > LEAST_GAIN,
    )


PAPER.not_claimable(
    "ratios",
    "§3.5",
    "ratios and buddy accesses, HPC and DL",
    needs="memory dumps of SpecAccel, DoE proxies and ImageNet trainings",
)
PAPER.not_claimable(
    "benchmarks",
    "§3.4",
    "SqueezeNet, ResNet-50; 354.cg, 370.bt; HPGMG's best needs a threshold above",
    needs="the same",
)
PAPER.not_claimable(
    "performance",
    "§4.2",
    "slower than uncompressed memory behind 150 and 50 GB/s, on average",
    needs="their simulator; the controller's RTL on our traces is in "
    "docs/guide/buddy/buddy-replay.md",
)
PAPER.not_claimable(
    "training",
    "§4.3, §4.4",
    "oversubscribed by half; correlation with V100",
    needs="their simulator and GPU",
)
