"""Operators that PyTorch runs on a GPU where a CPU would run others.

A GPU has one operation for dropout, for RMS normalization and for scaled dot-product attention; a
CPU writes them out in several, which save more for backward. A trace on a CPU's fake tensors runs
the GPU's in their place. They need no GPU there: fake tensors have no values.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any

from cdma.plan.workload.attention import fused_attention


def gpu_operators(torch: Any) -> dict[Any, Any]:
    """A GPU's operators by the functions of `torch.nn.functional` that they replace."""
    functional = torch.nn.functional
    plain_dropout = functional.dropout

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        # One operation with a mask of 1 B per element.
        if training and p > 0 and not inplace:
            return torch.native_dropout(input, p, True)[0]
        return plain_dropout(input, p, training, inplace)

    rms_norm = _rms_norm()

    def fused_rms_norm(
        input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: Any = None
    ) -> Any:
        return rms_norm(input, weight, len(normalized_shape))[0]

    return {
        functional.dropout: dropout,
        functional.rms_norm: fused_rms_norm,
        functional.scaled_dot_product_attention: partial(fused_attention, torch),
    }


@cache
def _rms_norm() -> Any:
    """RMS normalization as an operation with the bytes of a GPU's (`aten::_fused_rms_norm`), which
    a CPU writes out even for fake tensors. It saves its input and a float32 number per row. It has
    no values, as it runs on fake tensors only."""
    import torch

    def forward(x: Any, weight: Any, dimensions: int) -> tuple[Any, Any]:
        rows = x.new_empty((*x.shape[: x.ndim - dimensions], *[1] * dimensions), dtype=torch.float)
        return torch.empty_like(x), rows

    def backward(gradient: Any, x: Any, weight: Any, rows: Any) -> tuple[Any, Any]:
        return torch.empty_like(x), torch.empty_like(x if weight is None else weight)

    def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, Any]) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight, output[1])

    def derive(ctx: Any, gradient: Any, _rows: Any) -> tuple[Any, ...]:
        x, weight, rows = ctx.saved_tensors
        by_x, by_weight = derivative(gradient, x, weight, rows)
        return by_x, None if weight is None else by_weight, None

    define: Any = partial(torch.library.custom_op, mutates_args=())
    operation = define(
        "cdma::rms_norm",
        forward,
        schema="(Tensor x, Tensor? weight, int dimensions) -> (Tensor, Tensor)",
    )
    derivative = define(
        "cdma::rms_norm_backward",
        backward,
        schema="(Tensor gradient, Tensor x, Tensor? weight, Tensor rows) -> (Tensor, Tensor)",
    )
    operation.register_fake(forward)
    derivative.register_fake(backward)
    operation.register_autograd(derive, setup_context=save)
    return operation


@contextmanager
def replaced(torch: Any, operators: Mapping[Any, Any]) -> Iterator[None]:
    """Runs other functions in place of some of `torch.nn.functional`, whoever calls them."""
    override: Any = torch.overrides.TorchFunctionMode
    functional = torch.nn.functional

    class Replaced(override):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return operators.get(function, function)(*args, **(kwargs or {}))

    # The mode is not asked about what PyTorch's own functions call, as `multi_head_attention_
    # forward`; these find the names in their module.
    with ExitStack() as restore:
        for function, replacement in operators.items():
            name = function.__name__
            restore.callback(setattr, functional, name, function)
            setattr(functional, name, replacement)
        with Replaced():
            yield
