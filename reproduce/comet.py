"""COMET: S. Jin et al., COMET: A Novel Memory-Efficient Deep Learning Training Framework by Using
Error-Bounded Lossy Compression."""

import math

import numpy as np

from cdma import golden
from cdma.golden.formats.interface import Array
from cdma.plan.papers import printed
from cdma.plan.policies import oracle
from cdma.plan.policies.comet import Collected, Controller, law, training_batch
from cdma.plan.policies.comet import policy as comet
from cdma.plan.workload import load_capture
from cdma.plan.workload.graph import Graph
from cdma.reproduce import scenarios
from cdma.reproduce.claim import Kind, Measured, Paper
from cdma.reproduce.gradient_errors import BOUND as FINE_BOUND
from cdma.reproduce.gradient_errors import (
    convolutions,
    normalized_errors,
    regression_coded,
    worst_error,
)

PRINTED = printed("comet")
PAPER = Paper("comet", "COMET (S. Jin et al.)", PRINTED)

_DIGITS = "digits CNN in training, three convolutions at two epochs"

BOUND = 1e-2

TABLE = PRINTED.tables["1"]


@PAPER.exact("eq. 1, 3", "the error bound, for M = .02, L̄ = .5, N = 64")
def _bound() -> Measured:
    controller = Controller(coefficients={"conv": law.PAPER_COEFFICIENT})
    collected = Collected(momentum=0.02, loss=0.5, norm=1.0, nonzero=0.25)
    controller.update(1000, 64, {"conv": collected})
    found = controller.bounds["conv"]
    figure = PRINTED["bound"]
    wanted = figure["sigma"] * 0.02 / (figure["coefficient"] * 0.5 * math.sqrt(64 * 0.25))
    return Measured(f"R = .25: eb = {found:.4g}", math.isclose(found, wanted, rel_tol=1e-12))


@PAPER.exact("§3.1", "the period is halved where a bound changes by more, then reset")
def _period() -> Measured:
    period, change = PRINTED["period"]["period"], PRINTED["period"]["change"]
    controller = Controller()
    periods = [controller.period]
    for iteration, momentum in (
        (period, 1.0),
        (2 * period, 1.05 * change),
        (5 * period // 2, 1.1 * change),
    ):
        collected = Collected(momentum=momentum, loss=0.5, norm=1.0, nonzero=0.5)
        controller.update(iteration, 64, {"conv": collected})
        periods.append(controller.period)
    return Measured(", ".join(map(str, periods)), periods == [period, period, period // 2, period])


@PAPER.exact("§4.1", "the errors of quantized activations are uniform")
def _uniform() -> Measured:
    farthest = 0.0
    # The minibatch itself is not compressed, and a plain background is there many times.
    for layer in convolutions():
        if not layer.name.startswith("conv0"):
            # What is near zero becomes zero.
            values = np.unique(layer.activations[layer.activations > 2 * FINE_BOUND])
            error = np.sort(_quantized(values, FINE_BOUND).astype(np.float64) - values)
            rank = np.arange(1, error.size + 1) / error.size
            distance = np.abs(rank - (error / FINE_BOUND + 1) / 2).max() * math.sqrt(error.size)
            farthest = max(farthest, float(distance))
    # One in a thousand samples of a uniform distribution exceeds 1.95.
    return Measured(f"Kolmogorov and Smirnov's √n·D at most {farthest:.2f}", farthest < 1.95)


@PAPER.exact("§4.2, Fig. 7a", "gradient errors within ±σ")
def _normal() -> Measured:
    errors = normalized_errors()
    within = float((np.abs(errors) <= 1).mean())
    # Four standard deviations of a share of so many.
    share = PRINTED["normal"]["percent"] / 100
    slack = 4 * math.sqrt(share * (1 - share) / errors.size)
    return Measured(
        f"{within:.1%} of {errors.size:,}, σ of the exact law", abs(within - share) < slack
    )


@PAPER.exact("eq. 10", "σ grows with the root of the minibatch")
def _root() -> Measured:
    layer = next(layer for layer in convolutions() if layer.name == "conv1@epoch1")
    one, four = (layer.measured_sigma(zeros_kept=False, times=n) for n in (1, 4))
    return Measured(f"4 times the images: {four / one:.2f} times σ", abs(four / one - 2) < 0.1)


@PAPER.exact("eq. 3", "R is", slip=True)
def _share() -> Measured:
    sparse = [layer for layer in convolutions() if layer.nonzero < 0.7]
    kept = [
        layer.measured_sigma(zeros_kept=True) / layer.measured_sigma(zeros_kept=False)
        for layer in sparse
    ]
    off = [ratio / math.sqrt(layer.nonzero) for ratio, layer in zip(kept, sparse, strict=True)]
    return Measured(
        f"the share not zero, as eq. 11: σ is {min(off):.2f} to {max(off):.2f} of √R's",
        all(abs(ratio - 1) < 0.15 for ratio in off),
    )


@PAPER.exact("§5.2", "what one image gives for a", kind=Kind.ARITHMETIC, slip=True)
def _third() -> Measured:
    errors = np.random.default_rng(0).uniform(-1, 1, 1_000_000)
    return Measured(
        f"a uniform error's variance is {errors.var():.3f}, its σ {errors.std():.3f}",
        abs(errors.std() - 1 / math.sqrt(3)) < 1e-3,
    )


@PAPER.shape(
    "eq. 10, 11",
    "σ of gradients is predicted (by the exact law: bound/√3·√R·‖L‖₂)",
    under=_DIGITS,
)
def _law() -> Measured:
    off = [
        layer.measured_sigma(zeros_kept=True) / layer.exact_sigma(layer.nonzero)
        for layer in convolutions()
    ]
    return Measured(
        f"measured {min(off):.2f} to {max(off):.2f} of it", min(off) > 0.85 and max(off) < 1.1
    )


def _quantized(array: Array, bound: float = BOUND) -> Array:
    codec = golden.codec("quantize", bound=bound)
    restored = codec.decompress(codec.compress(array), array.nbytes)
    return restored.view(np.float32).reshape(array.shape)


def _activations() -> list[Array]:
    return [
        a.array.reshape(-1)[: a.array.size // 128 * 128]
        for a in load_capture("digits-cnn").activations
    ]


@PAPER.exact("§5.2", "a predicting error-bounded coder makes zeros small values")
def _zeros_broken() -> Measured:
    zeros = broken = 0
    for array in _activations():
        coded = regression_coded(array, BOUND).reshape(-1)
        zeros += int((array == 0).sum())
        broken += int((coded[array == 0] != 0).sum())
    kept = sum(int((_quantized(array)[array == 0] != 0).sum()) for array in _activations())
    return Measured(
        f"{broken / zeros:.0%} with SZ's regression, {kept / zeros:.0%} with dual quantization",
        broken / zeros > 0.9 and kept == 0,
    )


@PAPER.exact("§3.4", "with |x̂| ≤ eb set to 0, errors stay in the bound", slip=True)
def _zero_filter() -> Measured:
    def filtered(array: Array) -> Array:
        coded = regression_coded(array, BOUND).reshape(-1)
        return np.where(np.abs(coded) <= BOUND, 0, coded)

    worst = worst_error(filtered, _activations(), BOUND)
    ours = worst_error(lambda a: _quantized(a).astype(np.float64), _activations(), BOUND)
    return Measured(
        f"{worst:.2f} eb; dual quantization keeps zeros and {ours:.2f} eb",
        1.9 < worst <= 2 and ours <= 1,
    )


@PAPER.exact("Table 1", "ratios of convolutions' activations", kind=Kind.ARITHMETIC)
def _ratios() -> Measured:
    holds, shown = True, []
    columns = [TABLE.column(name) for name in ("size_before", "size", "size_unit", "ratio")]
    for network in TABLE.rows:
        raw, small, unit, ratio = (column[network] for column in columns)
        shown.append(f"{raw / small:.2f}")
        # Half of the last printed digit.
        digit = 0.5 if unit == "MB" else 0.005
        low, high = (raw - digit) / (small + digit), (raw + digit) / (small - digit)
        holds &= low <= ratio + 0.05 and ratio - 0.05 <= high
    return Measured(f"{', '.join(shown)}: within the sizes' rounding", holds)


@PAPER.exact("abstract, Table 1", "over JPEG-ACT, at most", kind=Kind.ARITHMETIC)
def _jpeg_act() -> Measured:
    comet_ratio = TABLE.column("ratio")
    found = [comet_ratio[name] / ratio for name, ratio in TABLE.column("jpeg_act").items()]
    return Measured(
        ", ".join(f"{ratio:.3f}×" for ratio in found),
        f"{max(found):.1f}" == f"{PRINTED['jpeg-act']['most']}",
    )


@PAPER.exact("Table 1", "AlexNet's convolution inputs at batch 128", slip=True)
def _alexnet() -> Measured:
    graph = Graph.from_table("alexnet", 128)
    read = {t for layer in graph.layers if layer.kind == "conv" for t in layer.inputs}
    total = sum(graph.tensors[t].nbytes for t in read) / 1e6
    return Measured(
        f"{total:.1f} MB; {2 * total:.1f} are twice that, as of data and gradients",
        f"{total:.0f}" != f"{2 * total:.0f}" == f"{TABLE.column('size_before')['AlexNet']}",
    )


@PAPER.exact("Table 1", "and VGG-16's, counted alike", slip=True)
def _vgg16() -> Measured:
    graph = Graph.from_table("vgg16", 128)
    outputs = {layer.output for layer in graph.layers if layer.kind == "conv"}
    made = sum(graph.tensors[t].nbytes for t in outputs) / 1e9
    read = sum(graph.tensors[t].nbytes for t in graph.conv_inputs) / 1e9
    size = TABLE.column("size_before")["VGG-16"]
    return Measured(
        f"inputs {read:.2f} GB; {size} is near the outputs' {made:.2f}",
        f"{read:.2f}" != f"{size}" and abs(made / size - 1) < 0.01,
    )


def _batch(network: str) -> int:
    """The largest batch by the paper's rule, of the peak that it prints."""
    figure = PRINTED["largest-batches"]
    each = TABLE.column("peak_gb")[network] / figure["measured_at"]
    return training_batch(figure["memory_gb"], each, cap=1 << 20)


@PAPER.exact("Table 1, §3.4", "largest batch 2^k in 95 % of 16 GB", kind=Kind.ARITHMETIC)
def _largest_batches() -> Measured:
    networks = ("AlexNet", "VGG-16", "ResNet-18")
    found = [_batch(name) for name in networks]
    return Measured(
        ", ".join(map(str, found)), found == [TABLE.column("batch")[name] for name in networks]
    )


@PAPER.exact("Table 1, §3.4", "and of ResNet-50", kind=Kind.ARITHMETIC, slip=True)
def _resnet50_batch() -> Measured:
    figure, claimed = PRINTED["largest-batches"], TABLE.column("batch")["ResNet-50"]
    found = _batch("ResNet-50")
    need = claimed * TABLE.column("peak_gb")["ResNet-50"] / figure["measured_at"]
    available_gb = figure["memory_gb"] * (1 - figure["reserved_percent"] / 100)
    return Measured(
        f"{found}: {claimed} need {need:.1f} GB of {available_gb:.1f}",
        found < claimed and need > available_gb,
    )


@PAPER.exact("§5.3", "accuracy lost at most", kind=Kind.ARITHMETIC, slip=True)
def _accuracy() -> Measured:
    after = TABLE.column("top1")
    drop = max(before - after[name] for name, before in TABLE.column("top1_before").items())
    return Measured(
        f"{drop:.2f} points by Table 1", f"{drop:.2f}" != f"{PRINTED['accuracy']['percent']:.2f}"
    )


@PAPER.shape(
    "Table 1",
    "a lower peak of memory at batch 128",
    under="declared 8 bits per value that is not zero; gradients of one stage at a time",
)
def _peak() -> Measured:
    found = {}
    for name in ("alexnet", "vgg16", "resnet50"):
        scenario = scenarios.scenario(scenarios.graph(name, 128), "v100", "pcie3x16")
        plans = (oracle.plan(scenario), comet.plan(scenario))
        found[name] = [scenarios.run(scenario, plan).peak_bytes / 1e9 for plan in plans]
    text = ", ".join(
        f"{name} {before:.2f} to {ours:.2f} GB" for name, (before, ours) in found.items()
    )
    return Measured(text, all(ours < before for before, ours in found.values()))


PAPER.not_claimable(
    "coefficient",
    "§5.2",
    "one a for all layers of all networks",
    needs="their networks",
    here=lambda: ", ".join(f"{c.name} {c.coefficient:.2f}" for c in convolutions()),
)
PAPER.not_claimable(
    "collapse",
    "§5.2, §5.3",
    "training with broken zeros, and with static bounds",
    needs="ImageNet on GPUs",
)
PAPER.not_claimable(
    "table-1",
    "Table 1",
    "accuracies, peaks, ratios of real activations",
    needs="the same",
)
PAPER.not_claimable(
    "overhead",
    "§5.4",
    "overhead; at larger batches; on 1 and 8 GPUs; epochs; against Layrub",
    needs="their GPUs, codec and networks",
)
