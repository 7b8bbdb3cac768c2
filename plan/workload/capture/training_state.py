"""What a training step has in memory beside outputs of modules, for subjects of captures."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

MOMENTS = (("adam_m", "exp_avg"), ("adam_v", "exp_avg_sq"))
"""Adam's mean and mean of squares: their kinds, and PyTorch's names of them."""


@contextmanager
def outputs_with_gradients(model: Any, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The outputs of some modules by name, as they run within; backward leaves their gradients."""
    outputs: dict[str, Any] = {}

    def keep(name: str, output: Any) -> None:
        output.retain_grad()
        outputs[name] = output

    handles = [
        # The default binds the loop's variable; PyTorch passes the first three.
        model.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, output, name=name: keep(name, output)
        )
        for name in names
    ]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


def weights_and_moments(
    name: str, weights: Any, state: Mapping[str, Any], rows: int | None = None
) -> dict[str, Any]:
    """A layer's `weights` and `gradients`, and Adam's `adam_m` and `adam_v`.

    Parameters
    ----------
    name : str
        The layer's.
    weights : torch.Tensor
        With their gradient.
    state : mapping
        The optimizer's of them; empty before the first step.
    rows : int, optional
        The first ones are kept; all if not given.
    """
    kept = {
        f"weights.{name}": weights.detach()[:rows].clone(),
        f"gradients.{name}": weights.grad[:rows].clone(),
    }
    return kept | {
        f"{moment}.{name}": state[key][:rows].clone() for moment, key in MOMENTS if key in state
    }
