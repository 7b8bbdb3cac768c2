"""Samples of layers: the planner's arithmetic and bytes beside what PyTorch really runs."""

import pytest

from cdma.plan.calibration.layers import layer_samples, passes
from cdma.plan.workload.layers import KINDS

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

PRODUCTS = ("conv", "dwconv", "fc", "lstm", "attention")


def meta_samples(precision: str = "fp32"):
    """All samples without values, so that nothing is computed."""
    return list(layer_samples(torch, "meta", precision=precision))


def test_every_kind_has_samples_of_several_sizes():
    kinds = [sample.kind for sample in meta_samples()]
    assert set(kinds) == set(KINDS)
    assert min(kinds.count(kind) for kind in KINDS) >= 2


def test_samples_of_bfloat16_are_products():
    samples = meta_samples("bf16")
    assert {sample.kind for sample in samples} == set(PRODUCTS)
    for sample in samples:
        assert any(layer.narrow for layer in sample.layers)
        assert {x.dtype for x in sample.tensors} == {torch.bfloat16}


def test_arithmetic_is_what_pytorch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    counted = 0
    for sample in meta_samples():
        # On the meta device attention and LSTM cells are other operators than elsewhere.
        if sample.kind in ("lstm", "attention"):
            continue
        work = passes(torch, sample)
        # For groups PyTorch counts the backward pass of whole convolutions.
        for way in ("forward",) if sample.kind == "dwconv" else ("forward", "backward"):
            with FlopCounterMode(display=False) as counter:
                work[way]()
            planned = sum(getattr(layer, f"flops_{way}") for layer in sample.layers)
            assert counter.get_total_flops() == planned, (sample.name, way)
            counted += planned > 0
    assert counted == 14


def test_arithmetic_of_attention_and_lstm_is_that_of_their_products():
    for sample in meta_samples():
        first = sample.tensors[0].shape
        (forward, *_) = [layer.flops_forward for layer in sample.layers]
        if sample.kind == "attention":
            batch, heads, length, elements = first
            assert forward == 2 * (2 * batch * heads * length * length * elements)
        if sample.kind == "lstm":
            rows, units = first
            assert forward == 2 * rows * (units + units) * 4 * units


def test_bytes_are_those_of_the_tensors():
    """Forward reads the tensors and writes the output, each once unless the kind's rule differs."""
    for sample in meta_samples():
        # An LSTM's cell has tensors between its layers.
        if sample.kind == "lstm":
            continue
        first = sample.tensors[0]
        moved = [sample.run(*sample.tensors), *(x for x in sample.tensors if x.ndim > 1)]
        if sample.kind == "embedding":
            moved.pop()  # the table, of which it reads as much as it writes
        nbytes = sum(x.numel() * x.element_size() for x in moved)
        if sample.name.startswith("by batch"):
            nbytes += first.numel() * first.element_size()  # once more, for the statistics
        if sample.kind == "dropout":
            nbytes += first.numel()  # its mask
        (layer,) = sample.layers
        assert layer.bytes_forward == nbytes, sample.name
