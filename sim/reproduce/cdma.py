"""cDMA: M. Rhu et al., Compressing DMA Engine (HPCA 2018)."""

from collections.abc import Mapping
from functools import cache, partial
from itertools import pairwise

import numpy as np

import golden
from hw.codec.zvc import ZvcCompressor, ZvcDecompressor
from hw.config import preset
from sim.driver import THROTTLES
from sim.link import link
from sim.reproduce import roofline, scenes
from sim.reproduce.claim import Measured, Paper
from sim.reproduce.rtl import elaborated
from sim.schedule.device import device
from sim.schedule.policies import cdma, vdnn
from sim.workload import load_capture
from sim.workload.graph import Graph
from sim.workload.layouts import LAYOUTS, relayout
from sim.workload.networks.batches import CDMA

PAPER = Paper("cdma", "cDMA (M. Rhu et al., HPCA 2018)")

MASK = 1 / 32
"""Of a dense stream: a bit per fp32 element (§V-A)."""
GBPS = 16
"""PCIe gen3, as the paper counts it."""

_TIMED = "roofline, PCIe gen3 at 80 %, all activations leave, capture at mid-training"


def _ratio(density: float) -> float:
    """Of real streams with that share of elements that are not zero."""
    data = np.zeros(32 * 1000, np.float32)
    data[: round(data.size * density)] = 1
    data = np.random.default_rng(0).permutation(data)
    return data.nbytes / golden.codec("zvc").compress(data).size


@PAPER.exact("§V-A", "32 zeros, and the overhead of dense data", "32×, 3.1 %")
def _extremes() -> Measured:
    zeros, overhead = _ratio(0), 1 / _ratio(1) - 1
    return Measured(f"{zeros:g}×, {overhead:.3%}", (zeros, round(overhead, 12)) == (32, MASK))


@PAPER.exact("§V-A", "60 % zeros", "2.5×", slip=True)
def _sixty() -> Measured:
    ratio = _ratio(0.4)
    holds = f"{ratio:.3f}" == "2.319" and f"{1 / 0.4:g}" == "2.5"
    return Measured(f"{ratio:.3f}× with the mask; 2.5× only without", holds)


@PAPER.exact("§IV, §VII-A", "62 % zeros on average, and 2.6× on average, go together", "both")
def _averages() -> Measured:
    of_mean = 1 / (0.38 + MASK)
    ratios = np.array([1 / (a.density + MASK) for a in load_capture("digits-cnn").activations])
    densities = [a.density for a in load_capture("digits-cnn").activations]
    mean, together = ratios.mean(), 1 / (np.mean(densities) + MASK)
    return Measured(
        f"38 % dense is {of_mean:.2f}×; a mean of ratios is never less than the ratio of a mean "
        f"(capture: {mean:.2f}×, {together:.2f}×)",
        f"{of_mean:.2f}" == "2.43" and of_mean <= 2.6 and mean >= together,
    )


@PAPER.exact("§V-B", "reads to fill PCIe at 13.8×", "16 × 13.8 = 220.8 GB/s")
def _crossbar() -> Measured:
    found = link("pcie3x16").bytes_per_s * 13.8 / 1e9
    return Measured(
        f"{found:.1f} GB/s; 13.8× needs a density of {1 / 13.8 - MASK:.1%}",
        f"{found:.1f}" == "220.8",
    )


@PAPER.exact("§V-C", '200 GB/s, "i.e." 13.8 × 16 GB/s', "the same", slip=True)
def _cap() -> Measured:
    cap = THROTTLES["performance-optimal"].bytes_per_s / 1e9
    return Measured(
        f"{13.8 * GBPS:.1f} GB/s; with {cap:.0f}, no ratio above {cap / GBPS:g} is used",
        cap / GBPS == 12.5,
    )


@PAPER.exact("§V-C", "200 GB/s for 350 ns", "70 KB of buffer")
def _buffer() -> Measured:
    nbytes = THROTTLES["performance-optimal"].bytes_per_s * 350e-9
    built = preset("titanx_gen3").buffer_bytes
    return Measured(
        f"{nbytes:,.0f} B; the engine has {built // 1024} KiB", round(nbytes) == 70_000 <= built
    )


@PAPER.exact("§VI", "reads on average", "16 × 2.6 = 41.3 GB/s", slip=True)
def _average_reads() -> Measured:
    return Measured(f"{GBPS * 2.6:.1f} GB/s", f"{GBPS * 2.6:.1f}" == "41.6")


@PAPER.exact("§V-D, §VII-B", "left of DRAM bandwidth; the throttle", "336 − 100 = 236; 3 × 16 = 48")
def _left() -> Measured:
    left = device("titanx").dram_bytes_per_s / 1e9 - 100
    throttle = THROTTLES["bandwidth-aware"].bytes_per_s / 1e9
    return Measured(f"{left:.0f}; {throttle:.0f}", (left, throttle) == (236, 3 * GBPS))


@PAPER.exact("§V-B", "8 words a cycle, 4 sectors: cycles to compress a line", "6")
def _latency() -> Measured:
    config = preset("titanx_gen3").codec
    cycles = elaborated(ZvcCompressor(config)).line_latency
    lanes = config.lanes
    return Measured(
        f"{cycles}: {config.sectors} − 1 sectors and 3 stages of the RTL, {lanes} words wide",
        (cycles, lanes, config.sectors) == (6, 8, 4),
    )


@PAPER.exact("§V-B", "cycles that decompression adds", "2")
def _expansion() -> Measured:
    cycles = elaborated(ZvcDecompressor(preset("titanx_gen3").codec)).sector_latency
    return Measured(f"{cycles}, of the RTL", cycles == 2)


@PAPER.exact("§V-B", "adders of an 8-wide prefix sum", "eleven of 3 bits")
def _adders() -> Measured:
    lanes = preset("titanx_gen3").codec.lanes
    adders = 2 * lanes - 2 - (lanes.bit_length() - 1)
    return Measured(f"{adders} (Brent and Kung: 2n − 2 − log2 n)", adders == 11)


@PAPER.exact("Table I", "four years' growth of arithmetic and bandwidth", "3×, 3.2×", slip=True)
def _growth() -> Measured:
    old, new = device("k40"), device("v100")
    flops = new.peak_flops / old.peak_flops
    bandwidth = new.dram_bytes_per_s / old.dram_bytes_per_s
    return Measured(f"{flops:g}×, {bandwidth:g}×", (flops, bandwidth) == (3, 3.125))


@PAPER.exact("Table II", "minibatches", "256, 256, 128, 128, 512, 256")
def _batches() -> Measured:
    found = [Graph.from_table(name).batch for name in CDMA]
    return Measured(", ".join(map(str, found)), found == [256, 256, 128, 128, 512, 256])


@cache
def _sizes() -> Mapping[str, Mapping[str, int]]:
    """Bytes of the capture's 4-D activations by codec and layout."""
    arrays = [a.array for a in load_capture("digits-cnn").activations if a.array.ndim == 4]
    laid = {layout: [relayout(array, layout) for array in arrays] for layout in LAYOUTS}
    return {
        name: {
            layout: sum(golden.codec(name).compress(array).size for array in same)
            for layout, same in laid.items()
        }
        for name in ("zvc", "rle", "deflate")
    }


@PAPER.exact("§VII-A", "ZVC's ratio in the three layouts", "the same")
def _layouts() -> Measured:
    zvc = _sizes()["zvc"]
    text = ", ".join(f"{layout} {size:,} B" for layout, size in zvc.items())
    return Measured(text, len(set(zvc.values())) == 1)


@PAPER.shape("§VII-A", "RLE and zlib are best in NCHW", "yes", under="digits CNN's activations")
def _best_layout() -> Measured:
    ratios = {
        name: {layout: _sizes()[name]["NCHW"] / size for layout, size in _sizes()[name].items()}
        for name in ("rle", "deflate")
    }
    text = "; ".join(f"{name} {scenes.listed(found, '.2f')}" for name, found in ratios.items())
    return Measured(f"of NCHW's ratio: {text}", all(max(r.values()) == 1 for r in ratios.values()))


def _densities(layer: str) -> list[float]:
    """Over the capture's epochs."""
    found = [a for a in load_capture("digits-cnn").activations if a.layer == layer]
    return [a.density for a in sorted(found, key=lambda a: a.epoch)]


@PAPER.shape("§IV", "pooling raises density", "always", under="digits CNN, all epochs")
def _pooling() -> Measured:
    pairs = [
        (before, behind)
        for i in range(3)
        for before, behind in zip(_densities(f"conv{i}.relu"), _densities(f"pool{i}"), strict=True)
    ]
    denser = sum(behind > before for before, behind in pairs)
    return Measured(f"{denser} of {len(pairs)}", denser == len(pairs))


@PAPER.shape("§IV", "later convolutions are sparser", "in general", under="digits CNN, trained")
def _later() -> Measured:
    last = {f"conv{i}": _densities(f"conv{i}.relu")[-1] for i in range(3)}
    return Measured(
        f"density {scenes.listed(last, '.2f')}", all(a > b for a, b in pairwise(last.values()))
    )


@PAPER.shape("§IV", "density falls as training begins", "all layers", under="digits CNN, conv1, 2")
def _falling() -> Measured:
    found = {f"conv{i}": _densities(f"conv{i}.relu")[:2] for i in (1, 2)}
    text = ", ".join(f"{name} {first:.2f} to {then:.2f}" for name, (first, then) in found.items())
    return Measured(text, all(then < first for first, then in found.values()))


PAPER.not_claimable(
    "sparsity",
    "§IV",
    "sparsity: average, most, AlexNet's; density of conv0; the late rise",
    "62, 93, 49.4 %; 50 ± 2 %; a U",
    needs="their networks trained on ImageNet",
    here=lambda: f"the digits' conv0 {', '.join(f'{d:.0%}' for d in _densities('conv0.relu'))}",
)
PAPER.not_claimable(
    "ratios",
    "§VII-A",
    "ZVC's ratio, average and most; zlib's; its gain on SqueezeNet and GoogLeNet, and on average",
    "2.6×, 13.8×; 2.76×; 8, 30, 3 %",
    needs="the same activations",
)
PAPER.not_claimable(
    "accuracies",
    "Table II",
    "top-1 and top-5, iterations",
    "53.1/75.1, 226K …",
    needs="the same trainings",
)
PAPER.not_claimable(
    "area",
    "§V-C",
    "area of codecs and buffer, and of a gen5 engine, in 28 nm",
    ".31 + .21 = .52 mm²; 1.5 mm²",
    needs="their library and its scaling of 45 to 28 nm by .46",
)


def _loss(name: str) -> Measured:
    mean, most = roofline.summary(roofline.performance(name), "loss")
    low, high = roofline.PUBLISHED_LOSS[0] / 2, min(1.0, roofline.PUBLISHED_LOSS[0] * 2)
    return Measured(f"mean {mean:.0%}, most {most:.0%}", low <= mean <= high)


def _gain(name: str) -> Measured:
    mean, most = roofline.summary(roofline.performance(name), "gain")
    published = roofline.PUBLISHED_GAIN[name][0]
    return Measured(f"mean {mean:+.0%}, most {most:+.0%}", published / 2 <= mean <= published * 2)


for _name in roofline.DEVICES:
    PAPER.shape(
        "§I, Fig. 13",
        f"what vDNN loses to the oracle, {_name}: within a factor of two",
        "mean 51 %, most 63 %",
        under=f"{_TIMED}; synchronous; efficiency .7",
        name=f"loss-{_name}",
    )(partial(_loss, _name))
for _name, (_mean, _most) in roofline.PUBLISHED_GAIN.items():
    PAPER.shape(
        "§VII, Fig. 13",
        f"what cDMA gains over vDNN, {_name}: within a factor of two",
        f"mean +{_mean:.0%}, most +{_most:.0%}",
        under=f"{_TIMED}; synchronous; efficiency .7",
        name=f"gain-{_name}",
    )(partial(_gain, _name))


@PAPER.shape(
    "Fig. 13",
    "the faster GPU loses more and gains more",
    "+32 % and +53 %",
    under=f"{_TIMED}; both modes, efficiencies .4 to 1",
)
def _faster_gpu() -> Measured:
    pairs = [
        [roofline.summary(roofline.performance(name, mode, e), f)[0] for name in roofline.DEVICES]
        for mode in ("sync", "async")
        for e in roofline.EFFICIENCIES
        for f in ("loss", "gain")
    ]
    more = sum(fast > slow for slow, fast in pairs)
    return Measured(f"{more} of {len(pairs)} settings", more == len(pairs))


@PAPER.shape(
    "§VII-B",
    "the figures are those of layer times: loss and gain grow with efficiency",
    "not said",
    under=f"{_TIMED}; efficiency .4 to 1",
)
def _efficiency() -> Measured:
    parts, holds = [], True
    for name in roofline.DEVICES:
        for figure in ("loss", "gain"):
            means = [
                roofline.summary(roofline.performance(name, "sync", e), figure)[0]
                for e in roofline.EFFICIENCIES
            ]
            holds &= all(a < b for a, b in pairwise(means))
            parts.append(f"{name} {figure} {means[0]:.0%} to {means[-1]:.0%}")
    return Measured(", ".join(parts), holds)


@PAPER.shape(
    "§VII-B",
    "and of the mode: without a wait per layer vDNN loses less",
    "not said",
    under=f"{_TIMED}; efficiency .7",
)
def _mode() -> Measured:
    parts, holds = [], True
    for name in roofline.DEVICES:
        waits, flows = (
            roofline.summary(roofline.performance(name, mode), "loss")[0]
            for mode in ("sync", "async")
        )
        holds &= flows < waits
        parts.append(f"{name} {waits:.0%} to {flows:.0%}")
    return Measured(", ".join(parts), holds)


@PAPER.shape(
    "§V-D",
    "performance with 48 GB/s, of that with 200 GB/s",
    "94 %",
    under=f"{_TIMED}; synchronous; efficiency .7; Titan X",
)
def _bandwidth_aware() -> Measured:
    mean, _ = roofline.summary(roofline.performance("titanx"), "bandwidth_aware")
    return Measured(f"{mean:.1%}", 0.94 <= mean <= 1)


@PAPER.shape(
    "§V-C",
    "performance with 200 GB/s, of that without a limit",
    "99 %",
    under=f"{_TIMED}; synchronous; efficiency .7; Titan X",
)
def _capped() -> Measured:
    found = {}
    for name, batch in CDMA.items():
        scenario = scenes.scenario(scenes.graph(name, batch), "titanx", roofline.LINK)
        capped = cdma.plan(scenario)
        free = vdnn.plan(scenario, choice=max(capped.choices, key=str), policy="cdma")
        found[name] = scenes.run(scenario, free).seconds / scenes.run(scenario, capped).seconds
    return Measured(f"{scenes.mean(found):.1%}", 0.99 <= scenes.mean(found) <= 1 + 1e-9)
