"""Twins of the transformers' tables as PyTorch modules, as their authors' code has them."""

from types import ModuleType

import torch
from torch import nn
from torch.nn import functional

from cdma.plan.workload.networks.transformers import dit, llama, olmoe, vit
from cdma.plan.workload.networks.transformers.gpt import VOCABULARY, Shape


def log_softmax(x, dim):
    """In float32 under automatic casts, as CUDA's do, and a CPU's do not."""
    return functional.log_softmax(x.float() if torch.is_autocast_enabled("cpu") else x, dim=dim)


class SelfAttention(nn.Module):
    """Query, key and value by one product."""

    def __init__(
        self, columns: int, heads: int, *, causal: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.qkv, self.proj = nn.Linear(columns, 3 * columns), nn.Linear(columns, columns)

    def forward(self, x):
        rows, length, columns = x.shape
        shape = rows, length, self.heads, columns // self.heads
        query, key, value = (
            part.view(shape).transpose(1, 2) for part in self.qkv(x).split(columns, dim=2)
        )
        y = functional.scaled_dot_product_attention(
            query, key, value, is_causal=self.causal, dropout_p=self.dropout
        )
        return self.proj(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """Normalization before attention and before the feed-forward part, as GPT's and ViT's."""

    def __init__(
        self, columns: int, heads: int, *, causal: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(columns), nn.LayerNorm(columns)
        self.attention = SelfAttention(columns, heads, causal=causal, dropout=dropout)
        self.fc, self.fc_proj = nn.Linear(columns, 4 * columns), nn.Linear(4 * columns, columns)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm_1(x)))
        return x + self.drop(self.fc_proj(functional.gelu(self.fc(self.norm_2(x)))))


class GPT(nn.Module):
    """GPT-2 or GPT-3."""

    def __init__(self, shape: Shape, *, vocabulary: int = VOCABULARY, dropout: float = 0.0) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, shape.columns)
        self.wpe = nn.Parameter(torch.zeros(shape.length, shape.columns))
        self.blocks = nn.ModuleList(
            Block(shape.columns, shape.heads, causal=True, dropout=dropout)
            for _ in range(shape.layers)
        )
        self.norm = nn.LayerNorm(shape.columns)
        self.head = nn.Linear(shape.columns, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe
        for block in self.blocks:
            x = block(x)
        return log_softmax(self.head(self.norm(x)), dim=-1)


class Rotary(nn.Module):
    """Half of each head's elements turned against the other half."""

    def __init__(self, length: int, elements: int) -> None:
        super().__init__()
        angles = torch.outer(
            torch.arange(length).float(), 1e4 ** (-torch.arange(0, elements, 2) / elements)
        ).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x):
        left, right = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-right, left), dim=-1) * self.sin


class GroupedAttention(nn.Module):
    """Llama's and OLMoE's: products without bias, rotary positions, fewer keys than queries."""

    def __init__(
        self, columns: int, heads: int, key_heads: int, length: int, *, normalized: bool = False
    ) -> None:
        super().__init__()
        self.elements = columns // heads
        keys = key_heads * self.elements
        self.query = nn.Linear(columns, columns, bias=False)
        self.key, self.value = (nn.Linear(columns, keys, bias=False) for _ in "kv")
        self.proj = nn.Linear(columns, columns, bias=False)
        self.norm_q = nn.RMSNorm(columns) if normalized else nn.Identity()
        self.norm_k = nn.RMSNorm(keys) if normalized else nn.Identity()
        self.rotary = Rotary(length, self.elements)
        self.grouped = key_heads != heads

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (-1, self.elements)).transpose(1, 2)
            for part in (self.norm_q(self.query(x)), self.norm_k(self.key(x)), self.value(x))
        )
        y = functional.scaled_dot_product_attention(
            self.rotary(query), self.rotary(key), value, is_causal=True, enable_gqa=self.grouped
        )
        return self.proj(y.transpose(1, 2).reshape(x.shape))


class SwiGLU(nn.Module):
    """Llama's feed-forward part."""

    def __init__(self, columns: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(columns, hidden, bias=False) for _ in "gu")
        self.down = nn.Linear(hidden, columns, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """A mixture of experts, each of which gets as many rows."""

    def __init__(self, columns: int, hidden: int, experts: int, active: int) -> None:
        super().__init__()
        self.experts, self.active = experts, active
        self.router = nn.Linear(columns, experts, bias=False)
        self.gate, self.up, self.down = (
            nn.Parameter(torch.zeros(experts, a, b))
            for a, b in ((columns, hidden), (columns, hidden), (hidden, columns))
        )

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, chosen = self.router(rows).softmax(-1).topk(self.active, dim=-1)
        order = chosen.flatten().argsort()
        y = rows.repeat_interleave(self.active, dim=0)
        y = y.index_select(0, order).unflatten(0, (self.experts, -1))
        y = (functional.silu(y @ self.gate) * (y @ self.up)) @ self.down
        y = y.flatten(0, 1).index_select(0, order.argsort()).unflatten(0, (-1, self.active))
        return (y * weights[..., None]).sum(1).view(x.shape)


class Decoder(nn.Module):
    """Llama, or OLMoE with a mixture of experts in each layer."""

    def __init__(
        self, shape: ModuleType, *, length: int | None = None, vocabulary: int | None = None
    ) -> None:
        super().__init__()
        length, vocabulary = length or shape.LENGTH, vocabulary or shape.VOCABULARY
        mixture = hasattr(shape, "EXPERTS")
        self.embed = nn.Embedding(vocabulary, shape.COLUMNS)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                (
                    nn.RMSNorm(shape.COLUMNS),
                    GroupedAttention(
                        shape.COLUMNS,
                        shape.HEADS,
                        shape.HEADS if mixture else shape.KEY_HEADS,
                        length,
                        normalized=mixture,
                    ),
                    nn.RMSNorm(shape.COLUMNS),
                    Experts(shape.COLUMNS, shape.HIDDEN, shape.EXPERTS, shape.ACTIVE)
                    if mixture
                    else SwiGLU(shape.COLUMNS, shape.HIDDEN),
                )
            )
            for _ in range(shape.LAYERS)
        )
        self.norm = nn.RMSNorm(shape.COLUMNS)
        self.output = nn.Linear(shape.COLUMNS, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for norm_1, attention, norm_2, feed_forward in self.layers:
            x = x + attention(norm_1(x))
            x = x + feed_forward(norm_2(x))
        return log_softmax(self.output(self.norm(x)), dim=-1)


class ViT(nn.Module):
    """The vision transformer, of patches as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Linear(vit.PIXELS, vit.COLUMNS)
        self.token = nn.Parameter(torch.zeros(1, 1, vit.COLUMNS))
        self.positions = nn.Parameter(torch.zeros(vit.LENGTH, vit.COLUMNS))
        self.blocks = nn.ModuleList(Block(vit.COLUMNS, vit.HEADS) for _ in range(vit.LAYERS))
        self.norm, self.head = nn.LayerNorm(vit.COLUMNS), nn.Linear(vit.COLUMNS, 1000)

    def forward(self, rows):
        x = self.patches(rows)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return log_softmax(self.head(self.norm(x)[:, 0]), dim=-1)


class Conditioned(nn.Module):
    """A layer of DiT."""

    def __init__(self) -> None:
        super().__init__()
        columns = dit.COLUMNS
        self.norms = nn.ModuleList(nn.LayerNorm(columns, elementwise_affine=False) for _ in "12")
        self.modulation = nn.Linear(columns, 6 * columns)
        self.attention = SelfAttention(columns, dit.HEADS)
        self.fc, self.fc_proj = nn.Linear(columns, 4 * columns), nn.Linear(4 * columns, columns)

    def forward(self, x, c):
        parts = self.modulation(c)[:, None].chunk(6, dim=-1)
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = parts
        y = self.attention(self.norms[0](x) * (1 + scale_1) + shift_1)
        x = x + gate_1 * y
        y = self.norms[1](x) * (1 + scale_2) + shift_2
        return x + gate_2 * self.fc_proj(functional.gelu(self.fc(y)))


class DiT(nn.Module):
    """The diffusion transformer, of latents' patches as rows and the time step's sines."""

    def __init__(self) -> None:
        super().__init__()
        columns = dit.COLUMNS
        self.patches = nn.Linear(dit.PATCH, columns)
        self.positions = nn.Parameter(torch.zeros(dit.LENGTH, columns))
        self.time = nn.Sequential(
            nn.Linear(dit.FREQUENCIES, columns), nn.SiLU(), nn.Linear(columns, columns)
        )
        self.blocks = nn.ModuleList(Conditioned() for _ in range(dit.LAYERS))
        self.norm = nn.LayerNorm(columns, elementwise_affine=False)
        self.modulation = nn.Linear(columns, 2 * columns)
        self.out = nn.Linear(columns, 2 * dit.PATCH)

    def forward(self, rows, time):
        x = self.patches(rows) + self.positions
        c = functional.silu(self.time(time))
        for block in self.blocks:
            x = block(x, c)
        shift, scale = self.modulation(c)[:, None].chunk(2, dim=-1)
        x = self.out(self.norm(x) * (1 + scale) + shift)
        return log_softmax(x, dim=-1)


def twin(name: str) -> tuple[nn.Module, list[tuple[tuple[int, ...], bool]]]:
    """A table's module, and the shapes of its inputs for one sequence; whether they are tokens."""
    from cdma.plan.workload.networks.transformers import gpt

    shapes = {"gpt2": gpt.GPT2, "gpt2-xl": gpt.GPT2_XL, "gpt3-6.7b": gpt.GPT3_6_7B}
    if name in shapes:
        return GPT(shapes[name]), [((shapes[name].length,), True)]
    if name == "vit-b16":
        return ViT(), [((vit.PATCHES, vit.PIXELS), False)]
    if name == "dit-xl2":
        return DiT(), [((dit.LENGTH, dit.PATCH), False), ((dit.FREQUENCIES,), False)]
    decoder = {"llama3-8b": llama, "olmoe": olmoe}[name]
    return Decoder(decoder), [((decoder.LENGTH,), True)]
