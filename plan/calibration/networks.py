"""Whole steps that nothing was fitted to: what a calibrated device says, beside what they take."""

from collections.abc import Callable
from typing import Any


def check_networks(torch: Any, scale: int) -> dict[str, tuple[Any, Any]]:
    """Modules with a minibatch each, by name: a convolutional network and a transformer.

    Parameters
    ----------
    torch : module
    scale : int
        What batches are multiplied by; 1 is for CPUs.
    """
    nn = torch.nn

    def block(inputs: int, outputs: int, stride: int) -> list[Any]:
        convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

    convolutional = nn.Sequential(
        *(*block(3, 32, 2), *block(32, 64, 1), nn.MaxPool2d(2)),
        *(*block(64, 128, 1), *block(128, 128, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 1000)),
    )
    transformer = nn.Sequential(_layer(torch, 256, 8), _layer(torch, 256, 8), nn.LayerNorm(256))
    return {
        "convolutions": (convolutional, torch.randn(8 * scale, 3, 112, 112)),
        "transformer": (transformer, torch.randn(4 * scale, 256, 256)),
    }


def step(module: Any, example: Any) -> Callable[[], Any]:
    """A forward and a backward pass of a module."""

    def run() -> None:
        module.zero_grad(set_to_none=True)
        module(example).sum().backward()

    return run


def _layer(torch: Any, columns: int, heads: int) -> Any:
    """A layer of a transformer without dropout, as GPT-2's."""
    nn = torch.nn
    base: Any = nn.Module

    class Layer(base):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.qkv = nn.LayerNorm(columns), nn.Linear(columns, 3 * columns)
            self.out = nn.Linear(columns, columns)
            self.mlp = nn.Sequential(
                nn.LayerNorm(columns),
                nn.Linear(columns, 4 * columns),
                nn.GELU(),
                nn.Linear(4 * columns, columns),
            )

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            three = self.qkv(self.norm(x)).view(batch, length, 3, heads, columns // heads)
            query, key, value = three.permute(2, 0, 3, 1, 4).unbind(0)
            attended = nn.functional.scaled_dot_product_attention(query, key, value)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, columns))
            return x + self.mlp(x)

    return Layer()
