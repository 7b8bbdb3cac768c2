"""Codecs on a device's processors, written with PyTorch's operations, to be timed.

They are what a PyTorch step can run today, not what a kernel of one's own could be. What PyTorch
has no operations for, as LZ4's matches or ZFP's blocks, is not here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

LINE_WORDS = 32
"""Elements of four bytes in a line of ZVC; its mask is one more."""

QUANTUM = 1 / 32
"""The step of quantization; it bounds the error by half of it for values within ±4."""


@dataclass(frozen=True)
class Compressed:
    """A tensor's stream, with what a decompressor on the device keeps beside it.

    Attributes
    ----------
    parts : tuple of tensor
        Of the stream.
    index : tensor or None
        Where each line begins, of ZVC.
    shape : tuple of int
        Of the tensor.
    """

    parts: tuple[Any, ...]
    index: Any
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TimedCodec:
    """A codec as PyTorch runs it; tensors are float32, of whole lines."""

    compress: Callable[[Any, Any], Compressed]
    """Of `torch` and a tensor."""

    decompress: Callable[[Any, Compressed], Any]


def _zvc(torch: Any, tensor: Any) -> Compressed:
    words = tensor.reshape(-1, LINE_WORDS).view(torch.int32)
    kept = words != 0
    places = torch.arange(LINE_WORDS, device=tensor.device)
    masks = (kept.long() << places).sum(1)
    # The same 32 bits as a signed number.
    signed = torch.where(masks >= 1 << 31, masks - (1 << 32), masks).int()
    always = torch.ones(len(words), 1, dtype=torch.bool, device=tensor.device)
    stream = torch.cat((signed[:, None], words), 1)[torch.cat((always, kept), 1)]
    sizes = kept.sum(1) + 1
    return Compressed((stream,), sizes.cumsum(0) - sizes, tuple(tensor.shape))


def _from_zvc(torch: Any, compressed: Compressed) -> Any:
    (stream,) = compressed.parts
    places = torch.arange(LINE_WORDS, device=stream.device)
    kept = (stream[compressed.index][:, None] >> places & 1).bool()
    is_value = torch.ones(len(stream), dtype=torch.bool, device=stream.device)
    is_value[compressed.index] = False
    words = torch.zeros(kept.shape, dtype=torch.int32, device=stream.device)
    words[kept] = stream[is_value]
    return words.view(torch.float32).reshape(compressed.shape)


def _csr(torch: Any, tensor: Any) -> Compressed:
    flat = tensor.reshape(-1)
    (places,) = flat.view(torch.int32).nonzero(as_tuple=True)
    return Compressed((flat[places], places.int()), None, tuple(tensor.shape))


def _from_csr(torch: Any, compressed: Compressed) -> Any:
    values, places = compressed.parts
    flat = torch.zeros(compressed.shape, device=values.device).reshape(-1)
    flat[places.long()] = values
    return flat.reshape(compressed.shape)


def _quantized(torch: Any, tensor: Any) -> Compressed:
    steps = (tensor.reshape(-1, 8) / QUANTUM).round().clamp(-128, 127).to(torch.int8)
    kept = steps != 0
    bits = torch.tensor([1 << i for i in range(8)], dtype=torch.uint8, device=tensor.device)
    masks = (kept * bits).sum(1, dtype=torch.uint8)
    return Compressed((masks, steps[kept]), None, tuple(tensor.shape))


def _from_quantized(torch: Any, compressed: Compressed) -> Any:
    masks, steps = compressed.parts
    places = torch.arange(8, dtype=torch.uint8, device=masks.device)
    kept = (masks[:, None] >> places & 1).bool()
    values = torch.zeros(kept.shape, device=masks.device)
    values[kept] = steps.float() * QUANTUM
    return values.reshape(compressed.shape)


TIMED_CODECS: Mapping[str, TimedCodec] = {
    "zvc-sm": TimedCodec(_zvc, _from_zvc),
    "csr-sm": TimedCodec(_csr, _from_csr),
    "quantize-sm": TimedCodec(_quantized, _from_quantized),
}
"""By their names in `cdma.plan.platform.codec_rates`."""
