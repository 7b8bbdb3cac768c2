"""A training step that carries a plan out: swaps, compresses and computes again as it says.

Two things of PyTorch's do it. A dispatch mode sees every operation under autograd: it counts the
device's memory, names the values of the forward pass and writes the tape. Hooks on saved tensors
give each value that autograd saves the choice that the plan has for its name. Needs PyTorch on the
processor.
"""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cdma import golden
from cdma.plan.timeline.placement import Placement
from cdma.plan.workload.capture.recorder import require
from cdma.plan.workload.value_names import ValueNames, written_tensors
from cdma.sim.swap.saved_tensor_error import SavedTensorError
from cdma.sim.swap.step.device_memory import DeviceMemory
from cdma.sim.swap.step.host_memory import Host
from cdma.sim.swap.step.replay import Replay
from cdma.sim.swap.step.saved_values import Handle, Kept, SavedValue, bytes_of
from cdma.sim.swap.step.scratch import Scratch
from cdma.sim.swap.step.step_counts import StepCounts, Unpacking
from cdma.sim.swap.step.tape import Tape, Value, View
from cdma.sim.swap.swap_plan import SwapPlan, SwapPlanError, engine_codec, kept_format

LISTED = 4
"""So many names of what does not match are in an error's message."""


@contextmanager
def planned_step(
    module: Any,
    plan: SwapPlan,
    host: Host,
    memory: DeviceMemory,
    *,
    inputs: Any = (),
    prefetches: Mapping[int, Sequence[str]] | None = None,
    planned_streams: Mapping[str, int] | None = None,
    scratch: Scratch | None = None,
) -> Iterator[StepCounts]:
    """Within it, one forward and one backward pass of a module go as a plan says.

    Gradients, buffers and losses are those of the step without it, to the bit: what is computed
    again runs the same operators on the same values, with the same random numbers. Other tensors
    than a plan's stay. Of what is saved several times, there is one copy.

    Parameters
    ----------
    module : torch.nn.Module
    plan : SwapPlan
        Of names (`SwapPlan.from_plan`).
    host : Host
        Where swapped values wait.
    memory : DeviceMemory
        Counts all tensors of the step.
    inputs : tensors in tuples, lists and dictionaries
        The minibatch: it is on the device, too.
    prefetches : mapping of int to sequence of str
        The values to send for at each of backward's unpackings, by its number.
    planned_streams : mapping of str to int
        For a step on fake tensors, which has no values to compress: the bytes of compressed ones.
    scratch : Scratch
        What operators take while they run; nothing if not given.

    Yields
    ------
    StepCounts

    Raises
    ------
    SwapPlanError
        When backward begins, or at the end: the step saves other values than the plan has choices
        for; the message lists them.
    DeviceMemoryError
        Anywhere in the step: it holds more than the device has.
    StashError
        A memory of the engine's machine has no room.
    SavedTensorError
        In backward: a tensor that had stayed, or a parameter, was changed after it was saved.
    """
    step = _Step(require("torch"), module, plan, host, memory, prefetches, planned_streams, scratch)
    yield from step.run(inputs)


class _Step:
    """One step of `planned_step`."""

    def __init__(
        self,
        torch: Any,
        module: Any,
        plan: SwapPlan,
        host: Host,
        memory: DeviceMemory,
        prefetches: Mapping[int, Sequence[str]] | None,
        planned_streams: Mapping[str, int] | None,
        scratch: Scratch | None,
    ) -> None:
        if plan.choices is None:
            raise SwapPlanError(
                "the plan has no names; make one by SwapPlan.from_plan, or give it to swap_to"
            )
        for part in ("utils._python_dispatch", "utils._pytree"):
            require(f"torch.{part}")
        self._torch = torch
        self._module = module
        self._choices = plan.choices
        self._known = plan.known
        self._host = host
        self._memory = memory
        self._prefetches = prefetches or {}
        self._streams = planned_streams
        self._scratch = scratch or Scratch()
        self._names = ValueNames(module)
        self._tape = Tape(torch, random=planned_streams is None)
        self._replay = Replay(torch, self._source, self._keep)
        self._there: dict[str, weakref.ref[SavedValue]] = {}
        self._matched = False
        self._handles = 0
        self.counts = StepCounts()

    def run(self, inputs: Any) -> Iterator[StepCounts]:
        torch, memory = self._torch, self._memory
        for what, tensors in (
            ("a parameter", self._module.parameters()),
            ("a buffer", self._module.buffers()),
            ("an input", torch.utils._pytree.tree_leaves(inputs)),
        ):
            for tensor in tensors:
                if isinstance(tensor, torch.Tensor):
                    memory.watch(tensor, what)
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        with self._names.watching(), hooks, self._mode():
            yield self.counts
        self._match()
        self.counts.after_bytes = memory.mark()

    def _mode(self) -> Any:
        dispatch: Any = self._torch.utils._python_dispatch.TorchDispatchMode
        backward = self._torch._C._current_graph_task_id
        step = self

        class Operations(dispatch):
            def __torch_dispatch__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                if backward() != -1 or step._inside:
                    output = function(*args, **(kwargs or {}))
                    step._watch(function, args, kwargs or {}, output)
                    return output
                return step._forward(function, args, kwargs or {})

        return Operations()

    _inside = False
    """Whether operations are the hooks' own."""

    def _forward(self, function: Any, args: Any, kwargs: Any) -> Any:
        name = self._names.operation(function)
        entry = self._tape.begin(name, function, args, kwargs)
        output = function(*args, **kwargs)
        self._tape.end(entry, args, kwargs, output)
        self._watch(function, args, kwargs, output)
        return output

    def _watch(self, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        torch, name = self._torch, function.overloadpacket.__name__
        larger = self._scratch.result_bytes(torch, function, args, kwargs)
        written = written_tensors(torch, function, args, kwargs, output)
        for place, tensor in enumerate(written):
            self._memory.watch(tensor, name, larger.get(place, 0))
        nbytes = self._scratch.of(self._torch, function, args, kwargs)
        if nbytes:
            self._memory.pass_through(nbytes, f"{nbytes:,} of {name}'s scratch memory")

    @contextmanager
    def _own(self) -> Iterator[None]:
        """Within it, operations are no part of the forward pass."""
        inside, self._inside = self._inside, True
        try:
            yield
        finally:
            self._inside = inside

    # Forward

    def _pack(self, tensor: Any) -> "Handle | Kept":
        with self._own():
            if self._torch._C._current_graph_task_id() != -1:
                # Of a derivative that is to be derived again.
                return Kept(tensor.detach(), tensor._version)
            strided = tensor.layout is self._torch.strided
            value = self._tape.value_of(tensor) if strided else None
            if value is None:
                return Kept(tensor.detach(), tensor._version)
            saved = self._saved_of(value)
            if saved is None:
                saved = self._save(value, tensor)
            self._handles += 1
            saved.handles.add(self._handles)
            saved.wanted.add(self._handles)
            view = View(
                value,
                tensor.dtype,
                tuple(tensor.shape),
                tensor.stride(),
                tensor.storage_offset(),
                tensor._version,
            )
            return Handle(self._handles, saved, view)

    def _save(self, value: Value, tensor: Any) -> "SavedValue":
        """Do with a value what the plan says."""
        choice = self._choices.get(value.name)
        saved = SavedValue(value, choice)
        value.saved = weakref.ref(saved)
        self.counts.saved[value.name] = value.nbytes
        self._there[value.name] = value.saved
        if choice is None or choice.placement is Placement.RETAIN:
            saved.base, saved.version = tensor.detach(), tensor._version
        elif choice.placement is Placement.SWAP:
            saved.out = (
                self._host.put(bytes_of(self._torch, tensor.detach()), engine_codec(choice.codec)),
            )
            saved.dropping = weakref.finalize(saved, _drop, self._host, saved.out, saved.arriving)
            saved.dropping.atexit = False
        elif choice.placement is Placement.COMPRESS:
            self._compress(saved, tensor.detach())
        return saved

    def _compress(self, saved: "SavedValue", tensor: Any) -> None:
        """Keep the stream, or the tensor if the stream is not smaller."""
        torch, name = self._torch, saved.value.name
        data = bytes_of(self._torch, tensor)
        if self._streams is None:
            assert saved.choice is not None
            codec = golden.codec(kept_format(saved.choice.codec))
            array = data.numpy()
            if tensor.element_size() in (2, 4):
                array = array.view(f"<u{tensor.element_size()}")
            stream = torch.from_numpy(codec.compress(array))
            if stream.numel() < data.numel():
                saved.stream = torch.empty(stream.numel(), dtype=torch.uint8).copy_(stream)
        elif self._streams.get(name, data.numel()) < data.numel():
            saved.stream = torch.empty(self._streams[name], dtype=torch.uint8)
        if saved.stream is None:
            saved.base, saved.version = tensor, tensor._version
            saved.stays = True
        size = saved.value.nbytes if saved.stream is None else saved.stream.numel()
        self.counts.stream_bytes[name] = size

    # Backward

    def _unpack(self, handle: "Handle | Kept") -> Any:
        with self._own():
            if isinstance(handle, Kept):
                return handle.unchanged()
            self._match()
            number = len(self.counts.unpackings)
            saved = handle.saved
            before_bytes = self._memory.mark()
            base = self._base(saved)
            saved.wanted.discard(handle.number)
            if not saved.wanted:
                # A second backward pass asks for all of them again.
                saved.wanted = set(saved.handles)
                if not saved.stays:
                    saved.base = None
            tensor = handle.view.of(base)
            while_bytes = self._memory.mark()
            for name in self._prefetches.get(number, ()):
                self._prefetch(name)
            self.counts.unpackings.append(
                Unpacking(
                    name=saved.value.name,
                    nbytes=saved.value.nbytes,
                    before_bytes=before_bytes,
                    while_bytes=while_bytes,
                )
            )
            return tensor

    def _base(self, saved: "SavedValue") -> Any:
        """A tensor in a memory that has a saved value."""
        if saved.base is not None and not saved.arriving:
            if saved.stays and saved.base._version != saved.version:
                raise SavedTensorError(
                    f"{saved.value.name} was changed in place after autograd had saved it; change "
                    "a clone of it"
                )
            return saved.base
        torch = self._torch
        if saved.out is not None:
            if saved.base is None:
                saved.base = torch.empty(saved.value.nbytes, dtype=torch.uint8)
            arriving = saved.arriving.pop() if saved.arriving else None
            if self._streams is None:
                self._host.get(saved.out[0], arriving, saved.base)
        elif saved.stream is not None:
            saved.base = torch.empty(saved.value.nbytes, dtype=torch.uint8)
            if self._streams is None:
                assert saved.choice is not None
                codec = golden.codec(kept_format(saved.choice.codec))
                array = codec.decompress(saved.stream.numpy(), saved.value.nbytes)
                saved.base.copy_(torch.from_numpy(array))
        else:
            self.counts.replays += 1
            self.counts.replayed_bytes += saved.value.nbytes
            saved.base = self._replay.run(saved.value)
        return saved.base

    def _source(self, value: Value) -> Any:
        """Where a replay can start: at what is not to be computed again itself, or has been."""
        saved = self._saved_of(value)
        if saved is None or (saved.recomputed and saved.base is None):
            return None
        return self._base(saved)

    def _keep(self, value: Value, tensor: Any) -> bool:
        """Keep what a replay computes on its way if backward will ask for it."""
        saved = self._saved_of(value)
        if saved is None or not saved.recomputed:
            return False
        saved.base = tensor
        return True

    def _prefetch(self, name: str) -> None:
        reference = self._there.get(name)
        saved = None if reference is None else reference()
        if saved is None or saved.out is None or saved.base is not None:
            return
        arriving = self._host.prefetch(saved.out[0])
        if arriving is None and self._streams is None:
            return
        saved.base = self._torch.empty(saved.value.nbytes, dtype=self._torch.uint8)
        if arriving is not None:
            saved.arriving.append(arriving)
        self.counts.prefetches += 1

    def _match(self) -> None:
        """Compare the values that were saved with those that the plan knows."""
        if self._matched:
            return
        self._matched = True
        saved = self.counts.saved
        missing = [name for name in self._known if name not in saved]
        new = [name for name in saved if name not in self._known]
        if missing or new:
            raise SwapPlanError(
                f"the plan is of another step: {_listed(missing)} of the plan's values "
                f"are not saved, and {_listed(new)} that are saved are not in the plan; trace the "
                "module as it runs, and plan again"
            )
        for reference in list(self._there.values()):
            value = reference()
            if value is not None and value.recomputed:
                value.anchors = self._anchors(value)

    def _anchors(self, saved: "SavedValue") -> list["SavedValue"]:
        """Saved values from which another can be computed again, to be held as long as it is."""
        anchors: dict[SavedValue, None] = {}
        seen: set[Value] = set()
        stack = list(saved.value.entry.inputs if saved.value.entry else ())
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            found = self._saved_of(value)
            if found is not None and not found.recomputed:
                anchors[found] = None
            elif value.entry is not None:
                stack += value.entry.inputs
        return list(anchors)

    def _saved_of(self, value: Value) -> "SavedValue | None":
        return None if value.saved is None else value.saved()


def _drop(host: Host, out: tuple[Any], arriving: list[Any]) -> None:
    host.drop(out[0], arriving.pop() if arriving else None)


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{len(names)} ({', '.join(names[:LISTED])}{more})"
