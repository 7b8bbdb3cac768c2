"""A training step whose saved activations wait in host memory. Needs PyTorch on the processor."""

import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from cdma.plan.timeline.placement import RETAIN, Choice, Placement
from cdma.plan.workload.capture.recorder import require
from cdma.sim.driver import Engine
from cdma.sim.swap.saved_tensor_error import SavedTensorError
from cdma.sim.swap.stash import Stash, Stashed
from cdma.sim.swap.swap_plan import Saved, SwapPlan, engine_codec
from cdma.sim.swap.swap_report import Ledger, SwapReport

MIN_BYTES = 1024
"""Below, a transfer's latency costs more than memory gains."""


@contextmanager
def swap_to(
    engine: Engine,
    plan: SwapPlan | None = None,
    *,
    min_bytes: int = MIN_BYTES,
    verify: bool = False,
) -> Iterator["Swapped"]:
    """Within it, what autograd saves goes to an engine's host memory until backward wants it.

    Each tensor that the plan swaps goes out by `memcpy_compressed` when it is saved, and comes
    back, to the bit, when backward reads it. Parameters, tensors of fewer than `min_bytes`, and
    what is not plain memory of the processor stay where they are. Bytes of a storage that are saved
    several times move once each way.

    Backward may run behind the context. Host memory is given back for what autograd has let go of,
    in backward, with a loss that has none, or through an error: when the next tensor is saved or
    asked for, at the end of the context, and by `Swapped.report`.

    Parameters
    ----------
    engine : Engine
        Its host memory has room for the streams, and its device memory for a transfer of 4 MiB.
    plan : SwapPlan, optional
        Everything, with the engine's codec, if not given.
    min_bytes : int
    verify : bool
        Let the engine read back and compare every stream that it writes.

    Yields
    ------
    Swapped
        Its `report()` tells peak memory, bytes and cycles.

    Raises
    ------
    CaptureError
        PyTorch is missing.
    StashError
        In forward or backward: a memory of the machine has no room.
    SavedTensorError
        In backward: a tensor that had stayed was changed after it was saved. PyTorch would say so,
        too, if there were no hooks. One that was out comes back as it was saved.
    """
    torch = require("torch")
    swapped = Swapped(torch, engine, plan or SwapPlan.everything(), min_bytes, verify)
    try:
        with torch.autograd.graph.saved_tensors_hooks(swapped.pack, swapped.unpack):
            yield swapped
    finally:
        swapped.report()


class Swapped:
    """Context of `swap_to`, and the figures of what it has done."""

    def __init__(
        self, torch: Any, engine: Engine, plan: SwapPlan, min_bytes: int, verify: bool
    ) -> None:
        self._torch = torch
        self._weak = require("torch.multiprocessing.reductions").StorageWeakRef
        self._plan = plan
        self._choose = plan.begin()
        self._min_bytes = min_bytes
        self._stash = Stash(engine, verify=verify)
        self._ledger = Ledger()
        self._entries: dict[tuple[int, int], list[_Entry]] = {}
        self._dropped: deque[tuple[_Entry, int]] = deque()
        self._handles = 0

    def report(self) -> SwapReport:
        """Report of everything until now."""
        self._collect()
        peaks = self._ledger.peaks
        return SwapReport(
            out=replace(self._stash.out),
            back=replace(self._stash.back),
            waiting_tensors=self._ledger.waiting,
            waiting_bytes=self._stash.nbytes,
            waiting_stream_bytes=self._stash.stream_bytes,
            kept_bytes=peaks["kept"],
            peak_bytes=peaks["device"],
            peak_bytes_without=peaks["saved"],
            peak_out_bytes=peaks["out"],
        )

    def pack(self, tensor: Any) -> "_Handle | _Kept":
        """Autograd's hook that packs a tensor: it returns what autograd keeps instead."""
        self._collect()
        kept = _Kept(tensor.detach(), tensor._version)
        if _is_parameter(self._torch, tensor) or not _is_plain(self._torch, tensor):
            return kept
        first, nbytes = _extent(tensor)
        entry = self._entry(tensor, first, nbytes)
        self._handles += 1
        entry.handles.add(self._handles)
        offset = (first - entry.first) // tensor.element_size()
        handle = _Handle(
            number=self._handles,
            entry=entry,
            kept=kept if entry.out is None else None,
            layout=(tensor.dtype, offset, tensor.size(), tensor.stride()),
        )
        # Without `atexit`: what nobody asks for any more needs no giving back.
        weakref.finalize(handle, self._let_go, entry, handle.number).atexit = False
        return handle

    def unpack(self, handle: "_Handle | _Kept") -> Any:
        """Autograd's hook that unpacks: it returns the tensor again."""
        self._collect()
        if isinstance(handle, _Kept):
            return handle.unchanged()
        if handle.kept is not None:
            return handle.kept.unchanged()
        flat = self._fetched(handle.entry, handle.number)
        dtype, *layout = handle.layout
        return self._torch.empty(0, dtype=dtype).set_(flat.untyped_storage(), *layout)

    def _entry(self, tensor: Any, first: int, nbytes: int) -> "_Entry":
        """The entry that holds these bytes as they are now, moved or kept by this tensor or an
        earlier one.
        """
        storage = self._weak(tensor.untyped_storage())
        key = storage.cdata, tensor._version
        for entry in self._entries.get(key, ()):
            inside = entry.first <= first and first + nbytes <= entry.first + entry.nbytes
            if inside and not (first - entry.first) % tensor.element_size():
                return entry
        if not self._entries:
            # Nothing of another forward pass is left.
            self._choose = self._plan.begin()
        entry = _Entry(storage=storage, version=tensor._version, first=first, nbytes=nbytes)
        self._ledger.watch(storage, first, nbytes)
        choice = self._choice(tensor, nbytes)
        if choice.placement is Placement.SWAP:
            flat = self._torch.empty(0, dtype=self._torch.uint8)
            flat.set_(tensor.untyped_storage(), first, (nbytes,))
            entry.out = self._stash.put(flat.numpy(), engine_codec(choice.codec))
        self._ledger.add(nbytes, out=entry.out is not None)
        self._entries.setdefault(key, []).append(entry)
        return entry

    def _choice(self, tensor: Any, nbytes: int) -> Choice:
        if nbytes < self._min_bytes:
            return RETAIN
        return self._choose(
            Saved(
                nbytes=nbytes,
                shape=tuple(tensor.shape),
                dtype=str(tensor.dtype).removeprefix("torch."),
                activation=tensor.is_floating_point() and not tensor.is_leaf,
            )
        )

    def _fetched(self, entry: "_Entry", number: int) -> Any:
        """Bytes of an entry, as they were when it was saved."""
        assert entry.out is not None
        flat = entry.fetched
        if flat is None:
            flat = self._torch.from_numpy(self._stash.get(entry.out))
            self._ledger.watch(self._weak(flat.untyped_storage()), 0, entry.nbytes)
            # The other tensors in it will be wanted soon; a second backward pass fetches again.
            entry.wanted = set(entry.handles)
        entry.wanted.discard(number)
        entry.fetched = flat if entry.wanted else None
        return flat

    def _let_go(self, entry: "_Entry", number: int) -> None:
        """Autograd has dropped a handle: at any time, so the rest is for later."""
        self._dropped.append((entry, number))

    def _collect(self) -> None:
        """Free entries that nobody can ask for any more."""
        self._ledger.look()
        while self._dropped:
            entry, number = self._dropped.popleft()
            entry.handles.discard(number)
            entry.wanted.discard(number)
            if not entry.wanted:
                entry.fetched = None
            if entry.handles:
                continue
            key = entry.storage.cdata, entry.version
            self._entries[key].remove(entry)
            if not self._entries[key]:
                del self._entries[key]
            self._ledger.remove(entry.nbytes, out=entry.out is not None)
            if entry.out is not None:
                self._stash.drop(entry.out)


@dataclass(frozen=True)
class _Kept:
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
class _Entry:
    """Bytes of a storage, as they were when a tensor in it was saved.

    Attributes
    ----------
    storage : StorageWeakRef
        Keeps the storage's address from being used again, not its memory.
    version : int
        Of the storage's content.
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
    handles: set[int] = field(default_factory=set)
    wanted: set[int] = field(default_factory=set)
    out: Stashed | None = None
    fetched: Any = None


@dataclass(eq=False, kw_only=True)
class _Handle:
    """Handle that autograd keeps instead of a tensor.

    Attributes
    ----------
    kept : _Kept or None
        None if the entry is out.
    layout : tuple
        The tensor's type, its first element in the entry, its size and strides.
    """

    number: int
    entry: _Entry
    kept: _Kept | None
    layout: tuple[Any, int, Any, tuple[int, ...]]


def _is_parameter(torch: Any, tensor: Any) -> bool:
    """Return True for a parameter, or a view of one."""
    root = tensor if tensor._base is None else tensor._base
    return isinstance(root, torch.nn.Parameter) or (root.is_leaf and root.requires_grad)


def _is_plain(torch: Any, tensor: Any) -> bool:
    """Return True if the tensor's bytes in memory are all there is to it."""
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.numel() > 0
    )


def _extent(tensor: Any) -> tuple[int, int]:
    """Offset of the tensor's first byte in its storage, and the bytes from there to its last."""
    last = sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    itemsize = tensor.element_size()
    return tensor.storage_offset() * itemsize, (last + 1) * itemsize
