"""A module and a minibatch of the user's, whose training step is planned and carried out."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.workload.capture.recorder import require


class SubjectError(ScheduleError):
    """A subject that cannot be imported or trained: "cause; mend"."""


@dataclass(frozen=True)
class Subject:
    """A training step.

    Attributes
    ----------
    module : torch.nn.Module
        Its output is the loss, a tensor of one element.
    example : tensor, tuple or dict
        A minibatch: one argument, all positional ones, or all by keyword.
    """

    module: Any
    example: Any

    def loss(self) -> Any:
        """The loss of a forward pass.

        Raises
        ------
        SubjectError
            The module's output is no tensor of one element.
        """
        return require_loss(call(self.module, self.example))


def call(module: Any, example: Any) -> Any:
    """A module's output for an example: one argument, all positional ones, or all by keyword."""
    if isinstance(example, dict):
        return module(**example)
    if isinstance(example, tuple):
        return module(*example)
    return module(example)


def require_loss(output: Any) -> Any:
    """The output if it is a loss; raises `SubjectError` otherwise."""
    torch = require("torch")
    if not isinstance(output, torch.Tensor):
        raise SubjectError(
            f"the subject's module returns a {type(output).__name__}, not a loss; return (module, "
            "example, loss, target)"
        )
    if output.numel() != 1:
        raise SubjectError(
            f"the subject's module returns no loss: its output has shape {tuple(output.shape)}, "
            "and a loss has one element; return (module, example, loss, target)"
        )
    return output


def with_loss(module: Any, example: Any, loss: Callable[[Any, Any], Any], target: Any) -> Subject:
    """The subject of a module whose loss is `loss(output, target)`; the module is its `model`.

    The target is the last argument of the subject's module, or the one of that name.
    """
    torch = require("torch")
    base: Any = torch.nn.Module

    class WithLoss(base):
        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            if kwargs:
                target = kwargs.pop("target")
            else:
                args, target = args[:-1], args[-1]
            return loss(self.model(*args, **kwargs), target)

    whole = WithLoss().train(module.training)
    if isinstance(example, dict):
        return Subject(whole, {**example, "target": target})
    return Subject(whole, (*(example if isinstance(example, tuple) else (example,)), target))


def load(name: str) -> Subject:
    """The subject of a name such as `my_module:subject`.

    The name is that of a function without arguments in an importable module, or in a file of the
    working directory. It returns `(module, example)` for a `torch.nn.Module` that returns the loss,
    or `(module, example, loss, target)` with a function that makes a loss of output and target; or
    a `Subject`.

    Raises
    ------
    SubjectError
        There is no such function, or it returns something else.
    CaptureError
        PyTorch is missing.
    """
    torch = require("torch")
    path, colon, attribute = name.partition(":")
    if not (path and colon and attribute):
        raise SubjectError(f"subject {name!r} has no name; write it as my_module:subject")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found = getattr(import_module(path), attribute)
    except (ImportError, AttributeError) as error:
        raise SubjectError(f"cannot find subject {name!r}: {error}; write my_module:subject") from (
            error
        )
    finally:
        sys.path.remove(here)
    made = found() if callable(found) else None
    if isinstance(made, Subject):
        return made
    if not (isinstance(made, tuple) and len(made) in (2, 4)):
        raise SubjectError(
            f"{name} must be a function that returns (module, example) or (module, example, loss, "
            "target)"
        )
    module, example, *loss = made
    if not isinstance(module, torch.nn.Module):
        raise SubjectError(
            f"{name} returns a {type(module).__name__} for a module; return a torch.nn.Module first"
        )
    return with_loss(module, example, *loss) if loss else Subject(module, example)
