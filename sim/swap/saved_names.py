"""Names of the tensors that autograd saves, while a module's forward passes run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdma.plan.workload.capture.recorder import require
from cdma.plan.workload.value_names import ValueNames, written_tensors


class SavedNames:
    """Names each memory by the operation that has last written it, as a schedule's plan does.

    Each call of the module begins another forward pass, in which names are the same again.
    Operations of backward, and those within `own`, have none.

    Parameters
    ----------
    torch : module
    module : torch.nn.Module

    Attributes
    ----------
    module : torch.nn.Module
    """

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self._weak = require("torch.multiprocessing.reductions").StorageWeakRef
        require("torch.utils._python_dispatch")
        self.module = module
        self._values = ValueNames(module)
        self._inside = False
        # Weak references keep a storage's address from being used again.
        self._names: dict[int, tuple[Any, str]] = {}

    def of(self, tensor: Any) -> str | None:
        """The name of what the tensor's memory holds; None if no operation has written it."""
        if tensor.layout is not self._torch.strided:
            return None
        found = self._names.get(self._weak(tensor.untyped_storage()).cdata)
        return None if found is None else found[1]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within it, operations are seen."""
        restart = self.module.register_forward_pre_hook(lambda _module, _inputs: self._restart())
        try:
            with self._values.watching(), self._mode():
                yield
        finally:
            restart.remove()
            self._names.clear()

    @contextmanager
    def own(self) -> Iterator[None]:
        """Within it, operations are not the module's."""
        inside, self._inside = self._inside, True
        try:
            yield
        finally:
            self._inside = inside

    def _restart(self) -> None:
        if not self._values.path:
            self._values.restart()
            self._names = {k: named for k, named in self._names.items() if not named[0].expired()}

    def _mode(self) -> Any:
        dispatch: Any = self._torch.utils._python_dispatch.TorchDispatchMode
        backward = self._torch._C._current_graph_task_id
        names = self

        class Operations(dispatch):
            def __torch_dispatch__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                output = function(*args, **(kwargs or {}))
                if backward() == -1 and not names._inside:
                    names._see(function, args, kwargs or {}, output)
                return output

        return Operations()

    def _see(self, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        operation = self._values.operation(function)
        written = written_tensors(self._torch, function, args, kwargs, output)
        for place, tensor in enumerate(written):
            storage = self._weak(tensor.untyped_storage())
            self._names[storage.cdata] = storage, f"{operation}.{place}"
