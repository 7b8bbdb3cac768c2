"""COMET: how errors of activations become errors of gradients, and the controller of bounds.

Activations and the loss's gradients by them are real: the capture `digits-cnn-training`. The
paper's figures are those of its §3 to §5 and Table 1.
"""

import math

import numpy as np
import pytest
from pysz import sz, szAlgorithm, szConfig

from cdma import golden
from cdma.plan.papers import printed
from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies.comet import Collected, Controller, law, training_batch
from cdma.plan.policies.comet import policy as comet
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import Placement
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload import load_capture
from cdma.plan.workload.graph import Graph

EPOCHS = (1, 2, 4, 8, 16)
CONVOLUTIONS = (("images", "conv0"), ("pool0", "conv1"), ("pool1", "conv2"))
SIZES = {"conv0": 5, "conv1": 3, "conv2": 3}
BOUND = 1e-3
TABLE_1 = printed("comet").tables["1"]


def _weight_gradient(activations: np.ndarray, loss: np.ndarray, size: int) -> np.ndarray:
    """The weights' gradient of a convolution with padding, (outputs, inputs, size, size)."""
    edge = size // 2
    padded = np.pad(activations.astype(np.float64), ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
    return np.tensordot(loss.astype(np.float64), windows, axes=((0, 2, 3), (0, 2, 3)))


class _Layer:
    """A convolution in one epoch: input A, loss L by its output, and the share of A not zero."""

    def __init__(self, arrays: dict[str, np.ndarray], source: str, name: str, epoch: int) -> None:
        self.name = f"{name}@epoch{epoch}"
        self.activations = arrays[f"{source}@epoch{epoch}"]
        active = arrays[f"{name}.relu@epoch{epoch}"] > 0
        self.loss = arrays[f"gradients.{name}.relu@epoch{epoch}"] * active
        self.weight_gradient = arrays[f"gradients.{name}@epoch{epoch}"]
        self.nonzero = np.count_nonzero(self.activations) / self.activations.size
        self.size = SIZES[name]

    @property
    def norm(self) -> float:
        return float(np.sqrt((law.channel_norms(self.loss) ** 2).mean()))

    def gradient(self, errors: np.ndarray) -> np.ndarray:
        """The part of the weights' gradient that such errors add."""
        return _weight_gradient(errors, self.loss, self.size)


def _compressed(layers: list[_Layer]) -> list[_Layer]:
    """Those whose input COMET compresses. The minibatch is none; the digits' plain background would
    give the same error over and over, which is not random."""
    return [layer for layer in layers if not layer.name.startswith("conv0")]


@pytest.fixture(scope="module")
def layers() -> list[_Layer]:
    arrays = {a.name: a.array for a in load_capture("digits-cnn-training").activations}
    return [
        _Layer(arrays, source, name, epoch) for source, name in CONVOLUTIONS for epoch in EPOCHS
    ]


def _quantized(array: np.ndarray, bound: float) -> np.ndarray:
    codec = golden.codec("quantize", bound=bound)
    restored = codec.decompress(codec.compress(array), array.nbytes)
    return restored.view(np.float32).reshape(array.shape)


def _sz(array: np.ndarray, bound: float, algorithm: szAlgorithm) -> np.ndarray:
    config = szConfig((array.size,))
    config.absErrorBound = bound
    config.cmprAlgo = algorithm
    stream, _ratio = sz.compress(np.ascontiguousarray(array).reshape(-1), config)
    restored, _config = sz.decompress(stream, np.float32, (array.size,))
    return np.asarray(restored).reshape(array.shape)


# The law.


def test_gradients_of_the_capture_are_those_of_this_convolution(layers) -> None:
    for layer in layers:
        found = layer.gradient(layer.activations)
        np.testing.assert_allclose(found, layer.weight_gradient, atol=1e-5)


def test_errors_of_quantization_are_uniform(layers) -> None:
    for layer in _compressed(layers):
        # Whatever is closer to zero than this may have become zero, and what a plain background
        # makes is there many times.
        values = np.unique(layer.activations[layer.activations > 2 * BOUND])
        error = np.sort(_quantized(values, BOUND).astype(np.float64) - values) / BOUND
        # The distance of Kolmogorov and Smirnov: one in a thousand samples exceeds this.
        distance = np.abs(np.arange(1, error.size + 1) / error.size - (error + 1) / 2).max()
        assert distance < 1.95 / math.sqrt(error.size), layer.name


@pytest.mark.verify
def test_gradient_errors_are_normal_around_the_exact_law(layers) -> None:
    # Errors in all elements, as in the paper's Figure 7a: R is 1.
    rng = np.random.default_rng(0)
    normalized = []
    for layer in layers:
        # A sum is normal if it has many terms that count. Hundreds of images leave no other
        # channels, but four do.
        squares = np.moveaxis(layer.loss.astype(np.float64) ** 2, 1, 0)
        squares = squares.reshape(len(squares), -1)
        many = squares.sum(1) ** 2 > 8 * (squares**2).sum(1)
        sigma = law.exact_sigma(BOUND, norm=1.0, nonzero=1.0) * law.channel_norms(layer.loss)[many]
        middle = layer.size // 2  # of the window, where padding never falls
        for _ in range(16):
            errors = rng.uniform(-BOUND, BOUND, layer.activations.shape)
            gradient = layer.gradient(errors)[many, :, middle, middle]
            normalized.append((gradient / sigma[:, None]).ravel())
    normalized = np.concatenate(normalized)
    assert normalized.size > 10_000
    assert normalized.std() == pytest.approx(1, abs=0.02)
    assert (np.abs(normalized) <= 1).mean() == pytest.approx(0.682, abs=0.015)
    assert (np.abs(normalized) <= 2).mean() == pytest.approx(0.954, abs=0.01)


@pytest.mark.verify
def test_exact_law_holds_for_every_layer_and_epoch(layers) -> None:
    rng = np.random.default_rng(0)
    for layer in layers:
        predicted = law.exact_sigma(BOUND, norm=layer.norm, nonzero=layer.nonzero)
        errors = rng.uniform(-BOUND, BOUND, (8, *layer.activations.shape))
        measured = np.std([layer.gradient(error * (layer.activations != 0)) for error in errors])
        # Less than one where padding stands in for activations: it has no error.
        assert 0.85 < measured / predicted < 1.1, layer.name


def test_exact_law_holds_for_real_compression(layers) -> None:
    for layer in _compressed(layers):
        error = _quantized(layer.activations, BOUND).astype(np.float64) - layer.activations
        predicted = law.exact_sigma(BOUND, norm=layer.norm, nonzero=layer.nonzero)
        assert 0.8 < layer.gradient(error).std() / predicted < 1.2, layer.name


@pytest.mark.verify
def test_kept_zeros_shrink_the_error_by_the_root_of_the_nonzero_share(layers) -> None:
    rng = np.random.default_rng(0)
    for layer in layers:
        errors = rng.uniform(-BOUND, BOUND, (8, *layer.activations.shape))
        everywhere = np.std([layer.gradient(error) for error in errors])
        kept = np.std([layer.gradient(error * (layer.activations != 0)) for error in errors])
        assert kept / everywhere == pytest.approx(math.sqrt(layer.nonzero), rel=0.15), layer.name


def test_the_error_grows_with_the_root_of_the_elements(layers) -> None:
    layer = layers[EPOCHS.index(2) + len(EPOCHS)]
    rng = np.random.default_rng(0)
    sigmas = {}
    for times in (1, 4):
        loss = np.tile(layer.loss, (times, 1, 1, 1))
        errors = rng.uniform(-BOUND, BOUND, (8, len(loss), *layer.activations.shape[1:]))
        sigmas[times] = np.std([_weight_gradient(error, loss, layer.size) for error in errors])
    assert sigmas[4] / sigmas[1] == pytest.approx(2, rel=0.05)


def test_no_coefficient_fits_all_layers(layers) -> None:
    found = []
    for layer in layers:
        loss, batch = law.average_loss(layer.loss), len(layer.loss)
        found.append(law.coefficient(norm=layer.norm, loss=loss, batch=batch))
        # With its own, a layer's σ by the paper's law is the exact one.
        paper = law.paper_sigma(
            BOUND, loss=loss, batch=batch, nonzero=layer.nonzero, coefficient=found[-1]
        )
        exact = law.exact_sigma(BOUND, norm=layer.norm, nonzero=layer.nonzero)
        assert paper == pytest.approx(exact, rel=1e-12)
    assert max(found) / min(found) > 2


def test_bounds_are_the_laws_backwards() -> None:
    known = {"loss": 0.3, "batch": 32, "nonzero": 0.4, "coefficient": 0.32}
    assert law.paper_sigma(law.paper_bound(1e-4, **known), **known) == pytest.approx(1e-4)
    bound = law.exact_bound(1e-4, norm=0.7, nonzero=0.4)
    assert law.exact_sigma(bound, norm=0.7, nonzero=0.4) == pytest.approx(1e-4)
    # R is the share that is not zero: sparser activations bear a larger bound.
    assert law.exact_bound(1e-4, norm=0.7, nonzero=0.1) == pytest.approx(2 * bound)
    # A uniform error's deviation is bound/√3, not the bound/3 of the paper's argument for 0.32.
    assert law.exact_sigma(1.0, norm=1.0, nonzero=1.0) == pytest.approx(0.577, abs=1e-3)


@pytest.mark.parametrize("missing", ["loss", "nonzero"])
def test_nothing_bounds_a_layer_that_nothing_flows_through(missing: str) -> None:
    known = {"loss": 0.3, "batch": 32, "nonzero": 0.4, "coefficient": 0.32, missing: 0.0}
    with pytest.raises(ScheduleError, match=r"no error bound follows.*keep its tensor as it is"):
        law.paper_bound(1e-4, **known)
    with pytest.raises(ScheduleError, match="no coefficient fits a loss of 0"):
        law.coefficient(norm=0.0, loss=0.0, batch=32)


# Zeros.


def test_the_zero_filter_breaks_the_bound_and_dual_quantization_keeps_it() -> None:
    bound, broken, worst, kept = 1e-2, [], 0.0, 0.0
    for activation in load_capture("digits-cnn").activations:
        array = activation.array
        restored = _sz(array, bound, szAlgorithm.LORENZO_REG)
        assert np.abs(restored - array).max() <= bound * 1.0001
        broken.append((restored[array == 0] != 0).mean())
        filtered = np.where(np.abs(restored) <= bound, 0, restored)
        assert not filtered[array == 0].any()
        worst = max(worst, float(np.abs(filtered - array).max()) / bound)
        quantized = _quantized(array, bound)
        assert not quantized[array == 0].any()
        kept = max(kept, float(np.abs(quantized.astype(np.float64) - array).max()) / bound)
    assert min(broken) > 0.99
    assert 1.9 < worst <= 2.0001
    assert kept <= 1


# The controller.


def _collected(**changed: float) -> Collected:
    return Collected(**{"momentum": 1e-3, "loss": 0.2, "norm": 3.0, "nonzero": 0.25} | changed)


def test_bounds_are_those_of_equations_1_and_3() -> None:
    controller = Controller(period=10, coefficients={"conv1": 0.32})
    assert controller.bounds == {}
    controller.update(10, 256, {"conv1": _collected()})
    expected = 0.01 * 1e-3 / (0.32 * 0.2 * math.sqrt(256 * 0.25))
    assert controller.bounds["conv1"] == pytest.approx(expected, rel=1e-12)


def test_layers_without_a_coefficient_are_calibrated_by_the_exact_law_once() -> None:
    controller = Controller(period=10)
    controller.update(10, 256, {"conv1": _collected()})
    exact = law.exact_bound(1e-5, norm=3.0, nonzero=0.25)
    assert controller.bounds["conv1"] == pytest.approx(exact, rel=1e-12)
    first = dict(controller.coefficients)
    # Afterwards L̄ alone is followed.
    controller.update(20, 256, {"conv1": _collected(loss=0.25, norm=100.0)})
    assert controller.coefficients == first
    assert controller.bounds["conv1"] == pytest.approx(exact * 0.2 / 0.25, rel=1e-12)


@pytest.mark.parametrize("factor", [2.1, 1 / 2.1])
def test_a_bound_that_more_than_doubles_or_halves_halves_the_period(factor: float) -> None:
    controller = Controller(period=8)
    controller.update(8, 32, {"conv1": _collected(), "conv2": _collected()})
    assert controller.period == 8
    momentum, iteration = 1e-3, 8
    for period in (4, 2, 1, 1):
        assert not controller.due(iteration + controller.period - 1)
        iteration += controller.period
        assert controller.due(iteration)
        momentum *= factor
        restless = _collected(momentum=momentum)
        controller.update(iteration, 32, {"conv1": restless, "conv2": _collected()})
        assert controller.period == period
    controller.update(iteration + 1, 32, {"conv1": restless, "conv2": _collected()})
    assert controller.period == 8
    assert not controller.due(iteration + 8)
    assert controller.due(iteration + 9)


def test_changes_by_exactly_two_are_settled() -> None:
    controller = Controller(period=8)
    for iteration, momentum in ((8, 1e-3), (16, 2e-3), (24, 1e-3)):
        controller.update(iteration, 32, {"conv1": _collected(momentum=momentum)})
        assert controller.period == 8


def test_first_period_is_without_bounds() -> None:
    controller = Controller()
    assert controller.period == 1000
    assert not any(controller.due(iteration) for iteration in range(1, 1000))
    assert controller.due(1000)


@pytest.mark.parametrize("nothing", ["momentum", "loss", "norm", "nonzero"])
def test_a_layer_that_nothing_flows_through_keeps_its_bound(nothing: str) -> None:
    controller = Controller(period=4)
    controller.update(4, 32, {"conv1": _collected(), "conv2": _collected(**{nothing: 0.0})})
    assert list(controller.bounds) == ["conv1"]
    before = dict(controller.bounds)
    controller.update(8, 32, {"conv1": _collected(**{nothing: 0.0})})
    assert controller.bounds == before
    assert controller.period == 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"momentum": math.nan}, "momentum collected of layer conv1 must be 0 or more, not nan"),
        ({"loss": math.inf}, "loss collected of layer conv1 must be 0 or more, not inf"),
        ({"norm": -1.0}, "norm collected of layer conv1 must be 0 or more"),
        ({"nonzero": 1.5}, "nonzero collected of layer conv1 must be 0 to 1, not 1.5"),
    ],
)
def test_what_cannot_have_been_collected_is_refused(changed, message: str) -> None:
    controller = Controller(period=4)
    with pytest.raises(ScheduleError, match=message):
        controller.update(4, 32, {"conv1": _collected(**changed)})
    assert controller.bounds == {}


def test_parameters_that_cannot_be_are_refused() -> None:
    with pytest.raises(ScheduleError, match="period must be 1 iteration or more, not 0"):
        Controller(period=0)
    with pytest.raises(ScheduleError, match="coefficient of conv1 must be more than 0, not 0"):
        Controller(coefficients={"conv1": 0.0})


# Batch sizes, and the paper's Table 1.


@pytest.mark.parametrize("network", TABLE_1.rows)
def test_batches_of_table_1(network: str) -> None:
    peak_gb, batch = TABLE_1.column("peak_gb")[network], TABLE_1.column("batch")[network]
    ours = training_batch(16.0, peak_gb / 128, cap=1 << 20)
    # All but ResNet-50's follow from the paper's rule.
    assert (ours == batch) == (batch * peak_gb / 128 <= 0.95 * 16) == (network != "ResNet-50")


def test_batch_is_a_power_of_two_that_leaves_the_reserve() -> None:
    assert training_batch(100.0, 1.0, cap=1000) == 64
    assert training_batch(100.0, 1.0, cap=48) == 32
    # Exactly 95 % is enough; a little less is not.
    assert training_batch(100.0, 95 / 64, cap=1000) == 64
    assert training_batch(100.0, 95.1 / 64, cap=1000) == 32
    assert training_batch(100.0, 1.0, cap=1000, fixed_bytes=70.0) == 16


def test_batch_grows_only_after_the_first_period() -> None:
    controller = Controller(period=4)
    assert controller.batch(48, 100.0, 1.0, cap=1000) == 48
    controller.update(4, 48, {"conv1": _collected()})
    assert controller.batch(48, 100.0, 1.0, cap=1000) == 64


def test_no_batch_at_all_says_what_two_images_need() -> None:
    with pytest.raises(ScheduleError, match=r"two need 105\.3 B of 100 B; raise the cap or give"):
        training_batch(100.0, 50.0, cap=1000)
    with pytest.raises(ScheduleError, match="the cap is 1"):
        training_batch(100.0, 1.0, cap=1)
    with pytest.raises(ScheduleError, match="bytes_per_image must be more than 0"):
        training_batch(100.0, 0.0, cap=8)


# The policy.


def _placements(network: str) -> tuple[Graph, dict[str, Placement], dict[str, str]]:
    """The graph, what becomes of its tensors, and the kinds of layers that make them."""
    graph = Graph.from_table(network, 128)
    graph = graph.with_densities({graph.tensors[t].name: 0.5 for t in graph.managed})
    scenario = Scenario(
        graph=graph, device=device("v100"), link=link("pcie3x16"), memory_bytes=16 * 10**9
    )
    plan = comet.plan(scenario)
    names = [graph.tensors[t].name for t in graph.managed]
    kinds = [scenario.stages[scenario.stage_of[t]].kind for t in graph.managed]
    placements = [choice.placement for choice in plan.choices]
    return graph, dict(zip(names, placements, strict=True)), dict(zip(names, kinds, strict=True))


@pytest.mark.parametrize("network", ["alexnet", "vgg16", "resnet50", "googlenet", "mobilenet"])
def test_policy_compresses_convolutions_and_never_runs_one_twice(network: str) -> None:
    graph, placements, kinds = _placements(network)
    for t in graph.conv_inputs:
        assert placements[graph.tensors[t].name] is Placement.COMPRESS
    for name, placement in placements.items():
        assert placement is not Placement.SWAP
        if kinds[name] in ("conv", "dwconv"):
            assert placement is Placement.COMPRESS
        if placement is Placement.RECOMPUTE:
            assert kinds[name] in comet.RECOMPUTED
        if placement is Placement.RETAIN:
            assert kinds[name] not in comet.RECOMPUTED


def test_policy_keeps_most_of_vgg16_compressed() -> None:
    graph, placements, kinds = _placements("vgg16")
    sizes = {tensor.name: tensor.nbytes for tensor in graph.tensors}
    made = sum(sizes[name] for name in placements if kinds[name] == "conv")
    assert made / 1e9 == pytest.approx(TABLE_1.column("size_before")["VGG-16"], rel=0.01)
    # Only the last pooling layer's output is read by no convolution.
    recomputed = [name for name, what in placements.items() if what is Placement.RECOMPUTE]
    assert recomputed == ["pool5"]
