"""The capture format and the shipped capture; no PyTorch needed."""

import json
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from cdma.plan.workload import (
    Activation,
    Capture,
    CaptureError,
    capture_names,
    load_capture,
    relayout,
)
from cdma.plan.workload.capture.capture import SHIPPED

DIGITS = "digits-cnn"


def _capture(*arrays: np.ndarray, name: str = "small") -> Capture:
    return Capture(
        name=name,
        activations=tuple(
            Activation(name=f"l{i}@epoch0", layer=f"l{i}", kind="relu", epoch=0, array=array)
            for i, array in enumerate(arrays)
        ),
        recipe={"network": "none"},
        seeds={"numpy": 7},
        versions={"numpy": np.__version__},
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small capture on disk: its .json file."""
    rng = np.random.default_rng(1)
    dense = rng.standard_normal((2, 3, 5, 7)).astype(np.float32)
    return _capture(dense, np.maximum(dense, 0)[:, :, 0, 0]).save(tmp_path)


def _edit_recipe(path: Path, **changes: object) -> None:
    """Change keys of the first array's line."""
    recipe = json.loads(path.read_text())
    recipe["arrays"][0].update(changes)
    path.write_text(json.dumps(recipe))


# The shipped capture.


def test_shipped_capture_is_small_and_float32() -> None:
    assert DIGITS in capture_names()
    files = list(SHIPPED.glob(f"{DIGITS}.*"))
    assert sorted(file.suffix for file in files) == [".json", ".npz"]
    assert sum(file.stat().st_size for file in files) <= 4_000_000
    activations = load_capture(DIGITS).activations
    assert {activation.array.dtype for activation in activations} == {np.dtype(np.float32)}
    assert sum(activation.array.nbytes for activation in activations) > 4_000_000


def test_shipped_recipe_tells_how_it_came_about() -> None:
    capture = load_capture(DIGITS)
    assert capture.name == DIGITS
    assert capture.recipe["history"][-1]["test_accuracy"] > 0.95
    assert capture.recipe["history"][-1]["epoch"] == capture.recipe["kept_epochs"][-1]
    assert {a.epoch for a in capture.activations} == set(capture.recipe["kept_epochs"])
    assert 0 in capture.recipe["kept_epochs"]
    assert "torch" in capture.seeds
    assert {"python", "numpy", "torch", "processor"} <= capture.versions.keys()


def test_shipped_activations_are_sparse_and_not_negative() -> None:
    activations = load_capture(DIGITS).activations
    assert {activation.kind for activation in activations} == {"relu", "pool"}
    for activation in activations:
        assert activation.array.min() >= 0
        assert 0.02 < activation.density < 0.8, activation.name
        assert activation.layout == ("NC" if activation.layer == "fc0.relu" else "NCHW")


def test_pooling_raises_density_and_training_lowers_it() -> None:
    # cDMA, §III: what real activations do and random ones would not.
    density = {a.name: a.density for a in load_capture(DIGITS).activations}
    for epoch in (0, 2, 12):
        for stage in range(3):
            pooled = density[f"pool{stage}@epoch{epoch}"]
            assert pooled > density[f"conv{stage}.relu@epoch{epoch}"]
    for layer in ("conv1.relu", "conv2.relu", "fc0.relu"):
        epochs = [density[f"{layer}@epoch{epoch}"] for epoch in (0, 2, 12)]
        assert epochs == sorted(epochs, reverse=True)


def test_zeros_cluster_in_space() -> None:
    # A zero's neighbor to the right is a zero more often than a fresh draw would be.
    for activation in load_capture(DIGITS).activations:
        if activation.kind == "relu" and activation.layout == "NCHW":
            zero = activation.array == 0
            after_zero = zero[..., 1:][zero[..., :-1]].mean()
            assert after_zero > (1 - activation.density) + 0.02, activation.name


def test_recipe_says_what_the_arrays_are() -> None:
    entries = json.loads((SHIPPED / f"{DIGITS}.json").read_text())["arrays"]
    with np.load(SHIPPED / f"{DIGITS}.npz") as archive:
        assert set(archive.files) == {entry["name"] for entry in entries}
        for entry in entries:
            array = archive[entry["name"]]
            assert list(array.shape) == entry["shape"]
            assert np.count_nonzero(array.view(np.uint32)) == entry["nonzero"]
            assert entry["density"] == entry["nonzero"] / array.size
            assert entry["crc32"] == zlib.crc32(array.tobytes())


# Saving and loading.


def test_round_trip_keeps_every_bit(tmp_path: Path) -> None:
    special = np.array([[0.0, -0.0, np.nan, np.inf, 1e-45, 1.0]], np.float32)
    arrays = [
        special,
        np.zeros((1, 1, 1, 1), np.float16),
        np.zeros((0, 4), np.float32),
        np.arange(24, dtype=np.int8).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    ]
    loaded = load_capture(_capture(*arrays).save(tmp_path))
    for before, after in zip(arrays, loaded.activations, strict=True):
        assert (after.array.dtype, after.array.shape) == (before.dtype, before.shape)
        assert after.array.tobytes() == before.tobytes()
        assert not after.array.flags.writeable
    # -0.0, NaN, Inf and the denormal are data; only +0.0 is a zero.
    assert loaded.activations[0].density == 5 / 6
    assert loaded.activations[1].density == 0
    assert loaded.activations[2].density == 0
    assert [a.layout for a in loaded.activations] == ["NC", "NCHW", "NC", "other", "NC"]
    assert loaded.seeds == {"numpy": 7}
    assert loaded.recipe == {"network": "none"}


def test_either_file_names_the_capture(saved: Path) -> None:
    assert load_capture(saved).name == "small"
    assert load_capture(str(saved.with_suffix(".npz"))).name == "small"


def test_saving_again_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    again = load_capture(saved).save(tmp_path / "new" / "folder")
    for suffix in (".json", ".npz"):
        assert again.with_suffix(suffix).read_bytes() == saved.with_suffix(suffix).read_bytes()


def test_failed_save_leaves_the_old_capture(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CaptureError, match=r"cannot write .*No space left on device; "):
        _capture(np.ones((2, 2))).save(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_unwritable_destinations_are_refused(tmp_path: Path) -> None:
    capture = _capture(np.ones((2, 2)))
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="file is not a directory; "):
        capture.save(tmp_path / "file" / "deeper")
    (tmp_path / "small.npz").mkdir()
    with pytest.raises(CaptureError, match=r"small\.npz: it is a directory; "):
        capture.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "small.npz"]


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "a b", "x" * 101, "a\n"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(CaptureError, match="cannot name a capture; use letters"):
        _capture(np.ones((2, 2)), name=name)


def test_empty_and_ambiguous_captures_are_refused() -> None:
    with pytest.raises(CaptureError, match="has no arrays; "):
        _capture()
    twin = _capture(np.ones((2, 2))).activations[0]
    with pytest.raises(CaptureError, match="two arrays l0@epoch0; "):
        Capture(name="x", activations=(twin, twin), recipe={}, seeds={}, versions={})


def test_recipe_must_be_json(tmp_path: Path) -> None:
    sound = _capture(np.ones((2, 2)))
    capture = Capture(
        name="x", activations=sound.activations, recipe={"f": print}, seeds={}, versions={}
    )
    with pytest.raises(CaptureError, match="recipe of x is not JSON"):
        capture.save(tmp_path)
    assert not list(tmp_path.iterdir())


# Damage.


def test_unknown_and_missing_captures(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="unknown capture 'nothing'; name one of digits-cnn"):
        load_capture("nothing")
    with pytest.raises(CaptureError, match=r"cannot read .*gone\.json: No such file"):
        load_capture(tmp_path / "gone.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(CaptureError, match=r"cannot read .*folder\.json: Is a directory"):
        load_capture(tmp_path / "folder.json")


def test_missing_arrays_file(saved: Path) -> None:
    saved.with_suffix(".npz").unlink()
    with pytest.raises(CaptureError, match=r"cannot read .*small\.npz: No such file"):
        load_capture(saved)


def test_archive_truncated_at_any_byte_is_refused(saved: Path) -> None:
    archive = saved.with_suffix(".npz")
    content = archive.read_bytes()
    for length in range(len(content)):
        archive.write_bytes(content[:length])
        with pytest.raises(CaptureError, match="; copy both its files again or capture again"):
            load_capture(saved)


def test_flipped_bits_never_change_an_array(saved: Path) -> None:
    before = [activation.array.tobytes() for activation in load_capture(saved).activations]
    archive = saved.with_suffix(".npz")
    content = archive.read_bytes()
    refused = 0
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        archive.write_bytes(damaged)
        try:
            loaded = load_capture(saved)
        except CaptureError:
            refused += 1
        else:
            # A bit that nothing depends on, as the time stamps of the archive's members.
            assert [activation.array.tobytes() for activation in loaded.activations] == before
    assert refused > 0.8 * len(content)


def test_recipe_truncated_at_any_byte_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for length in range(len(content) - 2):
        saved.write_bytes(content[:length])
        with pytest.raises(CaptureError, match="is damaged: it is not JSON; "):
            load_capture(saved)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"sha256": "0" * 64}, "the sha256 of array l0@epoch0 is not its recipe's"),
        ({"crc32": 1}, "the crc32 of array"),
        ({"nonzero": 3}, "the nonzero of array"),
        ({"density": 0.5}, "the density of array"),
        ({"layout": "NHWC"}, "the layout of array"),
        ({"dtype": "int32"}, "its recipe says int32"),
        ({"shape": [210]}, "its recipe says"),
        ({"shape": [1, 2]}, "its recipe says"),
        ({"dtype": "object"}, "has dtype object"),
        ({"dtype": "no such type"}, "it is not a recipe"),
        ({"shape": "many"}, "it is not a recipe"),
        ({"epoch": None}, "it is not a recipe"),
        ({"name": "other"}, "it lacks array other"),
    ],
)
def test_recipe_that_differs_is_refused(saved: Path, changes: dict, cause: str) -> None:
    _edit_recipe(saved, **changes)
    with pytest.raises(CaptureError, match=cause):
        load_capture(saved)


def test_array_larger_than_its_recipe_is_not_read(saved: Path) -> None:
    with zipfile.ZipFile(saved.with_suffix(".npz"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("l0@epoch0.npy", bytes(1 << 20))
    with pytest.raises(CaptureError, match="array l0@epoch0 is larger than its recipe says"):
        load_capture(saved)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("[]", "is not the recipe of a capture; "),
        ("{}", "is not the recipe of a capture; "),
        ("[" * 100_000, "it is not JSON"),
        ('{"schema": "capture", "version": 3}', "has version 3 of the schema 'capture', and this"),
        ('{"schema": "capture"}', "has version None of the schema 'capture'"),
        ('{"schema": "swap", "version": 1}', "is not the recipe of a capture; "),
        ('{"schema": "capture", "version": 2}', "it is not a recipe"),
        ('{"format": "cdma-capture", "version": 1}', "it is not a recipe"),
        ('{"format": "cdma-capture", "version": 1, "arrays": [[]]}', "it is not a recipe"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, content: str, cause: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with zipfile.ZipFile(path.with_suffix(".npz"), "w"):
        pass
    with pytest.raises(CaptureError, match=cause):
        load_capture(path)


# Layouts.


def test_relayout_orders_dimensions_in_memory() -> None:
    array = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    n, c, h, w = 1, 2, 3, 4
    assert relayout(array, "NCHW")[n, c, h, w] == array[n, c, h, w]
    assert relayout(array, "NHWC")[n, h, w, c] == array[n, c, h, w]
    assert relayout(array, "CHWN")[c, h, w, n] == array[n, c, h, w]
    assert relayout(array, "NHWC").shape == (2, 4, 5, 3)
    assert relayout(array, "CHWN").shape == (3, 4, 5, 2)
    for layout in ("NCHW", "NHWC", "CHWN"):
        assert relayout(array, layout).flags.c_contiguous


@pytest.mark.parametrize("source", ["NCHW", "NHWC", "CHWN"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (6, 7)])
def test_relayout_round_trip(layout: str, source: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).standard_normal(shape)
    there = relayout(array, layout, source=source)
    assert np.array_equal(relayout(there, source, source=layout), array)


def test_fully_connected_layers_have_one_pixel() -> None:
    array = np.arange(6).reshape(2, 3)
    as_image = array.reshape(2, 3, 1, 1)
    for layout in ("NCHW", "NHWC", "CHWN"):
        assert np.array_equal(relayout(array, layout).ravel(), relayout(as_image, layout).ravel())


def test_relayout_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="layout must be one of NCHW, NHWC, CHWN, not 'HWCN'"):
        relayout(np.zeros((1, 1, 1, 1)), "HWCN")
    with pytest.raises(ValueError, match="four or two dimensions, not 3"):
        relayout(np.zeros((1, 1, 1)), "NHWC")
