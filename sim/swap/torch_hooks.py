"""A training step whose saved activations wait in host memory. Needs PyTorch on the processor."""

import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from cdma import golden
from cdma.golden.formats.stream import ByteArray
from cdma.plan.timeline.placement import RETAIN, Choice, Placement
from cdma.plan.workload.capture.recorder import require
from cdma.sim.driver import Engine, TensorParameters
from cdma.sim.swap.lossy.error_bounds import Bounds, ErrorBounds
from cdma.sim.swap.lossy.exact_readers import require_inexact_reader
from cdma.sim.swap.lossy.loss_ledger import LossLedger
from cdma.sim.swap.lossy.tensor_encoder import TensorEncoder, may_be_lossy
from cdma.sim.swap.saved_names import SavedNames
from cdma.sim.swap.saved_tensors import Entry, Handle, Kept, extent, is_parameter, is_plain
from cdma.sim.swap.stash import Stash
from cdma.sim.swap.swap_plan import Saved, SwapPlan, SwapPlanError
from cdma.sim.swap.swap_report import Ledger, SwapReport

MIN_BYTES = 1024
"""Below, a transfer's latency costs more than memory gains."""


@contextmanager
def swap_to(
    engine: Engine,
    plan: SwapPlan | None = None,
    *,
    module: Any = None,
    bounds: Bounds | None = None,
    power_of_two: bool = False,
    tensors: TensorParameters | None = None,
    min_bytes: int = MIN_BYTES,
    verify: bool = False,
) -> Iterator["Swapped"]:
    """Within it, what autograd saves goes to an engine's host memory until backward wants it.

    Each tensor that the plan swaps goes out by `memcpy_compressed` when it is saved, and comes
    back when backward reads it: to the bit or, if the plan's codec is lossy and the tensor has a
    bound, within that (`cdma.sim.swap.lossy`). Parameters, tensors of fewer than `min_bytes`, and
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
    module : torch.nn.Module, optional
        Names of saved tensors are those of its operations; without it they have none.
    bounds : number, mapping of str to number, or callable, optional
        The largest error of a value, for a plan with a lossy codec: of all activations, by names
        (`ErrorBounds`), or a function of what is `Saved`. A function with a method `watching`, as
        `CometController` is, also sees the names of the step's tensors.
    power_of_two : bool
        Round bounds down to powers of two, which the engine has.
    tensors : TensorParameters, optional
        A codec's parameters by the names of tensors, for a plan with that codec: kept from one step
        to the next, each tensor goes out with what the record of its last transfer recommended.
        Without it, and for tensors that have not gone out yet, the data are looked at before.
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
    SwapPlanError
        The plan swaps with a codec that the engine has not got; a bound is missing, or none; or, at
        the end, no tensor had the name of one.
    StashError
        In forward or backward: a memory of the machine has no room.
    SavedTensorError
        In backward: a tensor that had stayed was changed after it was saved. PyTorch would say so,
        too, if there were no hooks. One that was out comes back as it was saved. Or an operation
        that divides by or compares what it has saved is about to get a tensor with errors.
    """
    torch = require("torch")
    plan = plan or SwapPlan.everything()
    error_bounds = (
        None if bounds is None else ErrorBounds(bounds, module, power_of_two=power_of_two)
    )
    names = None if module is None else SavedNames(torch, module)
    encoder = TensorEncoder(plan, engine.shape, error_bounds, tensors)
    swapped = Swapped(torch, engine, plan, encoder, names, min_bytes, verify)
    try:
        with ExitStack() as contexts:
            if names is not None:
                contexts.enter_context(names.watching())
            watching = getattr(bounds, "watching", None)
            if watching is not None:
                contexts.enter_context(watching(names))
            contexts.enter_context(
                torch.autograd.graph.saved_tensors_hooks(swapped.pack, swapped.unpack)
            )
            yield swapped
        if error_bounds is not None and error_bounds.unmet:
            raise SwapPlanError(
                f"no tensor that went out has these names of bounds: "
                f"{', '.join(error_bounds.unmet)}; leave them out, or correct them"
            )
    finally:
        swapped.report()


class Swapped:
    """Context of `swap_to`, and the figures of what it has done."""

    def __init__(
        self,
        torch: Any,
        engine: Engine,
        plan: SwapPlan,
        encoder: TensorEncoder,
        names: SavedNames | None,
        min_bytes: int,
        verify: bool,
    ) -> None:
        self._torch = torch
        self._weak = require("torch.multiprocessing.reductions").StorageWeakRef
        self._plan = plan
        self._choose = plan.begin()
        self._encoder = encoder
        self._names = names
        self._losses = LossLedger()
        self._min_bytes = min_bytes
        self._stash = Stash(engine, verify=verify)
        self._ledger = Ledger()
        self._entries: dict[tuple[int, int], list[Entry]] = {}
        self._dropped: deque[tuple[Entry, int]] = deque()
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
            lossy=self._losses.tensors(),
        )

    def pack(self, tensor: Any) -> Handle | Kept:
        """Autograd's hook that packs a tensor: it returns what autograd keeps instead."""
        with self._own():
            return self._pack(tensor)

    def unpack(self, handle: Handle | Kept) -> Any:
        """Autograd's hook that unpacks: it returns the tensor again."""
        with self._own():
            return self._unpack(handle)

    def _own(self) -> AbstractContextManager[None]:
        """A context in which operations are no part of the module."""
        return nullcontext() if self._names is None else self._names.own()

    def _pack(self, tensor: Any) -> Handle | Kept:
        self._collect()
        kept = Kept(tensor.detach(), tensor._version)
        if is_parameter(self._torch, tensor) or not is_plain(self._torch, tensor):
            return kept
        first, nbytes = extent(tensor)
        entry = self._entry(tensor, first, nbytes)
        self._handles += 1
        entry.handles.add(self._handles)
        offset = (first - entry.first) // tensor.element_size()
        handle = Handle(
            number=self._handles,
            entry=entry,
            kept=kept if entry.out is None else None,
            layout=(tensor.dtype, offset, tensor.size(), tensor.stride()),
        )
        # Without `atexit`: what nobody asks for any more needs no giving back.
        weakref.finalize(handle, self._let_go, entry, handle.number).atexit = False
        return handle

    def _unpack(self, handle: Handle | Kept) -> Any:
        self._collect()
        if isinstance(handle, Kept):
            return handle.unchanged()
        if handle.kept is not None:
            return handle.kept.unchanged()
        if handle.entry.bound is not None:
            require_inexact_reader(self._torch, handle.entry.label, handle.entry.bound)
        flat = self._fetched(handle.entry, handle.number)
        dtype, *layout = handle.layout
        return self._torch.empty(0, dtype=dtype).set_(flat.untyped_storage(), *layout)

    def _entry(self, tensor: Any, first: int, nbytes: int) -> Entry:
        """The entry that holds these bytes as they are now, moved or kept by this tensor or an
        earlier one.
        """
        storage = self._weak(tensor.untyped_storage())
        key = storage.cdata, tensor._version
        saved = self._saved(tensor, nbytes)
        for entry in self._entries.get(key, ()):
            inside = entry.first <= first and first + nbytes <= entry.first + entry.nbytes
            exact = entry.bound is None or may_be_lossy(saved)
            if inside and exact and not (first - entry.first) % tensor.element_size():
                return entry
        if not self._entries:
            # Nothing of another forward pass is left.
            self._choose = self._plan.begin()
        entry = Entry(
            storage=storage,
            version=tensor._version,
            first=first,
            nbytes=nbytes,
            label=saved.label,
        )
        self._ledger.watch(storage, first, nbytes)
        choice = RETAIN if nbytes < self._min_bytes else self._choose(saved)
        if choice.placement is Placement.SWAP:
            flat = self._torch.empty(0, dtype=self._torch.uint8)
            flat.set_(tensor.untyped_storage(), first, (nbytes,))
            self._put(entry, flat.numpy(), choice, saved, tensor.element_size())
        self._ledger.add(nbytes, out=entry.out is not None)
        self._entries.setdefault(key, []).append(entry)
        return entry

    def _saved(self, tensor: Any, nbytes: int) -> Saved:
        return Saved(
            nbytes=nbytes,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            activation=tensor.is_floating_point() and not tensor.is_leaf,
            name=None if self._names is None else self._names.of(tensor),
        )

    def _put(
        self, entry: Entry, array: ByteArray, choice: Choice, saved: Saved, itemsize: int
    ) -> None:
        """Take an entry out, with the encoding that the encoder finds for the plan's codec."""
        element_bytes = min(itemsize, max(golden.ELEMENT_BYTES))
        encoding = self._encoder.encoding(array, choice.codec, saved, element_bytes)
        if encoding is None:
            entry.out = self._stash.put(array, None)
            return
        restored = None if encoding.model.lossless else encoding.returned(array)
        entry.out = self._stash.put(
            array,
            encoding.codec,
            encoding.parameters,
            restored=restored,
            learn=self._encoder.learner(encoding, saved),
        )
        if restored is not None:
            loss = encoding.loss(array, restored)
            assert loss is not None
            entry.bound = loss.bound
            self._losses.add(entry.label, entry.nbytes, entry.out.stream_bytes, loss)

    def _fetched(self, entry: Entry, number: int) -> Any:
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

    def _let_go(self, entry: Entry, number: int) -> None:
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
