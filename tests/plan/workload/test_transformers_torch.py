"""Tables of transformers against PyTorch modules of their authors' code, traced without values."""

import pytest

from cdma.plan.workload.graph import Graph
from cdma.plan.workload.networks.transformers import dit, llama, olmoe, vit

pytestmark = pytest.mark.torch

BATCH = 2
CASES = [
    (name, precision)
    for name in ("gpt2", "llama3-8b", "olmoe", "vit-b16", "dit-xl2")
    for precision in ("fp32", "bf16", "autocast")
    # A GPU's attention has no grouped queries in float32.
    if (name, precision) != ("llama3-8b", "fp32")
]


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_a_table_computes_and_saves_what_its_module_does(
    name: str, precision: str, monkeypatch
) -> None:
    import torch

    from tests.plan.workload.torch_transformers import twin

    for family in (dit, llama, olmoe, vit):
        monkeypatch.setattr(family, "LAYERS", 2)
    narrow = precision == "bf16"
    with torch.device("meta"):
        module, shapes = twin(name)
        module = module.bfloat16() if narrow else module
        values = torch.bfloat16 if narrow else torch.float32
        inputs = tuple(
            torch.empty(BATCH, *shape, dtype=torch.int64 if tokens else values)
            for shape, tokens in shapes
        )
    traced = Graph.from_module(
        module, inputs, autocast=torch.bfloat16 if precision == "autocast" else None
    )
    table = Graph.from_table(name, BATCH, precision=precision)
    for field in ("flops_forward", "flops_backward", "parameter_bytes"):
        ours, theirs = (sum(getattr(x, field) for x in g.layers) for g in (table, traced))
        assert ours == theirs, field
    # A module's routing sorts more numbers, and its statistics may be as narrow as its values.
    assert _saved(table) == pytest.approx(_saved(traced), rel=2e-3)
    assert {x.narrow for x in traced.layers if x.flops_forward} == {precision != "fp32"}
    assert {x.kind for x in traced.layers if x.flops_forward} == {"fc", "attention"}


def _saved(graph: Graph) -> int:
    """Bytes that forward leaves for backward; autocast's copies of weights are tensors of a trace,
    and kept by the table's layers."""
    once = {t for layer in graph.layers for t in layer.saved}
    kept = sum(layer.kept_bytes for layer in graph.layers)
    return sum(graph.tensors[t].nbytes for t in once) + kept
