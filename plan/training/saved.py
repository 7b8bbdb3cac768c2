"""Activations that autograd saves, sent through codecs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

from cdma.golden.formats.interface import Array
from cdma.golden.formats.stream import ByteArray
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.workload.capture.recorder import require

LARGEST = 2.0**126
"""An activation that is no smaller, or no number, tells of a training that has diverged."""


class Compressor(Protocol):
    """A codec that a tensor passes through: one of `golden`, or anything else that is alike."""

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of float32 elements."""

    def decompress(self, stream: ByteArray, nbytes: int) -> ByteArray:
        """The elements' `nbytes` bytes, uint8 (nbytes,)."""


CodecOf = Callable[[str], Compressor | None]
"""The codec of an activation by its name; None leaves it as it is."""


class DivergedError(ScheduleError):
    """The training has diverged; the message names the activation."""


@dataclass
class ActivationTraffic:
    """Bytes of activations that were saved, counted once for each tensor and step.

    Attributes
    ----------
    raw_bytes : int
        Of all of them, as they are.
    compressed_bytes : int
        Of those that went through a codec, as they are.
    stream_bytes : int
        Of these after compression.
    """

    raw_bytes: int = 0
    compressed_bytes: int = 0
    stream_bytes: int = 0

    @property
    def saved_bytes(self) -> int:
        """Bytes that are kept or go out: streams, and tensors as they are."""
        return self.raw_bytes - self.compressed_bytes + self.stream_bytes


class SavedActivations:
    """A context in which the activations of a model pass through codecs until backward reads them.

    Enter it for one forward and backward pass. The forward pass computes with values as they are;
    backward gets what `decompress` makes of them, whoever saved them: one tensor goes through its
    codec once, though a ReLU and the pooling layer behind it save it both.

    An activation is a float32 output of the watched modules and has its module's name. All else
    that autograd saves stays as it is: weights, the minibatch, masks, the places of maxima.

    Parameters
    ----------
    model : torch.nn.Module
        In training.
    kinds : tuple of type
        The modules that are watched. Each runs once in a pass, and gives a contiguous tensor.
    codec_of : callable
    traffic : ActivationTraffic
        Is added to.

    Raises
    ------
    DivergedError
        When an activation is to be saved that is no finite number below 2^126.
    """

    def __init__(
        self, model: Any, kinds: tuple[type, ...], codec_of: CodecOf, traffic: ActivationTraffic
    ) -> None:
        torch = require("torch")
        self._torch = torch
        self._modules: dict[str, Any] = {
            name: module for name, module in model.named_modules() if isinstance(module, kinds)
        }
        self._codec_of = codec_of
        self._traffic = traffic
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self._handles: list[Any] = []
        self._names: dict[int, str] = {}  # by storage
        # Kept, so that no other tensor's storage can take the place of a storage that is known.
        self._tensors: dict[str, Any] = {}
        self._saved: dict[str, _Saved | None] = {}

    def __enter__(self) -> Self:
        for name, module in self._modules.items():
            # A module in place saves its output before its own hook can tell what that is.
            if getattr(module, "inplace", False):
                self._handles.append(
                    module.register_forward_pre_hook(
                        lambda _module, inputs, name=name: self._watch(name, inputs[0])
                    )
                )
            else:
                self._handles.append(
                    module.register_forward_hook(
                        lambda _module, _inputs, output, name=name: self._watch(name, output)
                    )
                )
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._names.clear()
        self._tensors.clear()
        self._saved.clear()

    def name_of(self, tensor: Any) -> str | None:
        """The activation that a tensor is, or is a view of; None if it is none."""
        return self._names.get(tensor.untyped_storage().data_ptr())

    def _watch(self, name: str, tensor: Any) -> None:
        if tensor.dtype == self._torch.float32:
            self._names[tensor.untyped_storage().data_ptr()] = name
            self._tensors[name] = tensor.detach()

    def _pack(self, tensor: Any) -> Any:
        name = self.name_of(tensor)
        if name is None:
            return tensor
        if name not in self._saved:
            self._saved[name] = self._save(name)
        saved = self._saved[name]
        if saved is None:
            return tensor
        return _View(saved, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())

    def _unpack(self, packed: Any) -> Any:
        if not isinstance(packed, _View):
            return packed
        values = self._torch.from_numpy(packed.saved.values)
        return values.as_strided(packed.shape, packed.stride, packed.offset)

    def _save(self, name: str) -> "_Saved | None":
        values = self._tensors[name].view(-1).numpy()
        if not np.abs(values).max() < LARGEST:
            raise DivergedError(
                f"activation {name} has grown beyond all numbers: the training has diverged; "
                "compress less or learn more slowly"
            )
        self._traffic.raw_bytes += values.nbytes
        codec = self._codec_of(name)
        if codec is None:
            return None
        saved = _Saved(codec, codec.compress(values), values.nbytes)
        self._traffic.compressed_bytes += values.nbytes
        self._traffic.stream_bytes += saved.stream.nbytes
        return saved


@dataclass
class _Saved:
    """A tensor's stream."""

    codec: Compressor
    stream: ByteArray
    nbytes: int

    @cached_property
    def values(self) -> Array:
        """Elements of the tensor, float32 (elements,), decompressed at the first use."""
        return self.codec.decompress(self.stream, self.nbytes).view(np.float32)


@dataclass(frozen=True)
class _View:
    """A tensor that autograd saved: elements of an activation in a shape."""

    saved: _Saved
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
