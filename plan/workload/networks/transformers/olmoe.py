"""OLMoE-1B-7B: a mixture of 64 experts, of which each token has eight (Muennighoff et al. 2024,
Table 1)."""

from cdma.plan.workload.builder import Builder

LAYERS = 16
COLUMNS = 2048
HEADS = 16
EXPERTS = 64
ACTIVE = 8
HIDDEN = 1024
VOCABULARY = 50304
LENGTH = 4096


def olmoe(net: Builder, dataset: str) -> None:
    """A batch's element is a sequence. No token is dropped, so that all experts together have
    `ACTIVE` rows for each, however they are spread."""
    x = net.embedding("embed", net.tokens("tokens", LENGTH), COLUMNS, VOCABULARY)
    for i in range(LAYERS):
        x = _block(net, f"layer{i}", x)
    x = net.rms_norm("norm", x)
    net.softmax("prob", net.fc("output", x, VOCABULARY, bias=False))


def _block(net: Builder, name: str, x: int) -> int:
    y = net.rms_norm(f"{name}.norm_1", x)
    query, key, value = (
        net.fc(f"{name}.{part}", y, COLUMNS, bias=False) for part in ("query", "key", "value")
    )
    query, key = (
        net.rotary(f"{name}.rope_{part}", net.rms_norm(f"{name}.norm_{part}", tensor))
        for part, tensor in (("q", query), ("k", key))
    )
    y = net.attention(
        f"{name}.attn", query, key, value, heads=HEADS, elements=COLUMNS // HEADS, length=LENGTH
    )
    x = net.add(f"{name}.add_1", x, net.fc(f"{name}.proj", y, COLUMNS, bias=False))
    return net.add(f"{name}.add_2", x, _experts(net, name, net.rms_norm(f"{name}.norm_2", x)))


def _experts(net: Builder, name: str, x: int) -> int:
    scores = net.fc(f"{name}.router", x, EXPERTS, bias=False)
    weights = net.top(f"{name}.top", net.softmax(f"{name}.scores", scores), ACTIVE)
    y = net.routed(f"{name}.routed", x, ACTIVE)
    gate = net.silu(f"{name}.silu", net.expert_fc(f"{name}.gate", y, HIDDEN, EXPERTS))
    y = net.multiply(f"{name}.swiglu", gate, net.expert_fc(f"{name}.up", y, HIDDEN, EXPERTS))
    y = net.expert_fc(f"{name}.down", y, COLUMNS, EXPERTS)
    return net.gathered(f"{name}.gathered", net.multiply(f"{name}.weighted", y, weights), ACTIVE)
