"""DiT-XL/2: a diffusion transformer over latents, conditioned by adaLN-Zero (Peebles and Xie 2023,
§3.2, Table 1)."""

from cdma.plan.workload.builder import Builder

LAYERS = 28
COLUMNS = 1152
HEADS = 16
PATCH = 2 * 2 * 4
LENGTH = 16 * 16
FREQUENCIES = 256


def dit_xl2(net: Builder, dataset: str) -> None:
    """At 256×256 pixels, whose latents have 32×32×4 values: 256 tokens.

    The conditioning is the time step's embedding; that of the class, which is a row of a table
    added to it, is left out, and so is the decoder of latents.
    """
    x = net.fc("patches", net.patches("latents", LENGTH, PATCH), COLUMNS)
    # Positions are sines, not learned, but they are stored as weights are.
    x = net.learned("positions", x, LENGTH)
    c = net.fc("time_1", net.patches("time", 1, FREQUENCIES), COLUMNS)
    c = net.silu("silu", net.fc("time_2", net.silu("time_silu", c), COLUMNS))
    for i in range(LAYERS):
        x = _block(net, f"block{i}", x, c)
    modulation = net.fc("final.modulation", c, 2 * COLUMNS)
    x = net.fc("final.fc", _modulated(net, "final", x, modulation), 2 * PATCH)
    net.softmax("loss", x)


def _block(net: Builder, name: str, x: int, c: int) -> int:
    # A shift, a scale and a gate for either part.
    modulation = net.fc(f"{name}.modulation", c, 6 * COLUMNS)
    y = net.fc(f"{name}.qkv", _modulated(net, f"{name}.1", x, modulation), 3 * COLUMNS)
    y = net.attention(f"{name}.attn", y, heads=HEADS, elements=COLUMNS // HEADS, length=LENGTH)
    y = net.multiply(f"{name}.gated_1", net.fc(f"{name}.proj", y, COLUMNS), modulation)
    x = net.add(f"{name}.add_1", x, y)
    y = net.fc(f"{name}.fc", _modulated(net, f"{name}.2", x, modulation), 4 * COLUMNS)
    y = net.fc(f"{name}.fc_proj", net.gelu(f"{name}.gelu", y), COLUMNS)
    return net.add(f"{name}.add_2", x, net.multiply(f"{name}.gated_2", y, modulation))


def _modulated(net: Builder, name: str, x: int, modulation: int) -> int:
    x = net.layer_norm(f"{name}.norm", x, affine=False)
    scale = net.increment(f"{name}.increment", modulation, COLUMNS)
    return net.shift(f"{name}.shifted", net.multiply(f"{name}.scaled", x, scale), modulation)
