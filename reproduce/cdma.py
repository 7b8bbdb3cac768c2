"""cDMA: M. Rhu et al., Compressing DMA Engine (HPCA 2018)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

import numpy as np

from cdma import golden
from cdma.golden.formats.windows.deflate import encode_window
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.config import preset
from cdma.plan.papers import printed
from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies import cdma
from cdma.plan.workload import load_capture
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layouts import LAYOUTS, relayout
from cdma.plan.workload.networks.batches import CDMA
from cdma.reproduce import roofline, scenarios
from cdma.reproduce.claim import Kind, Measured, Paper
from cdma.reproduce.rtl_cycles import cycles_to_output
from cdma.sim.driver import THROTTLES
from cdma.sim.machine import machine_config

PRINTED = printed("cdma")
PAPER = Paper("cdma", "cDMA (M. Rhu et al., HPCA 2018)", PRINTED)

MASK = 1 / 32
"""Overhead of a dense stream: a mask bit per fp32 element (§V-A)."""

_TIMED = "roofline, PCIe gen3 at 80 %, all activations leave, capture at mid-training"


def _ratio(density: float) -> float:
    """The compression ratio of real streams with that share of non-zero elements."""
    data = np.zeros(32 * 1000, np.float32)
    data[: round(data.size * density)] = 1
    data = np.random.default_rng(0).permutation(data)
    return data.nbytes / golden.codec("zvc").compress(data).size


@PAPER.exact("§V-A", "32 zeros, and the overhead of dense data")
def _extremes() -> Measured:
    zeros, overhead = _ratio(0), 1 / _ratio(1) - 1
    figure = PRINTED["extremes"]
    return Measured(
        f"{zeros:g}×, {overhead:.3%}",
        zeros == figure["zeros"] and f"{overhead:.1%}" == f"{figure['overhead_percent']}%",
    )


@PAPER.exact("§V-A", "60 % zeros", slip=True)
def _sixty() -> Measured:
    figure = PRINTED["sixty"]
    density = 1 - figure["zeros_percent"] / 100
    ratio, without_mask = _ratio(density), 1 / density
    return Measured(
        f"{ratio:.3f}× with the mask; {without_mask:g}× only without",
        f"{without_mask:g}" == f"{figure['ratio']:g}" and f"{ratio:.3f}" == "2.319",
    )


@PAPER.exact(
    "§IV, §VII-A",
    "average zeros and average ratio go together",
    kind=Kind.ARITHMETIC,
)
def _averages() -> Measured:
    # A mean of ratios is never less than the ratio of a mean.
    figure = PRINTED["averages"]
    of_mean = 1 / (1 - figure["zeros_percent"] / 100 + MASK)
    densities = [a.density for a in load_capture("digits-cnn").activations]
    mean = np.mean([1 / (density + MASK) for density in densities])
    together = 1 / (np.mean(densities) + MASK)
    return Measured(
        f"that many zeros in one stream are {of_mean:.2f}×, and a mean of ratios is more "
        f"(capture: {mean:.2f}×, {together:.2f}×)",
        of_mean <= figure["ratio"],
    )


@PAPER.exact("§V-B", "reads to fill PCIe at the highest ratio", kind=Kind.ARITHMETIC)
def _crossbar() -> Measured:
    figure = PRINTED["crossbar"]
    found = figure["link_gbps"] * figure["ratio"]
    return Measured(
        f"{found:.1f} GB/s; {figure['ratio']}× needs a density of {1 / figure['ratio'] - MASK:.1%}",
        f"{found:.1f}" == f"{figure['gbps']}",
    )


@PAPER.exact("§V-C", "what is provisioned for the highest ratio", kind=Kind.ARITHMETIC, slip=True)
def _cap() -> Measured:
    figure = PRINTED["cap"]
    needed, most = figure["ratio"] * figure["link_gbps"], figure["gbps"] / figure["link_gbps"]
    return Measured(
        f"{needed:.1f} GB/s; with {figure['gbps']}, no ratio above {most:g} is used",
        needed > figure["gbps"],
    )


@PAPER.exact("§V-C", "the buffer, of bandwidth times latency", kind=Kind.CONSTANT)
def _buffer() -> Measured:
    figure, engine = PRINTED["buffer"], preset("titanx_gen3")
    product = figure["gbps"] * figure["latency_ns"]
    latency = machine_config("titanx_gen3").dram_latency_ns
    return Measured(
        f"{product:,} B; the engine has {engine.buffer_bytes >> 10} KiB, its DRAM {latency:g} ns",
        product == figure["kilobytes"] * 1000 <= engine.buffer_bytes
        and engine.buffer_bytes == figure["kilobytes"] << 10
        and round(latency) == figure["latency_ns"],
    )


@PAPER.exact("§VI", "reads on average", kind=Kind.ARITHMETIC, slip=True)
def _average_reads() -> Measured:
    figure = PRINTED["average-reads"]
    found = f"{figure['link_gbps'] * figure['ratio']:.1f}"
    return Measured(f"{found} GB/s", found != f"{figure['gbps']}")


@PAPER.exact("§VI", "what computation leaves of DRAM bandwidth", kind=Kind.ARITHMETIC)
def _left() -> Measured:
    figure = PRINTED["left"]
    left = figure["dram_gbps"] - figure["used_gbps"]
    return Measured(f"{left} GB/s", left == figure["left_gbps"])


@PAPER.exact("§V-D, §VI", "the throttles of the two policies", kind=Kind.CONSTANT)
def _throttles() -> Measured:
    figure = PRINTED["throttles"]
    found = [
        THROTTLES[name].bytes_per_s / 1e9 for name in ("performance-optimal", "bandwidth-aware")
    ]
    return Measured(
        " and ".join(f"{rate:g} GB/s" for rate in found),
        found == [figure["optimal_gbps"], figure["aware_gbps"]],
    )


@PAPER.exact("Table I", "the peaks of four devices", kind=Kind.CONSTANT)
def _generations() -> Measured:
    devices = [device(name) for name in ("k40", "m40", "p100", "v100")]
    found = [(each.peak_flops / 1e12, each.dram_bytes_per_s / 1e9) for each in devices]
    return Measured(
        ", ".join(f"{each.name} {f:g}, {b:g}" for each, (f, b) in zip(devices, found, strict=True)),
        found == list(PRINTED.tables["I"].rows.values()),
    )


@PAPER.exact("§VI", "memories of the Titan X and the Titan Xp", kind=Kind.CONSTANT)
def _memories() -> Measured:
    figure = PRINTED["memories"]
    devices = [device(name) for name in ("titanx", "titanxp")]
    machines = [machine_config(each.engine) for each in devices]
    found = [each.dram_bytes_per_s / 1e9 for each in devices]
    simulated = [each.dram_bytes_per_s / 1e9 for each in machines]
    return Measured(
        f"{found[0]:g} and {found[1]:g} GB/s, {devices[0].capacity_bytes / 1e9:g} GB",
        found == simulated == [figure["titanx_gbps"], figure["titanxp_gbps"]]
        and {each.capacity_bytes / 1e9 for each in devices} == {figure["capacity_gb"]},
    )


@PAPER.exact("§III, §VI, §VIII", "PCIe gen3, of four GPUs, NVLink, gen4", kind=Kind.CONSTANT)
def _interconnects() -> Measured:
    figure = PRINTED["interconnects"]
    names = ("pcie3x16", "pcie3x16-shared", "nvlink-power8", "pcie4x16")
    found = [link(name).bytes_per_s / 1e9 for name in names]
    return Measured(
        ", ".join(f"{name} {rate:g}" for name, rate in zip(names, found, strict=True)),
        found
        == [
            figure["pcie3"],
            figure["shared"],
            figure["power8"],
            figure["pcie3"] * figure["gen4_times"],
        ],
    )


@PAPER.exact("§V-B", "cycles to compress a line of 4 sectors, 8 words wide")
def _latency() -> Measured:
    figure, config = PRINTED["latency"], preset("titanx_gen3").codec
    cycles = cycles_to_output(ZvcCompressor(config), config.sectors)
    return Measured(
        f"{cycles} of the RTL, with {config.sectors} sectors of {config.lanes} words",
        (cycles, config.lanes, config.sectors)
        == (figure["cycles"], figure["words"], figure["sectors"]),
    )


@PAPER.exact("§V-B", "cycles that decompression adds")
def _expansion() -> Measured:
    line = ZvcDecompressor(preset("titanx_gen3").codec)
    cycles = cycles_to_output(line, 1, {"sol": 1, "eol": 1})
    return Measured(f"{cycles} of the RTL", cycles == PRINTED["expansion"]["cycles"])


@PAPER.exact("§V-B", "adders of an 8-wide prefix sum", kind=Kind.ARITHMETIC)
def _adders() -> Measured:
    words = PRINTED["latency"]["words"]
    adders = 2 * words - 2 - (words.bit_length() - 1)
    return Measured(
        f"{adders} (Brent and Kung: 2n − 2 − log2 n)", adders == PRINTED["adders"]["adders"]
    )


@PAPER.exact(
    "§III, Table I",
    "four years' growth of arithmetic and bandwidth",
    kind=Kind.ARITHMETIC,
    slip=True,
)
def _growth() -> Measured:
    figure, (old, *_, new) = PRINTED["growth"], PRINTED.tables["I"].rows.values()
    flops, bandwidth = (float(b) / float(a) for a, b in zip(old, new, strict=True))
    return Measured(
        f"{flops:g}×, {bandwidth:g}×, which rounds to {bandwidth:.1f}",
        flops == figure["arithmetic"] and f"{bandwidth:.1f}" != f"{figure['bandwidth']}",
    )


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


@PAPER.exact("§VII-A", "ZVC's ratio in the three layouts")
def _layouts() -> Measured:
    zvc = _sizes()["zvc"]
    text = ", ".join(f"{layout} {size:,} B" for layout, size in zvc.items())
    return Measured(text, len(set(zvc.values())) == 1)


@PAPER.shape("§VII-A", "RLE and zlib are best in NCHW", under="digits CNN's activations")
def _best_layout() -> Measured:
    ratios = {
        name: {layout: _sizes()[name]["NCHW"] / size for layout, size in _sizes()[name].items()}
        for name in ("rle", "deflate")
    }
    text = "; ".join(f"{name} {scenarios.listed(found, '.2f')}" for name, found in ratios.items())
    others = [ratio for r in ratios.values() for layout, ratio in r.items() if layout != "NCHW"]
    return Measured(f"of NCHW's ratio: {text}", max(others) < 1)


@PAPER.shape(
    "§VII-A",
    "zlib's ratio with windows of 4 to 64 KB: within a tenth, and ahead of ZVC's with each",
    under="digits CNN's activations, NCHW; ZVC and RLE have no windows",
)
def _windows() -> Measured:
    figure = PRINTED["windows"]
    arrays = [a.array for a in load_capture("digits-cnn").activations if a.array.ndim == 4]
    raw, ratios = sum(array.nbytes for array in arrays), {}
    kilobytes = figure["least_kb"]
    while kilobytes <= figure["most_kb"]:
        windows = (
            data[i : i + (kilobytes << 10)]
            for data in (array.tobytes() for array in arrays)
            for i in range(0, len(data), kilobytes << 10)
        )
        ratios[f"{kilobytes} KB"] = raw / sum(len(encode_window(window)) for window in windows)
        kilobytes *= 2
    zvc = raw / _sizes()["zvc"]["NCHW"]
    return Measured(
        f"{scenarios.listed(ratios, '.2f')}; ZVC {zvc:.2f}",
        max(ratios.values()) / min(ratios.values()) < 1.1 and min(ratios.values()) > zvc,
    )


def _densities(layer: str) -> list[float]:
    """Over the capture's epochs."""
    found = [a for a in load_capture("digits-cnn").activations if a.layer == layer]
    return [a.density for a in sorted(found, key=lambda a: a.epoch)]


@PAPER.shape("§IV", "pooling raises density", under="digits CNN, all epochs")
def _pooling() -> Measured:
    pairs = [
        (before, behind)
        for i in range(3)
        for before, behind in zip(_densities(f"conv{i}.relu"), _densities(f"pool{i}"), strict=True)
    ]
    denser = sum(behind > before for before, behind in pairs)
    return Measured(f"{denser} of {len(pairs)}", denser == len(pairs))


@PAPER.shape("§IV", "later convolutions are sparser", under="digits CNN, trained")
def _later() -> Measured:
    last = {f"conv{i}": _densities(f"conv{i}.relu")[-1] for i in range(3)}
    return Measured(
        f"density {scenarios.listed(last, '.2f')}", all(a > b for a, b in pairwise(last.values()))
    )


@PAPER.shape("§IV", "density falls as training begins", under="digits CNN, conv1, 2")
def _falling() -> Measured:
    found = {f"conv{i}": _densities(f"conv{i}.relu")[:2] for i in (1, 2)}
    text = ", ".join(f"{name} {first:.2f} to {then:.2f}" for name, (first, then) in found.items())
    return Measured(text, all(then < first for first, then in found.values()))


PAPER.not_claimable(
    "sparsity",
    "§IV",
    "sparsity: average, most, AlexNet's; density of conv0; the late rise",
    needs="their networks trained on ImageNet",
    here=lambda: f"the digits' conv0 {', '.join(f'{d:.0%}' for d in _densities('conv0.relu'))}",
)
PAPER.not_claimable(
    "ratios",
    "§VII-A",
    "ZVC's ratio, average and most; zlib's; its gain on SqueezeNet and GoogLeNet, and on average",
    needs="the same activations",
)
PAPER.not_claimable(
    "accuracies",
    "Table II",
    "top-1 and top-5, iterations",
    needs="the same trainings",
)
PAPER.not_claimable(
    "area",
    "§V-C, §VIII",
    "area of codecs and buffer, and of a gen5 engine, in 28 nm",
    needs="their library and its scaling of 45 to 28 nm by .46",
)


def _between(name: str, figure: str, published_percent: float) -> Measured:
    """The print lies between ours of the shortest and of the longest layer times that may be."""
    low, high = sorted(
        roofline.summary(roofline.performance(name, layer_time=factor), figure)[0]
        for factor in roofline.LAYER_TIMES
    )
    mean, most = roofline.summary(roofline.performance(name), figure)
    return Measured(
        f"mean {mean:.0%}, most {most:.0%}; mean {low:.0%} to {high:.0%}",
        low <= published_percent / 100 <= high,
    )


_CALIBRATED = (
    f"{_TIMED}; synchronous; efficiency .7; the print is among ours with layer times from "
    f"{roofline.LAYER_TIMES[0]} to {roofline.LAYER_TIMES[1]} of that, as far as they are from "
    "published measurements"
)


@PAPER.shape(
    "§I",
    "the mean of what vDNN loses to the oracle, titanxp",
    under=_CALIBRATED,
    name="loss",
)
def _loss() -> Measured:
    return _between("titanxp", "loss", PRINTED["loss"]["mean_percent"])


for _name in roofline.DEVICES:
    PAPER.shape(
        {"titanx": "§VII-C", "titanxp": "abstract"}[_name],
        f"the mean of what cDMA gains over vDNN, {_name}",
        under=_CALIBRATED,
        name=f"gain-{_name}",
    )(partial(_between, _name, "gain", PRINTED[f"gain-{_name}"]["mean_percent"]))


@PAPER.shape(
    "Fig. 13",
    "the faster GPU loses more and gains more",
    under=f"{_TIMED}; both modes, efficiencies .4 to 1",
)
def _faster_gpu() -> Measured:
    pairs = [
        [
            roofline.summary(roofline.performance(name, mode, efficiency=e), f)[0]
            for name in roofline.DEVICES
        ]
        for mode in ("sync", "async")
        for e in roofline.EFFICIENCIES
        for f in ("loss", "gain")
    ]
    more = sum(fast > slow for slow, fast in pairs)
    return Measured(f"{more} of {len(pairs)} settings", more == len(pairs))


@PAPER.shape(
    "§VII-B",
    "the figures are those of layer times: loss and gain grow with efficiency",
    under=f"{_TIMED}; efficiency .4 to 1",
)
def _efficiency() -> Measured:
    parts, holds = [], True
    for name in roofline.DEVICES:
        for figure in ("loss", "gain"):
            means = [
                roofline.summary(roofline.performance(name, efficiency=e), figure)[0]
                for e in roofline.EFFICIENCIES
            ]
            holds &= all(a < b for a, b in pairwise(means))
            parts.append(f"{name} {figure} {means[0]:.0%} to {means[-1]:.0%}")
    return Measured(", ".join(parts), holds)


@PAPER.shape(
    "§VII-B",
    "and of the mode: without a wait per layer vDNN loses less",
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
    "§V-D, §VII-B",
    "with 48 GB/s every network loses something, and at most 6 % on average, of 200 GB/s",
    under=f"{_TIMED}; synchronous; efficiency .7; Titan X",
)
def _bandwidth_aware() -> Measured:
    mean, most = roofline.summary(roofline.performance("titanx"), "bandwidth_aware")
    least = PRINTED["bandwidth-aware"]["percent"] / 100
    return Measured(f"{mean:.1%}, the best {most:.2%}", least <= mean and most < 1 - 1e-4)


@PAPER.shape(
    "§V-C",
    "with 200 GB/s nothing is lost, as no tensor's ratio needs more",
    under=f"{_TIMED}; synchronous; efficiency .7; Titan X",
)
def _capped() -> Measured:
    found, ratio = {}, 0.0
    for name, batch in CDMA.items():
        scenario = scenarios.scenario(scenarios.graph(name, batch), "titanx", roofline.LINK)
        capped = cdma.plan(scenario)
        free = replace(capped, throttle="none")
        found[name] = (
            scenarios.run(scenario, free).seconds / scenarios.run(scenario, capped).seconds
        )
        densities = (scenario.graph.tensors[t].density for t in scenario.graph.managed)
        ratio = max(ratio, *(1 / (d + MASK) for d in densities if d is not None))
    return Measured(
        f"{scenarios.mean(found):.1%}; the highest ratio is {ratio:.1f}",
        min(found.values()) > 1 - 1e-4,
    )


def _as_long_as(codec: str, graph: Graph) -> Graph:
    """A network whose tensors have the densities at which ZVC's streams are as long as a codec's.

    How long the codec's are, is that of the capture's arrays in NCHW, by their density.
    """
    arrays = [a for a in load_capture("digits-cnn").activations if a.array.ndim == 4]
    arrays.sort(key=lambda each: each.density)
    shares = [golden.codec(codec).compress(a.array).size / a.array.nbytes for a in arrays]
    known = [a.density for a in arrays]
    managed = [graph.tensors[t] for t in graph.managed]
    streams = {t.name: float(np.interp(t.density or 0, known, shares)) for t in managed}
    return graph.with_densities(
        {name: min(1.0, max(0.0, share - MASK)) for name, share in streams.items()}
    )


@PAPER.shape(
    "§VII-B, Fig. 13",
    "zlib instead of ZVC is faster by less than a tenth of what ZVC gains, GoogLeNet's step the "
    "most; RLE is slower on each",
    under=f"{_TIMED}; synchronous; efficiency .7; streams as long as those of the capture's arrays "
    "of that density",
    long=True,
)
def _codecs() -> Measured:
    parts, holds = [], True
    for name in roofline.DEVICES:
        faster: dict[str, dict[str, float]] = {"deflate": {}, "rle": {}}
        for network, batch in CDMA.items():
            found = scenarios.graph(network, batch)
            seconds = {}
            for codec in ("zvc", *faster):
                step = scenarios.scenario(_as_long_as(codec, found), name, roofline.LINK)
                seconds[codec] = scenarios.run(step, cdma.plan(step)).seconds
            for codec, gains in faster.items():
                gains[network] = seconds["zvc"] / seconds[codec] - 1
        zlib, rle = faster["deflate"], faster["rle"]
        mean, gain = scenarios.mean(zlib), roofline.summary(roofline.performance(name), "gain")[0]
        holds &= 0 < mean < gain / 10 and max(zlib, key=zlib.__getitem__) == "googlenet"
        holds &= max(rle.values()) < 0
        parts.append(
            f"{name} zlib {mean:+.1%}, most {max(zlib.values()):.1%}, RLE {scenarios.mean(rle):.1%}"
        )
    return Measured("; ".join(parts), holds)


PAPER.not_claimable(
    "loss-titanx",
    "§I",
    "the mean of what vDNN loses to the oracle, titanx",
    needs="their layer times; print names no GPU, and this one does not come near",
    here=lambda: "{}, at full peak {}".format(
        *(
            f"{roofline.summary(roofline.performance('titanx', efficiency=e), 'loss')[0]:.0%}"
            for e in (None, 1.0)
        )
    ),
)
