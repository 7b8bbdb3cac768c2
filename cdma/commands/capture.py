"""`cdma capture`: train a network and keep its activations."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cdma.commands.completers import among
from cdma.errors import UserError
from cdma.hooks import named_object
from cdma.outputs import Force, require_folder, require_outputs
from cdma.plan.workload import Capture, capture_files, record
from cdma.plan.workload.capture.capture import check_destination, check_name

BUILT_IN_HOOKS = {
    "digits-cnn": "cdma.plan.workload.capture.digits_cnn:subject",
    "digits-cnn-training": "cdma.plan.workload.capture.digits_cnn:training_subject",
    "tiny-gpt": "cdma.plan.workload.capture.tiny_gpt:subject",
    "python-gpt": "cdma.plan.workload.capture.python_gpt:subject",
    "minilm": "cdma.plan.workload.capture.minilm:subject",
}
"""The networks that need no `--hook`."""


def capture(
    name: Annotated[
        str,
        typer.Argument(
            help=f"The capture's name; {', '.join(BUILT_IN_HOOKS)} need no --hook.",
            autocompletion=among(*BUILT_IN_HOOKS),
            show_default=False,
        ),
    ],
    hook: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A function that returns a cdma.plan.workload.Subject: your network, minibatch "
            "and training. See docs/guide/plan/capture.md.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where NAME.json and NAME.npz go.")
    ] = Path("build/captures"),
    epochs: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,…",
            help="After which epochs activations are kept, 0 being before training; the hook "
            "has a default.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="For all random generators.")] = 0,
    force: Force = False,
) -> None:
    """Train a network and keep activations of a minibatch; needs PyTorch (pip install torch)."""
    check_name(name)
    if hook is None and name not in BUILT_IN_HOOKS:
        *others, last = BUILT_IN_HOOKS
        known = ", ".join(others)
        raise UserError(
            f"there is no built-in network {name!r}; name {known} or {last}, or give "
            "your own with --hook module:function"
        )
    specification = BUILT_IN_HOOKS[name] if hook is None else hook
    kept_epochs = _parse_epochs(epochs)
    check_destination(out, name)
    require_folder(out)
    require_outputs(capture_files(out / f"{name}.json"), force=force, makes_folders=True)
    function = _find_hook(specification)
    captured = record(function, name, epochs=kept_epochs, seed=seed)
    captured = replace(captured, recipe={"hook": specification, **captured.recipe})
    path = captured.save(out)
    _print_summary(captured, path)


def _parse_epochs(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 7 for part in parts):
        raise UserError(f"--epochs {text!r} is not a list of numbers; write it as 0,2,12")
    return [int(part) for part in parts]


def _find_hook(specification: str) -> Callable[[], Any]:
    """Import the function that a hook names."""
    function = named_object(specification)
    if not callable(function):
        raise UserError(f"{specification} is no function; name one that returns a Subject")
    found: Callable[[], Any] = function
    return found


def _print_summary(captured: Capture, path: Path) -> None:
    activations = captured.activations
    width = max(len(activation.name) for activation in activations)
    for activation in activations:
        shape = "x".join(map(str, activation.array.shape))
        print(
            f"{activation.name:{width}}  {activation.element_format or activation.array.dtype}  "
            f"{shape:>14}  "
            f"{activation.array.nbytes:>11,} B  density {activation.density:.3f}"
        )
    history = captured.recipe["history"]
    if history:
        figures = [f"{key} {value:.4g}" for key, value in history[-1].items() if key != "epoch"]
        print(f"after epoch {history[-1]['epoch']}: {', '.join(figures) or 'no figures'}")
    size = path.stat().st_size + path.with_suffix(".npz").stat().st_size
    total = sum(activation.array.nbytes for activation in activations)
    print(f"{len(activations)} arrays, {total:,} B, in {path} and .npz ({size:,} B)")
