"""Training a network while keeping what its layers put out. Needs PyTorch.

A *hook* is a function without arguments that returns a `Subject`: a model, a minibatch, and how to
train for one epoch. `record` runs it and keeps the activations; docs/guide/plan/capture.md has an
example.
"""

import importlib
import platform
import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cdma.builds.progress import report
from cdma.plan.workload.capture.capture import (
    BITS,
    Activation,
    Array,
    Capture,
    CaptureError,
    check_name,
)

EPOCHS = "training epochs"
"""The phase that is reported to `cdma.builds.progress`."""

FORMATS = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
"""PyTorch's names of the element formats that numpy lacks."""


@dataclass(kw_only=True)
class Subject:
    """A network to be trained and watched."""

    model: Any
    """The `torch.nn.Module`."""
    probe: Any
    """The minibatch whose activations are kept: a tensor, or a tuple of the model's arguments."""
    train_epoch: Callable[[int], Mapping[str, float] | None]
    """Trains the model for one epoch. Is told the epoch's number, from 1; may return figures, as
    loss and accuracy, for the recipe."""
    epochs: Sequence[int] = (0,)
    """After which epochs the activations are kept; 0 is before training."""
    modules: Sequence[str] | None = None
    """Names (as in `model.named_modules()`) of the modules whose outputs are kept; by default all
    ReLU and pooling modules."""
    allocations: Callable[[], Mapping[str, Any]] | None = None
    """Returns what else is kept after these epochs, tensors by name, as weights, gradients and the
    optimizer's state. A name's part before the first dot is its kind."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Facts about network, data and optimizer, as JSON values."""


def record(
    hook: Callable[[], Subject],
    name: str,
    *,
    epochs: Sequence[int] | None = None,
    seed: int = 0,
) -> Capture:
    """Train a hook's network and keep its activations.

    Python's, numpy's and PyTorch's random generators are seeded before the hook is called, and
    PyTorch is told to use deterministic algorithms, so that the same machine gives the same bits
    again. The probe runs in training mode, since what a training step puts out is what gets
    swapped, but it leaves no trace: weights, buffers, modes and random states are as before.

    Parameters
    ----------
    hook : callable
        Returns the `Subject`. It may call `torch.set_num_threads`; the old number is restored.
    name : str
        The capture's name.
    epochs : sequence of int, optional
        Instead of the subject's own. Training ends with the last.
    seed : int
        For all random generators.

    Raises
    ------
    CaptureError
        PyTorch is missing, the hook, the training or the model fails, a module does not exist or
        was not run, or its output is no array that numpy knows.
    """
    check_name(name)
    torch = require("torch")
    with reproducible(torch, seed):
        with _blame("the hook"):
            subject = hook()
        _check_subject(torch, subject)
        kept_epochs = _check_epochs(subject.epochs if epochs is None else epochs)
        modules = _kept_modules(torch, subject)
        activations: list[Activation] = []
        history = []
        for epoch in range(kept_epochs[-1] + 1):
            if epoch:
                with _blame(f"training epoch {epoch}"):
                    figures = dict(subject.train_epoch(epoch) or {})
                history.append({"epoch": epoch, **figures})
            if epoch in kept_epochs:
                activations += _probe(torch, subject, modules, epoch, seed)
                activations += _allocations(torch, subject, epoch, seed)
            report(EPOCHS, epoch, kept_epochs[-1])
    if not activations:
        raise CaptureError(
            "none of the model's ReLU and pooling modules was run; name the modules in "
            "Subject.modules"
        )
    return Capture(
        name=name,
        activations=tuple(activations),
        recipe={**subject.recipe, "kept_epochs": kept_epochs, "history": history},
        seeds={"python": seed, "numpy": seed, "torch": seed},
        versions={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": str(torch.__version__),
            "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        },
    )


def require(module: str, packages: str = "torch") -> Any:
    """Import a module that only PyTorch's users have; `CaptureError` when it is not installed.

    Parameters
    ----------
    module : str
    packages : str
        What to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise CaptureError(
            f"capturing needs {package}, which cannot be imported; pip install {packages}"
        ) from error


@contextmanager
def reproducible(torch: Any, seed: int) -> Iterator[None]:
    """Seeded generators and deterministic algorithms; afterwards, PyTorch's settings as before."""
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    # A model with an operation that has no deterministic form is captured all the same.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)


@contextmanager
def _blame(what: str) -> Iterator[None]:
    """Turn an error in the user's code into one line that says where it is."""
    try:
        yield
    except CaptureError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if not _is_library(frame.filename)]
        where = f" at {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise CaptureError(f"{what} failed{where}: {cause}; mend the hook") from error


def _is_library(filename: str) -> bool:
    return filename == __file__ or "site-packages" in Path(filename).parts


def _check_subject(torch: Any, subject: Any) -> None:
    if not isinstance(subject, Subject):
        raise CaptureError(
            f"the hook returned a {type(subject).__name__}; return a cdma.plan.workload.Subject"
        )
    if not isinstance(subject.model, torch.nn.Module):
        raise CaptureError(
            f"Subject.model is a {type(subject.model).__name__}; give a torch.nn.Module"
        )
    if not isinstance(subject.probe, (torch.Tensor, tuple)):
        raise CaptureError(
            f"Subject.probe is a {type(subject.probe).__name__}; give a tensor, or a tuple of the "
            "model's arguments"
        )


def _check_epochs(epochs: Sequence[int]) -> list[int]:
    kept = sorted(set(epochs))
    if not kept or kept[0] < 0:
        raise CaptureError(f"no epochs can be kept from {list(epochs)}; give numbers from 0")
    return kept


def _kept_modules(torch: Any, subject: Subject) -> dict[str, tuple[Any, str]]:
    """The modules to watch by name, each with its kind."""
    nn = torch.nn
    relu = (nn.ReLU, nn.ReLU6)
    pool = tuple(
        getattr(nn, f"{prefix}Pool{rank}d")
        for prefix in ("Max", "Avg", "AdaptiveMax", "AdaptiveAvg")
        for rank in (1, 2, 3)
    )
    known = {}
    for name, module in subject.model.named_modules():
        if isinstance(module, relu):
            kind = "relu"
        elif isinstance(module, pool):
            kind = "pool"
        else:
            kind = type(module).__name__.lower()
        known[name] = (module, kind)
    if subject.modules is None:
        kept = {name: known[name] for name in known if known[name][1] in ("relu", "pool")}
        if not kept:
            raise CaptureError(
                "the model has no ReLU or pooling modules; name the modules whose outputs are to "
                "be kept in Subject.modules"
            )
        return kept
    for name in subject.modules:
        if name not in known:
            shown = ", ".join(list(filter(None, known))[:8])
            raise CaptureError(
                f"Subject.modules names {name!r}, which the model lacks; its modules are {shown}, "
                "and so on as in model.named_modules()"
            )
    return {name: known[name] for name in subject.modules}


def _probe(
    torch: Any, subject: Subject, modules: dict[str, tuple[Any, str]], epoch: int, seed: int
) -> list[Activation]:
    """Run the minibatch once and keep what the modules put out, in the order they ran."""
    model = subject.model
    arguments = subject.probe if isinstance(subject.probe, tuple) else (subject.probe,)
    runs = dict.fromkeys(modules, 0)
    activations = []

    def keep(name: str, kind: str, output: Any) -> None:
        runs[name] += 1
        # A module may run several times in one pass, as the shared ReLU of a residual block.
        again = f"#{runs[name]}" if runs[name] > 1 else ""
        layer = name or "model"
        array, element_format = _as_array(torch, layer, output)
        activations.append(
            Activation(
                name=f"{layer}{again}@epoch{epoch}",
                layer=layer,
                kind=kind,
                epoch=epoch,
                array=array,
                element_format=element_format,
            )
        )

    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    handles = [
        # Defaults bind the loop's variables; PyTorch passes the first three.
        module.register_forward_hook(
            lambda _module, _inputs, output, name=name, kind=kind: keep(name, kind, output)
        )
        for name, (module, kind) in modules.items()
    ]
    try:
        with torch.no_grad(), torch.random.fork_rng(range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            with _blame(f"the model, run on the probe after epoch {epoch},"):
                model.train()
                model(*arguments)
    finally:
        for handle in handles:
            handle.remove()
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for module, training in modes:
            module.training = training
    if subject.modules is not None:
        for name, count in runs.items():
            if not count:
                raise CaptureError(
                    f"module {name} was not run by the model; remove it from Subject.modules"
                )
    return activations


def _allocations(torch: Any, subject: Subject, epoch: int, seed: int) -> list[Activation]:
    """Arrays that the subject keeps beside activations, with the probe's random state."""
    if subject.allocations is None:
        return []
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        with _blame(f"Subject.allocations, called after epoch {epoch},"):
            kept = dict(subject.allocations())
    for name, tensor in kept.items():
        if not isinstance(tensor, torch.Tensor):
            raise CaptureError(
                f"Subject.allocations returns a {type(tensor).__name__} for {name}; give a tensor"
            )
    found = {name: _as_array(torch, name, tensor) for name, tensor in kept.items()}
    return [
        Activation(
            name=f"{name}@epoch{epoch}",
            layer=name,
            kind=name.partition(".")[0],
            epoch=epoch,
            array=array,
            element_format=element_format,
        )
        for name, (array, element_format) in found.items()
    ]


def _as_array(torch: Any, layer: str, output: Any) -> tuple[Array, str]:
    """A tensor's elements, and their format where numpy lacks it and has their bits."""
    if not isinstance(output, torch.Tensor):
        raise CaptureError(
            f"module {layer} puts out a {type(output).__name__}; keep modules that put out one "
            "tensor"
        )
    tensor = output.detach().cpu().contiguous()
    element_format = next(
        (name for name, kind in FORMATS.items() if tensor.dtype == getattr(torch, kind)), ""
    )
    if element_format:
        bits = torch.int16 if tensor.element_size() == 2 else torch.uint8
        words = tensor.view(bits).numpy().view(BITS[element_format]).copy()
        return _checked(layer, words), element_format
    try:
        array: Array = tensor.numpy().copy()
    except TypeError:
        raise CaptureError(
            f"module {layer} puts out {output.dtype}, which numpy lacks; convert the model with "
            ".float() or .half()"
        ) from None
    return _checked(layer, array), ""


def _checked(layer: str, array: Array) -> Array:
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise CaptureError(
            f"module {layer} puts out {array.dtype} of {array.ndim} dimensions; keep modules that "
            "put out real tensors"
        )
    return array
