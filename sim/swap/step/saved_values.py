"""Values that autograd saves in a planned step, and the handles that it has instead of tensors."""

from dataclasses import dataclass
from typing import Any

from cdma.plan.timeline.placement import Choice, Placement
from cdma.sim.swap.saved_tensor_error import SavedTensorError
from cdma.sim.swap.step.tape import Value, View


@dataclass(frozen=True)
class Kept:
    """A tensor that no operation of the step has made, or that is no plain memory."""

    tensor: Any
    version: int

    def unchanged(self) -> Any:
        if self.tensor._version != self.version:
            raise SavedTensorError(
                f"a tensor of shape {tuple(self.tensor.shape)} was changed in place after autograd "
                "had saved it; change a clone of it"
            )
        return self.tensor


class SavedValue:
    """A value that autograd saves.

    Attributes
    ----------
    base : tensor or None
        In a memory on the device that has the value, or will have it while it is `arriving`.
    stays : bool
        `base` is the forward pass's own memory.
    out : tuple or None
        What the host finds it by.
    arriving : list
        Of at most one: the host's transfer.
    stream : tensor or None
        Its compressed bytes.
    handles, wanted : set of int
        Autograd's handles, and those that it has not asked for since the value was brought.
    anchors : list
        Saved values that it is computed from.
    """

    def __init__(self, value: Value, choice: Choice | None) -> None:
        placement = Placement.RETAIN if choice is None else choice.placement
        self.value = value
        self.choice = choice
        self.recomputed = placement is Placement.RECOMPUTE
        self.stays = placement is Placement.RETAIN
        self.base: Any = None
        self.version = 0
        self.out: tuple[Any] | None = None
        self.arriving: list[Any] = []
        self.stream: Any = None
        self.handles: set[int] = set()
        self.wanted: set[int] = set()
        self.anchors: list[SavedValue] = []
        self.dropping: Any = None


@dataclass(frozen=True)
class Handle:
    """Handle that autograd keeps instead of a tensor."""

    number: int
    saved: SavedValue
    view: View


def bytes_of(torch: Any, tensor: Any) -> Any:
    """A memory's bytes as a flat tensor."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0).view(torch.uint8)
