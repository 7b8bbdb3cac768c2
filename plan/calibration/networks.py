"""Whole steps that nothing was fitted to: what a calibrated device says, beside what they take."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from cdma.plan.training.subject import Subject, call


def check_networks(torch: Any, scale: int) -> dict[str, Subject]:
    """A small convolutional network and a small transformer, by name; losses are their sums.

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
        "convolutions": Subject(convolutional, torch.randn(8 * scale, 3, 112, 112)),
        "transformer": Subject(transformer, torch.randn(4 * scale, 256, 256)),
    }


def step(torch: Any, subject: Subject, autocast: Any = None) -> Callable[[], Any]:
    """A forward and a backward pass, forward with casts to a type if one is given."""

    def run() -> None:
        subject.module.zero_grad(set_to_none=True)
        with _casts(torch, subject, autocast):
            loss = call(subject.module, subject.example).sum()
        loss.backward()

    return run


def saved_bytes(torch: Any, subject: Subject, autocast: Any = None) -> int:
    """Bytes of all memory that autograd saves forward, but for parameters' and buffers'."""
    fixed = (*subject.module.parameters(), *subject.module.buffers())
    addresses = {tensor.untyped_storage().data_ptr() for tensor in fixed}
    # Holding them keeps their addresses apart.
    saved: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in addresses:
            saved[storage.data_ptr()] = storage
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        _casts(torch, subject, autocast),
    ):
        call(subject.module, subject.example)
    return sum(storage.nbytes() for storage in saved.values())


def _casts(torch: Any, subject: Subject, autocast: Any) -> AbstractContextManager[Any]:
    if autocast is None:
        return nullcontext()
    where = next(subject.module.parameters()).device.type
    return torch.autocast(where, dtype=autocast)


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
