"""The shipped capture of a small GPT, and captures of element formats that numpy lacks."""

import json
from pathlib import Path

import numpy as np
import pytest

from cdma import golden
from cdma.golden.formats.xc.xc import Xc
from cdma.plan.workload import Activation, Capture, CaptureError, load_capture
from cdma.plan.workload.capture.capture import SHIPPED
from tests.bench.dense_data import captured_series, from_bf16
from tests.bench.xc_ratios import huffman_bits

NAME = "tiny-gpt"
LARGE = "python-gpt"
"""Of GPT-2's size."""
KINDS = {"layernorm", "linear", "softmax", "gelu", "weights", "gradients", "adam_m", "adam_v"}


def small(words: np.ndarray, element_format: str) -> Capture:
    activation = Activation(
        name="l@epoch0", layer="l", kind="l", epoch=0, array=words, element_format=element_format
    )
    return Capture(name="small", activations=(activation,), recipe={}, seeds={}, versions={})


def test_it_is_small_and_bf16() -> None:
    capture = load_capture(NAME)
    assert (SHIPPED / f"{NAME}.npz").stat().st_size <= 2_000_000
    assert {activation.kind for activation in capture.activations} == KINDS
    assert {activation.element_format for activation in capture.activations} == {"bf16"}
    assert {activation.array.dtype for activation in capture.activations} == {np.dtype(np.uint16)}
    assert capture.recipe["hook"] == "cdma.plan.workload.capture.tiny_gpt:subject"
    losses = [epoch["loss"] for epoch in capture.recipe["history"]]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 3


def test_its_numbers_are_what_they_are_called() -> None:
    arrays = {a.name: from_bf16(a.array) for a in load_capture(NAME).activations}
    for block in (0, 3):
        probabilities = arrays[f"blocks.{block}.probabilities@epoch4"]
        np.testing.assert_allclose(probabilities.sum(axis=-1), 1, atol=0.05)
        assert not np.triu(probabilities, 1).any()
        gelu = arrays[f"blocks.{block}.gelu@epoch4"]
        assert -0.171 < gelu.min() < 0 < gelu.max()
    assert (arrays["adam_v.blocks.3.up@epoch4"] >= 0).all()


def test_the_large_one_is_what_its_recipe_says() -> None:
    capture = load_capture(LARGE)
    assert (SHIPPED / f"{LARGE}.npz").stat().st_size <= 4_000_000
    assert capture.recipe["hook"] == "cdma.plan.workload.capture.python_gpt:subject"
    losses = [epoch["loss"] for epoch in capture.recipe["history"]]
    assert losses == sorted(losses, reverse=True)
    # Nats per byte of source code.
    assert losses[-1] < 0.6
    arrays = {a.name: a for a in capture.activations}
    assert {a.element_format for a in arrays.values()} == {"bf16", ""}
    assert all((a.element_format == "") == a.kind.startswith("adam") for a in arrays.values())
    gelu = from_bf16(arrays["blocks.11.kept_gelu@epoch6"].array)
    assert gelu.shape == (1, 32, 4 * 768)
    assert -0.171 < gelu.min() < 0 < gelu.max()
    assert (arrays["adam_v.blocks.11.up@epoch6"].array >= 0).all()


@pytest.mark.parametrize(("name", "least"), [(NAME, 1.35), (LARGE, 1.25)])
def test_they_hardly_have_zeros_and_xc_gains_where_zvc_loses(name: str, least: float) -> None:
    for activation in load_capture(name).activations:
        if activation.element_format != "bf16":
            continue
        words = activation.array.reshape(-1)
        ratios = {
            name: words.nbytes / codec.compress(words).size
            for name, codec in (("zvc", golden.codec("zvc", 2)), ("xc", Xc(2).fitted(words)))
        }
        assert ratios["xc"] > least
        if activation.kind != "softmax":
            assert activation.density > 0.99
            assert ratios["zvc"] < 0.95


@pytest.mark.parametrize("name", [NAME, LARGE])
def test_every_array_is_of_a_kind_of_the_benches(name: str) -> None:
    series = captured_series(name)
    assert sum(len(epochs) for tensors in series.values() for epochs in tensors) == len(
        load_capture(name).activations
    )
    assert set(series) >= {"GELU outputs", "keys and values", "Adam v"}


def test_formats_are_saved_and_read(tmp_path: Path) -> None:
    path = small(np.array([[0x3F80, 0x8000]], np.uint16), "bf16").save(tmp_path)
    assert json.loads(path.read_text())["arrays"][0]["element_format"] == "bf16"
    (found,) = load_capture(path).activations
    assert (found.element_format, found.array.tolist()) == ("bf16", [[0x3F80, 0x8000]])
    plain = small(np.ones(3, np.uint16), "").save(tmp_path)
    assert "element_format" not in json.loads(plain.read_text())["arrays"][0]


@pytest.mark.parametrize(
    ("dtype", "name", "mend"),
    [
        (np.float32, "bf16", "of float32 has no elements of bf16; give uint16"),
        (np.uint16, "e4m3", "of uint16 has no elements of e4m3; give uint8"),
        (np.uint16, "fp4", "has no elements of fp4; give one of bf16, e4m3, e5m2"),
    ],
)
def test_a_format_that_does_not_fit_is_refused(dtype: type, name: str, mend: str) -> None:
    with pytest.raises(CaptureError, match=mend):
        small(np.ones(3, dtype), name)


def test_a_recipe_with_a_wrong_format_is_refused(tmp_path: Path) -> None:
    path = small(np.ones(3, np.uint16), "bf16").save(tmp_path)
    recipe = json.loads(path.read_text())
    recipe["arrays"][0]["element_format"] = "e4m3"
    path.write_text(json.dumps(recipe))
    with pytest.raises(CaptureError, match="of uint16 has no elements of e4m3; "):
        load_capture(path)


@pytest.mark.parametrize(
    ("counts", "longest", "bits"),
    [
        ([5], 8, 5),
        # a: 1 bit, b: 2, c and d: 3.
        ([8, 4, 2, 1, 0], 8, 8 + 8 + 6 + 3),
        # Where words have at most 2 bits, all four have 2.
        ([8, 4, 2, 1], 2, 30),
        # By the lengths 2, 2, 2, 3, 3.
        ([3, 3, 2, 1, 1], 3, 6 + 6 + 4 + 3 + 3),
    ],
)
def test_the_best_code_with_short_words_is_found(counts, longest, bits) -> None:
    assert huffman_bits(counts, longest) == bits
