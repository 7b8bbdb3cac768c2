"""Llama 3 8B: RMS normalization, grouped queries, rotary positions, SwiGLU (Dubey et al. 2024,
Table 3)."""

from cdma.plan.workload.builder import Builder

LAYERS = 32
COLUMNS = 4096
HEADS = 32
KEY_HEADS = 8
HIDDEN = 14336
VOCABULARY = 128256
LENGTH = 8192
ELEMENTS = COLUMNS // HEADS


def llama3_8b(net: Builder, dataset: str) -> None:
    """A batch's element is a sequence of 8192 tokens."""
    x = net.embedding("embed", net.tokens("tokens", LENGTH), COLUMNS, VOCABULARY)
    for i in range(LAYERS):
        x = _block(net, f"layer{i}", x)
    x = net.rms_norm("norm", x)
    net.softmax("prob", net.fc("output", x, VOCABULARY, bias=False))


def _block(net: Builder, name: str, x: int) -> int:
    y = net.rms_norm(f"{name}.norm_1", x)
    query, key, value = (
        net.fc(f"{name}.{part}", y, heads * ELEMENTS, bias=False)
        for part, heads in (("query", HEADS), ("key", KEY_HEADS), ("value", KEY_HEADS))
    )
    query, key = net.rotary(f"{name}.rope_q", query), net.rotary(f"{name}.rope_k", key)
    y = net.attention(
        f"{name}.attn", query, key, value, heads=HEADS, elements=ELEMENTS, length=LENGTH
    )
    x = net.add(f"{name}.add_1", x, net.fc(f"{name}.proj", y, COLUMNS, bias=False))
    y = net.rms_norm(f"{name}.norm_2", x)
    gate = net.silu(f"{name}.silu", net.fc(f"{name}.gate", y, HIDDEN, bias=False))
    y = net.multiply(f"{name}.swiglu", gate, net.fc(f"{name}.up", y, HIDDEN, bias=False))
    return net.add(f"{name}.add_2", x, net.fc(f"{name}.down", y, COLUMNS, bias=False))
