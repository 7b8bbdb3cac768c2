"""Scaled dot-product attention as a GPU computes it: one operation that keeps no T × T matrix.

PyTorch chooses among several implementations by device, type and shape. On a CPU it has another
flash attention than on a GPU, and with a dropout takes the one that is written out in products and
a softmax ("math"), whose T × T matrices no GPU would keep. So the trace of a module for a GPU
calls, in its place, the operation that PyTorch has for a GPU: flash attention or memory-efficient
attention, under the conditions that PyTorch itself has for them
(`aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`). Both save query, key, value,
output and one number per query for backward. Where neither is possible, a GPU would take the math
as well; that is refused, because every plan for such a step would be about those matrices.
"""

import math
from typing import Any

from cdma.plan.workload.layers import GraphError

FLASH_HEAD_ELEMENTS = 256
"""A head has at most so many elements in flash attention."""

FLASH_ALIGNMENT = 8
"""PyTorch pads the heads of flash attention to a multiple of so many elements."""

EFFICIENT_ALIGNMENT_BYTES = 16
"""Heads of memory-efficient attention begin at multiples of so many bytes."""


def fused_attention(
    torch: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`torch.nn.functional.scaled_dot_product_attention` by a GPU's operation.

    Parameters
    ----------
    torch : module
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
        As of that function.

    Raises
    ------
    GraphError
        PyTorch has no fused operation for these arguments; the message names cause and mend.
    """
    if torch.is_autocast_enabled("cpu"):
        # It happens below the function that this one replaces.
        narrow = torch.get_autocast_dtype("cpu")
        query, key, value = (
            tensor.to(narrow) if tensor.dtype == torch.float32 else tensor
            for tensor in (query, key, value)
        )
    obstacle = _common_obstacle(torch, query, key, value, enable_gqa)
    if obstacle is None:
        flash = _flash_obstacle(torch, query, key, value, attn_mask, is_causal)
        if flash is None:
            return _flash(torch, query, key, value, dropout_p, is_causal, scale)
        obstacle = _efficient_obstacle(query, key, value)
        if obstacle is None:
            bias = None if attn_mask is None else _bias(torch, query, key, attn_mask)
            return torch.ops.aten._scaled_dot_product_efficient_attention(
                query, key, value, bias, True, dropout_p, is_causal, scale=scale
            )[0]
    shape = "×".join(map(str, query.shape))
    raise GraphError(
        f"cannot trace scaled_dot_product_attention of {shape} {query.dtype}: {obstacle[0]}, so "
        "PyTorch computes and keeps its T × T matrices (the math fallback); "
        f"{obstacle[1]}"
    )


Obstacle = tuple[str, str] | None
"""Why an operation cannot be taken, and what to do about it."""


def _common_obstacle(torch: Any, query: Any, key: Any, value: Any, grouped: bool) -> Obstacle:
    tensors = (query, key, value)
    if any(tensor.ndim != 4 for tensor in tensors):
        return (
            "no fused attention takes tensors of other than 4 dimensions",
            "give batch × heads × length × elements",
        )
    if query.dtype not in (torch.float32, torch.float16, torch.bfloat16) or any(
        tensor.dtype != query.dtype for tensor in tensors
    ):
        return (
            "no fused attention has these types",
            "make query, key and value all float32, float16 or bfloat16",
        )
    heads = query.shape[1], key.shape[1], value.shape[1]
    if heads[1] != heads[2] or (heads[0] != heads[1] and not grouped) or heads[0] % heads[1]:
        return (
            f"heads of query, key and value are {', '.join(map(str, heads))}",
            "give them as many heads, or with enable_gqa the query a multiple of the others'",
        )
    if len({tensor.shape[0] for tensor in tensors}) > 1:
        return "no fused attention repeats a batch", "expand query, key and value to one batch"
    return None


def _flash_obstacle(
    torch: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool
) -> Obstacle:
    if query.dtype == torch.float32:
        return "flash attention has no float32", "use bfloat16"
    if mask is not None:
        return "flash attention takes no mask", "use is_causal"
    if is_causal and query.shape[2] != key.shape[2]:
        return "flash attention is causal for squares only", "leave out is_causal"
    elements = {tensor.shape[3] for tensor in (query, key, value)}
    if len(elements) > 1 or max(elements) > FLASH_HEAD_ELEMENTS:
        return "flash attention has no such heads", "use smaller heads"
    return None


def _efficient_obstacle(query: Any, key: Any, value: Any) -> Obstacle:
    if query.shape[1] != key.shape[1]:
        return (
            "grouped queries are flash attention's alone, which takes float16 or bfloat16, no "
            f"mask and heads of up to {FLASH_HEAD_ELEMENTS} elements",
            "make it so, or repeat key and value",
        )
    alignment = EFFICIENT_ALIGNMENT_BYTES // query.element_size()
    if any(tensor.shape[3] % alignment for tensor in (query, key, value)):
        return (
            f"heads of {query.shape[3]} elements are not aligned to "
            f"{EFFICIENT_ALIGNMENT_BYTES} bytes",
            f"make their elements a multiple of {alignment}",
        )
    return None


def _flash(
    torch: Any,
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Any:
    elements = query.shape[3]
    if scale is None:
        scale = 1 / math.sqrt(elements)
    pad = -elements % FLASH_ALIGNMENT
    if pad:
        query, key, value = (
            torch.nn.functional.pad(tensor, (0, pad)) for tensor in (query, key, value)
        )
    output = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, dropout_p, is_causal, scale=scale
    )[0]
    return output[..., :elements]


def _bias(torch: Any, query: Any, key: Any, mask: Any) -> Any:
    """A mask as what is added to the products; repeated where it has fewer dimensions."""
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), -math.inf)
    return mask.expand(*query.shape[:3], key.shape[2])
