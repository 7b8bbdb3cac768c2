"""Names of what operations write in a forward pass, the same in a trace and in a step.

A value is one content of one memory. Its name is that of the operation that writes it and its place
among what the operation writes: `blocks.0.drop#1:div_@0.0` is the first (`.0`) of what the first
(`@0`) `div_` writes in the second call (`#1`) of module `blocks.0.drop`. A write in place makes a
new value. A view has no name of its own: it shows the value of the memory that it shares.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


class ValueNames:
    """Names the operations of one forward pass of a module as they come.

    Parameters
    ----------
    module : torch.nn.Module
        Its submodules' paths are the names' beginnings.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._running: list[tuple[str, int]] = []
        self._calls: Counter[str] = Counter()
        self._operations: Counter[str] = Counter()

    def restart(self) -> None:
        """Begin another forward pass, in which calls and operations are counted anew."""
        self._calls.clear()
        self._operations.clear()

    @property
    def path(self) -> str:
        """Path of the innermost module that runs; empty in the root and outside of it."""
        return self._running[-1][0] if self._running else ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within it, the calls of the module and its submodules are known."""
        with ExitStack() as hooks:
            for path, child in self._module.named_modules():

                def enter(_module: Any, _inputs: Any, path: str = path) -> None:
                    self._running.append((path, self._calls[path]))
                    self._calls[path] += 1

                def leave(_module: Any, _inputs: Any, _output: Any) -> None:
                    self._running.pop()

                hooks.callback(child.register_forward_pre_hook(enter).remove)
                hooks.callback(child.register_forward_hook(leave, always_call=True).remove)
            yield

    def operation(self, function: Any) -> str:
        """Name of an ATen operator that runs now; call it once for each that runs."""
        path, call = self._running[-1] if self._running else ("", 0)
        name = f"{path}#{call}:{function.overloadpacket.__name__}"
        ordinal = self._operations[name]
        self._operations[name] += 1
        return f"{name}@{ordinal}"


def written_tensors(
    torch: Any, function: Any, args: Any, kwargs: Any, output: Any
) -> tuple[Any, ...]:
    """A tensor of each memory that an operation writes, in the order that names count.

    What is read and returned, and not written, is a view and is left out; so is empty memory.
    """
    reads = {t.untyped_storage()._cdata for t in tensors_in(torch, (args, kwargs))}
    mutable = function._schema.is_mutable
    found: dict[int, Any] = {}
    results = tensors_in(torch, output) + mutated_arguments(torch, function, args, kwargs)
    for tensor in results:
        storage = tensor.untyped_storage()
        if storage.nbytes() and (mutable or storage._cdata not in reads):
            found.setdefault(storage._cdata, tensor)
    return tuple(found.values())


def mutated_arguments(torch: Any, function: Any, args: Any, kwargs: Any) -> list[Any]:
    """Tensors among the arguments that the operation's schema says it writes."""
    written: list[Any] = []
    for i, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            written += tensors_in(torch, value)
    return written


def tensors_in(torch: Any, tree: Any) -> list[Any]:
    """The tensors in nested lists, tuples and dictionaries, in their order; no sparse ones, which
    have no memory of their own.
    """
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [
        leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided
    ]
