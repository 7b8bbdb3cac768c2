"""The shipped snapshots of a training run: what is in memory beside activations. No PyTorch."""

import numpy as np
import pytest

from cdma.plan.workload import Capture, load_capture
from cdma.plan.workload.capture.capture import SHIPPED

NAME = "digits-cnn-training"
EPOCHS = [1, 2, 4, 8, 16]
LAYERS = ["conv0", "conv1", "conv2", "fc0", "fc1"]
WATCHED = ["conv0.relu", "pool0", "conv1.relu", "pool1", "conv2.relu", "pool2", "fc0.relu"]


@pytest.fixture(scope="module")
def capture() -> Capture:
    return load_capture(NAME)


@pytest.fixture(scope="module")
def arrays(capture: Capture) -> dict[str, np.ndarray]:
    return {activation.name: activation.array for activation in capture.activations}


def test_it_is_small_and_tells_how_it_came_about(capture: Capture) -> None:
    assert (SHIPPED / f"{NAME}.npz").stat().st_size <= 3_000_000
    assert capture.recipe["hook"] == "cdma.plan.workload.capture.digits_cnn:training_subject"
    assert capture.recipe["kept_epochs"] == EPOCHS
    assert capture.recipe["history"][-1]["test_accuracy"] > 0.9
    assert {"python", "numpy", "torch", "processor"} <= capture.versions.keys()


def test_every_snapshot_has_every_allocation(capture: Capture) -> None:
    kinds = ("weights", "gradients", "momentum")
    expected = {*WATCHED, *(f"gradients.{name}" for name in WATCHED), "images"}
    expected |= {f"{kind}.{part}" for kind in kinds for part in (*LAYERS, "biases")}
    for epoch in EPOCHS:
        found = {a.layer for a in capture.activations if a.epoch == epoch}
        assert found == expected
    found = {activation.kind for activation in capture.activations}
    assert found == {"relu", "pool", "images", *kinds}


def test_gradients_are_shaped_as_what_they_are_of(arrays: dict[str, np.ndarray]) -> None:
    for epoch in EPOCHS:
        for name in WATCHED:
            gradient = arrays[f"gradients.{name}@epoch{epoch}"]
            assert gradient.shape == arrays[f"{name}@epoch{epoch}"].shape
        for part in [*LAYERS, "biases"]:
            shapes = {
                arrays[f"{kind}.{part}@epoch{epoch}"].shape
                for kind in ("weights", "gradients", "momentum")
            }
            assert len(shapes) == 1


@pytest.mark.parametrize("epoch", EPOCHS)
def test_activations_follow_from_images_and_weights(
    arrays: dict[str, np.ndarray], epoch: int
) -> None:
    # One snapshot is one moment: the first layer, computed again from what was in memory.
    images, weights = arrays[f"images@epoch{epoch}"], arrays[f"weights.conv0@epoch{epoch}"]
    bias = arrays[f"weights.biases@epoch{epoch}"][:16]
    padded = np.pad(images[:, 0], ((0, 0), (2, 2), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(1, 2))
    expected = np.einsum("nyxij,oij->noyx", windows, weights[:, 0]) + bias[:, None, None]
    found = arrays[f"conv0.relu@epoch{epoch}"]
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("epoch", EPOCHS)
def test_gradients_are_of_these_activations(arrays: dict[str, np.ndarray], epoch: int) -> None:
    # The last layer's weights get what flows back times what came in: nothing where nothing did.
    activation = arrays[f"fc0.relu@epoch{epoch}"]
    gradient = arrays[f"gradients.fc1@epoch{epoch}"]
    assert not gradient[:, (activation == 0).all(axis=0)].any()
    # Pooling hands its gradient to the largest of up to nine pixels, and to no other.
    assert np.count_nonzero(arrays[f"gradients.conv0.relu@epoch{epoch}"]) < 0.5 * 4 * 16 * 1024


def test_training_moves_weights_and_momentum(arrays: dict[str, np.ndarray]) -> None:
    for kind in ("weights", "momentum", "gradients"):
        for layer in LAYERS:
            snapshots = {arrays[f"{kind}.{layer}@epoch{epoch}"].tobytes() for epoch in EPOCHS}
            assert len(snapshots) == len(EPOCHS)
    assert len({arrays[f"images@epoch{epoch}"].tobytes() for epoch in EPOCHS}) == 1
