"""Training with saved activations through codecs, with PyTorch: `make test-torch`.

Short trainings, so orderings only where they are gross; docs/guide/plan/lossy-training.md has the
long ones.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdma import golden
from cdma.plan.policies.comet import Collected
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.training import SCHEMES, TrainingRun, scheme, train
from cdma.plan.training.__main__ import main
from cdma.plan.training.run import ACTIVATIONS, STEPS
from cdma.plan.training.saved import ActivationTraffic, SavedActivations
from cdma.plan.training.schemes import Baseline, FixedRate

pytestmark = pytest.mark.torch

# What backward reads, by elements per image: activation, pooling and dropout outputs. Nobody saves
# pool2, which dropout reads and needs its mask only for.
SAVED = {
    "conv0.relu": 8 * 32 * 32,
    "pool0": 8 * 15 * 15,
    "conv1.relu": 16 * 15 * 15,
    "pool1": 16 * 7 * 7,
    "conv2.relu": 32 * 7 * 7,
    "dropout0": 32 * 3 * 3,
    "fc0.relu": 64,
    "dropout1": 64,
}
IMAGES = 1437


class _Checked:
    """A codec that keeps what went through it."""

    def __init__(self, codec: Any, seen: Callable[[np.ndarray, Any, np.ndarray], None]) -> None:
        self._codec = codec
        self._seen = seen
        self._arrays: list[np.ndarray] = []

    def compress(self, array: np.ndarray) -> Any:
        self._arrays.append(array.copy())
        return self._codec.compress(array)

    def decompress(self, stream: Any, nbytes: int) -> Any:
        restored = self._codec.decompress(stream, nbytes)
        self._seen(self._arrays.pop(), stream, restored.view(np.float32))
        return restored


class _Watched(Baseline):
    """A scheme that keeps what goes through its codecs, by tensor."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.seen: list[tuple[str, Any, int, int, float, bool]] = []
        self.due = inner.due
        self.update = inner.update

    def codec(self, tensor: str, epoch: int) -> Any:
        codec = self.inner.codec(tensor, epoch)
        if codec is None:
            return None

        def seen(array: np.ndarray, stream: Any, restored: np.ndarray) -> None:
            worst = float(np.abs(restored.astype(np.float64) - array).max())
            zeros_kept = not restored[array == 0].any()
            self.seen.append((tensor, codec, array.size, stream.nbytes, worst, zeros_kept))

        return _Checked(codec, seen)


class _Identity(Baseline):
    """All through a codec that loses nothing."""

    def codec(self, tensor: str, epoch: int) -> Any:
        return golden.codec("zvc")


@cache
def _baseline(activation: str, epochs: int, seed: int = 0) -> TrainingRun:
    return train(Baseline(), activation, seed, epochs)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_lossless_codec_changes_no_bit(activation: str) -> None:
    run = train(_Identity(), activation, 0, 1)
    assert run.weights_crc32 == _baseline(activation, 1).weights_crc32
    assert run.losses == _baseline(activation, 1).losses
    assert run.traffic.compressed_bytes == run.traffic.raw_bytes
    if activation == "relu":
        assert run.traffic.stream_bytes < 0.6 * run.traffic.raw_bytes
    assert _baseline(activation, 1).traffic.compressed_bytes == 0


def test_runs_are_reproducible_by_seed() -> None:
    first = train(scheme("zfp-32", 1, STEPS), "relu", 0, 1)
    assert train(scheme("zfp-32", 1, STEPS), "relu", 0, 1) == first
    assert first.losses != _baseline("relu", 1).losses
    assert _baseline("relu", 1, seed=1).losses != _baseline("relu", 1).losses


def test_every_saved_activation_is_counted_once_a_step() -> None:
    elements = IMAGES * sum(SAVED.values())
    assert _baseline("relu", 1).traffic == ActivationTraffic(raw_bytes=4 * elements)


@pytest.mark.parametrize("bits", [32, 21])
def test_bytes_are_those_of_equation_7(bits: int) -> None:
    watched = _Watched(FixedRate(lambda epoch: bits))
    run = train(watched, "leaky_relu", 0, 1)
    assert len(watched.seen) == STEPS * len(SAVED)
    for tensor, codec, elements, stream_bytes, _worst, _zeros in watched.seen:
        assert codec.rate == bits
        assert elements % SAVED[tensor] == 0
        blocks = -(-elements // 4)
        assert stream_bytes == -(-bits * blocks // 64) * 8
    assert run.traffic.stream_bytes == sum(seen[3] for seen in watched.seen)
    assert run.traffic.stream_bytes == pytest.approx(run.traffic.raw_bytes * bits / 128, rel=1e-4)
    assert run.traffic.saved_bytes == run.traffic.stream_bytes


def test_comet_keeps_bounds_and_zeros_of_convolutions_inputs_after_the_first_period() -> None:
    watched = _Watched(scheme("comet", 2, STEPS))
    run = train(watched, "relu", 0, 2)
    # The first period, an epoch here, is as it is.
    assert run.losses[0] == _baseline("relu", 1).losses[0]
    assert len(watched.seen) == 2 * STEPS
    for tensor, codec, _elements, _bytes, worst, zeros_kept in watched.seen:
        assert tensor in ("pool0", "pool1")
        assert worst <= codec.bound
        assert zeros_kept
    assert run.traffic.compressed_bytes == 4 * IMAGES * (SAVED["pool0"] + SAVED["pool1"])
    assert run.traffic.stream_bytes < run.traffic.compressed_bytes / 3


def test_comet_bounds_follow_the_training_and_static_ones_do_not() -> None:
    for chosen, updates in ((scheme("comet", 1, 9), 5), (scheme("static-1", 1, STEPS), 1)):
        watched = _Watched(chosen)
        train(watched, "leaky_relu", 0, 1)
        bounds = [codec.bound for tensor, codec, *_ in watched.seen if tensor == "pool1"]
        # The last step's update comes too late to be used; a static bound follows the first step.
        assert len(set(bounds)) == max(updates - 1, 1)
        assert len(bounds) == STEPS - (9 if updates > 1 else 1)
        assert {tensor for tensor, *_ in watched.seen} == {"pool0", "pool1"}


def test_kept_zeros_are_zeros_and_cost_a_bit_per_value() -> None:
    watched = _Watched(scheme("zfp-32-zeros", 1, STEPS))
    train(watched, "relu", 0, 1)
    for _tensor, _codec, elements, stream_bytes, _worst, zeros_kept in watched.seen:
        assert zeros_kept
        assert stream_bytes == -(-elements // 8) + -(-32 * -(-elements // 4) // 64) * 8
    watched = _Watched(scheme("zfp-32", 1, STEPS))
    train(watched, "relu", 0, 1)
    assert not any(zeros_kept for *_, zeros_kept in watched.seen)


def test_zfp_breaks_a_relus_training_and_kept_zeros_mend_it() -> None:
    # Where a zero comes back as something else, backward takes a neuron for active that was not.
    third = {
        name: train(scheme(name, 3, STEPS), "relu", 0, 3).losses[2]
        for name in ("baseline", "zfp-32", "zfp-32-zeros")
    }
    assert third["zfp-32"] > 1.5 * third["baseline"]
    assert third["zfp-32-zeros"] == pytest.approx(third["baseline"], rel=0.1)


def test_a_training_that_diverges_says_when() -> None:
    class Huge:
        def compress(self, array: np.ndarray) -> np.ndarray:
            return array.view(np.uint8)

        def decompress(self, stream: np.ndarray, nbytes: int) -> np.ndarray:
            return np.full(nbytes // 4, 1e20, np.float32).view(np.uint8)

    class Exploding(Baseline):
        def codec(self, tensor: str, epoch: int) -> Any:
            return Huge() if epoch else None

    run = train(Exploding(), "relu", 0, 3)
    assert run.diverged == 1
    assert run.losses == _baseline("relu", 1).losses
    assert run.test_accuracy < 0.2


# Where autograd saves.


def _model() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    )


def _gradients(model: Any, images: Any, codec_of: Any, traffic: ActivationTraffic) -> list[Any]:
    from torch import nn

    model.zero_grad()
    with SavedActivations(model, (nn.ReLU, nn.MaxPool2d), codec_of, traffic):
        model(images).square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_backward_reads_what_decompression_gives_and_forward_does_not() -> None:
    import torch

    torch.manual_seed(0)
    model, images = _model(), torch.randn(4, 1, 6, 6)

    class Doubled:
        def compress(self, array: np.ndarray) -> np.ndarray:
            return (2 * array).view(np.uint8)

        def decompress(self, stream: np.ndarray, nbytes: int) -> np.ndarray:
            return stream[:nbytes]

    traffic = ActivationTraffic()
    weight, bias, linear, linear_bias = _gradients(model, images, lambda name: None, traffic)
    assert traffic == ActivationTraffic(raw_bytes=4 * 4 * (2 * 4 * 4 + 2 * 2 * 2))
    doubled = _gradients(model, images, {"2": Doubled()}.get, ActivationTraffic())
    # The linear layer's weights see its input, pooled and flattened; nothing else sees it.
    assert torch.equal(doubled[2], 2 * linear)
    for found, expected in zip(doubled, (weight, bias, None, linear_bias), strict=True):
        assert expected is None or torch.equal(found, expected)
    # A ReLU asks for signs only, so twice its output does not matter.
    doubled = _gradients(model, images, {"1": Doubled()}.get, ActivationTraffic())
    for found, expected in zip(doubled, (weight, bias, linear, linear_bias), strict=True):
        assert torch.equal(found, expected)


def test_a_tensor_saved_twice_goes_through_its_codec_once() -> None:
    import torch

    seen = []

    def codec_of(name: str) -> Any:
        seen.append(name)
        return golden.codec("zvc")

    traffic = ActivationTraffic()
    _gradients(_model(), torch.randn(4, 1, 6, 6), codec_of, traffic)
    assert seen == ["1", "2"]
    assert traffic.compressed_bytes == traffic.raw_bytes == 4 * 4 * (32 + 8)


def test_hooks_are_gone_after_an_error() -> None:
    import torch

    model, images = _model(), torch.randn(4, 1, 6, 6)

    def refuse(name: str) -> Any:
        raise ScheduleError("no codec")

    with pytest.raises(ScheduleError, match="no codec"):
        _gradients(model, images, refuse, ActivationTraffic())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    model(images).square().sum().backward()


# Schemes.


def _rates(name: str, epochs: int) -> list[int]:
    chosen = scheme(name, epochs, STEPS)
    return [chosen.codec("pool0", epoch).rate for epoch in range(epochs)]


def test_rates_slide_down_as_in_the_papers_example_and_up_in_the_inverse_scheme() -> None:
    down = _rates("sliding", 90)
    assert down[:3] == [100, 99, 98]
    assert down[79:] == [21] + 10 * [20]
    assert _rates("inverse", 90) == [120 - bits for bits in down]
    assert _rates("zfp-32", 2) == [32, 32]


def test_static_strategies_estimate_once() -> None:
    values = Collected(momentum=1e-3, loss=0.1, norm=1.0, nonzero=0.5)
    for name, when in (("static-1", 1), ("static-100", 100)):
        chosen = scheme(name, 10, STEPS)
        assert next(i for i in range(1, 102) if chosen.due(i)) == when
        assert chosen.codec("pool0", 0) is None
        chosen.update(when, 32, {"pool0": values})
        assert chosen.codec("pool0", 0).bound > 0
        assert chosen.codec("conv0.relu", 0) is None
        assert not any(chosen.due(i) for i in range(when, 500))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: scheme("zfp", 2, 3), f"unknown scheme 'zfp'; choose from {', '.join(SCHEMES)}"),
        (lambda: scheme("comet", 2, 0), "epochs and steps must be at least 1, not 2 and 0"),
        (lambda: train(Baseline(), "tanh", 0, 1), "unknown activation 'tanh'; choose from relu, l"),
        (lambda: train(Baseline(), "relu", 0, 0), "epochs must be at least 1, not 0"),
    ],
)
def test_what_there_is_not_is_refused(run: Callable[[], Any], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        run()


# The recipe.


def _recipe(out: Path, **options: Any) -> int:
    settings: Mapping[str, Any] = {"seeds": 1, "epochs": 1, "activation": "relu"} | options
    arguments = [str(part) for name, value in settings.items() for part in (f"--{name}", value)]
    return main([*arguments, "--scheme", "baseline", "zfp-32", "--out", str(out)])


def test_recipe_reports_and_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "reports" / "lossy.json"
    assert _recipe(out) == 0
    first = json.loads(out.read_text())
    assert list(first["runs"]) == ["relu/baseline/0", "relu/zfp-32/0"]
    run = first["runs"]["relu/zfp-32/0"]
    assert run["saved_bytes"] == run["traffic"]["stream_bytes"] == IMAGES * sum(SAVED.values())
    assert first["runs"]["relu/baseline/0"]["losses"] == list(_baseline("relu", 1).losses)
    assert "4.00" in capsys.readouterr().out
    del first["runs"]["relu/zfp-32/0"]
    out.write_text(json.dumps(first))
    assert _recipe(out) == 0
    printed = capsys.readouterr().out
    assert "relu/zfp-32/0" in printed
    assert "relu/baseline/0" not in printed
    assert list(out.parent.iterdir()) == [out]


def test_recipe_refuses_the_report_of_other_trainings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lossy.json"
    out.write_text("{")
    assert _recipe(out) == 1
    assert "is no report of trainings; remove it or name another" in capsys.readouterr().err
    out.write_text(json.dumps({"settings": {"epochs": 7}, "runs": {}}))
    assert _recipe(out) == 1
    assert "is of {'epochs': 7}, and these trainings are of {'epochs': 1" in capsys.readouterr().err
    assert json.loads(out.read_text())["settings"] == {"epochs": 7}
