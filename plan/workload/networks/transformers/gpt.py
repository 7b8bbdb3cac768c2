"""GPT-2 and GPT-3: normalization before attention and before the feed-forward part.

Radford et al. 2019 (§2.3) and Brown et al. 2020 (Table 2.1). Without dropout, as such models are
trained since; GPT-2's authors drop a tenth after embeddings, attention and both parts.
"""

from dataclasses import dataclass

from cdma.plan.workload.builder import Builder

VOCABULARY = 50257


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A member of the family."""

    layers: int
    columns: int
    heads: int
    length: int


GPT2 = Shape(layers=12, columns=768, heads=12, length=1024)
GPT2_XL = Shape(layers=48, columns=1600, heads=25, length=1024)
GPT3_6_7B = Shape(layers=32, columns=4096, heads=32, length=2048)


def gpt(net: Builder, shape: Shape) -> None:
    """A batch's element is a sequence. The last layer has the embedding's weights."""
    x = net.embedding("wte", net.tokens("tokens", shape.length), shape.columns, VOCABULARY)
    x = net.learned("wpe", x, shape.length)
    for i in range(shape.layers):
        x = _block(net, f"h{i}", x, shape)
    x = net.layer_norm("ln_f", x)
    net.softmax("prob", net.fc("lm_head", x, VOCABULARY, bias=False, tied=True))


def _block(net: Builder, name: str, x: int, shape: Shape) -> int:
    y = net.fc(f"{name}.qkv", net.layer_norm(f"{name}.ln_1", x), 3 * shape.columns)
    y = net.attention(
        f"{name}.attn",
        y,
        heads=shape.heads,
        elements=shape.columns // shape.heads,
        length=shape.length,
    )
    x = net.add(f"{name}.add_1", x, net.fc(f"{name}.proj", y, shape.columns))
    y = net.fc(f"{name}.fc", net.layer_norm(f"{name}.ln_2", x), 4 * shape.columns)
    y = net.fc(f"{name}.fc_proj", net.gelu(f"{name}.gelu", y), shape.columns)
    return net.add(f"{name}.add_2", x, y)


def gpt2(net: Builder, dataset: str) -> None:
    """GPT-2 of 124 million weights."""
    gpt(net, GPT2)


def gpt2_xl(net: Builder, dataset: str) -> None:
    """GPT-2 of 1.5 billion weights."""
    gpt(net, GPT2_XL)


def gpt3_6_7b(net: Builder, dataset: str) -> None:
    """GPT-3 of 6.7 billion weights; its attention is dense in all layers here."""
    gpt(net, GPT3_6_7B)
