"""ViT-B/16: patches of 16×16 pixels as tokens (Dosovitskiy et al. 2021, Table 1)."""

from cdma.plan.workload.builder import Builder

LAYERS = 12
COLUMNS = 768
HEADS = 12
PATCHES = 14 * 14
PIXELS = 16 * 16 * 3
LENGTH = PATCHES + 1


def vit_b16(net: Builder, dataset: str) -> None:
    """At 224×224. A token for the class stands before the patches' ones."""
    x = net.fc("patches", net.patches("data", PATCHES, PIXELS), COLUMNS)
    x = net.with_token("cls", x, PATCHES)
    x = net.learned("positions", x, LENGTH)
    for i in range(LAYERS):
        x = _block(net, f"block{i}", x)
    x = net.layer_norm("norm", x)
    net.softmax("prob", net.fc("head", x, 1000, every=LENGTH))


def _block(net: Builder, name: str, x: int) -> int:
    y = net.fc(f"{name}.qkv", net.layer_norm(f"{name}.norm_1", x), 3 * COLUMNS)
    y = net.attention(f"{name}.attn", y, heads=HEADS, elements=COLUMNS // HEADS, length=LENGTH)
    x = net.add(f"{name}.add_1", x, net.fc(f"{name}.proj", y, COLUMNS))
    y = net.fc(f"{name}.fc", net.layer_norm(f"{name}.norm_2", x), 4 * COLUMNS)
    y = net.fc(f"{name}.fc_proj", net.gelu(f"{name}.gelu", y), COLUMNS)
    return net.add(f"{name}.add_2", x, y)
