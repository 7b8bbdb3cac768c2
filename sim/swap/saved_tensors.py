"""Tensors that autograd saves within `swap_to`, and the handles that it has instead of them."""

from dataclasses import dataclass, field
from typing import Any

from cdma.sim.swap.saved_tensor_error import SavedTensorError
from cdma.sim.swap.stash import Stashed


@dataclass(frozen=True)
class Kept:
    """A tensor that stays on the device."""

    tensor: Any
    version: int

    def unchanged(self) -> Any:
        if self.tensor._version != self.version:
            raise SavedTensorError(
                f"a tensor of shape {tuple(self.tensor.shape)} was changed in place after autograd "
                "had saved it; change a clone of it"
            )
        return self.tensor


@dataclass(eq=False, kw_only=True)
class Entry:
    """Bytes of a storage, as they were when a tensor in it was saved.

    Attributes
    ----------
    storage : StorageWeakRef
        Keeps the storage's address from being used again, not its memory.
    version : int
        Of the storage's content.
    label : str
        The first tensor's name, for people.
    bound : float or None
        The error that values come back with, at most; None if they come back to the bit.
    handles, wanted : set of int
        Numbers of the tensors in it that autograd can ask for, and of those that it has not asked
        for since the bytes were fetched.
    out : Stashed or None
        None if they stay on the device.
    fetched : uint8 tensor or None
    """

    storage: Any
    version: int
    first: int
    nbytes: int
    label: str
    bound: float | None = None
    handles: set[int] = field(default_factory=set)
    wanted: set[int] = field(default_factory=set)
    out: Stashed | None = None
    fetched: Any = None


@dataclass(eq=False, kw_only=True)
class Handle:
    """Handle that autograd keeps instead of a tensor.

    Attributes
    ----------
    kept : Kept or None
        None if the entry is out.
    layout : tuple
        The tensor's type, its first element in the entry, its size and strides.
    """

    number: int
    entry: Entry
    kept: Kept | None
    layout: tuple[Any, int, Any, tuple[int, ...]]


def is_parameter(torch: Any, tensor: Any) -> bool:
    """Return True for a parameter, or a view of one."""
    root = tensor if tensor._base is None else tensor._base
    return isinstance(root, torch.nn.Parameter) or (root.is_leaf and root.requires_grad)


def is_plain(torch: Any, tensor: Any) -> bool:
    """Return True if the tensor's bytes in memory are all there is to it."""
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.numel() > 0
    )


def extent(tensor: Any) -> tuple[int, int]:
    """Offset of the tensor's first byte in its storage, and the bytes from there to its last."""
    last = sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    itemsize = tensor.element_size()
    return tensor.storage_offset() * itemsize, (last + 1) * itemsize
