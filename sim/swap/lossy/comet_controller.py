"""COMET's bounds for the tensors that a PyTorch training swaps: collected, updated, rounded.

Every W iterations, `cdma.plan.policies.comet.Controller` gets of each convolution what the paper's
equations have (COMET, §3.1): the mean magnitude of its weights' momentum M, L̄ of the loss's
gradient by its output, the share R of its input that is not zero, and the batch N. Its bound
eb = 0.01·M / (a·L̄·√(N·R)) is rounded down to a power of two, which the engine has, and is that of
the convolution's input until the next update.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from cdma.golden.formats.lossy.power_of_two import LARGEST_K, SMALLEST_K, bound_of, rounded_down
from cdma.plan.policies.comet import Collected, Controller, law
from cdma.plan.policies.comet.controller import PERIOD
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.workload.capture.recorder import require
from cdma.sim.swap.saved_names import SavedNames
from cdma.sim.swap.swap_plan import Saved, SwapPlanError

MOMENTA = ("momentum_buffer", "exp_avg")
"""The optimizer's state that has a weight's momentum: SGD's, and that of Adam and its like."""


class CometController:
    """The bounds of a training: `swap_to(…, module=module, bounds=CometController(…))`.

    An iteration is a step of the optimizer. In the first W, all tensors go without loss, as the
    controller has seen nothing. A tensor that several convolutions read has the least of their
    bounds; what none reads has no bound, nor has the minibatch.

    Parameters
    ----------
    module : torch.nn.Module
        The one that `swap_to` gets. Its convolutions run once in an iteration.
    optimizer : torch.optim.Optimizer
        With momentum.
    period : int
        W.
    coefficients : mapping of str to float, optional
        a by the convolutions' paths, as of `Controller`.

    Attributes
    ----------
    controller : Controller
        Its `bounds` are those of convolutions, by path, before they are rounded.
    iteration : int
        The one that runs, from 1.
    bounds : dict of str to float
        By the names of values, powers of two.
    predicted_sigmas : dict of str to float
        By the convolutions' paths: the standard deviation of their weight gradients' error with
        these bounds, by the exact law (`law.exact_sigma`), in the iteration of the last update.

    Raises
    ------
    ScheduleError
        As of `Controller`. In a forward pass: a convolution runs twice in an iteration. In the
        optimizer's step: it keeps no momentum, or what was collected is no number.
    """

    def __init__(
        self,
        module: Any,
        optimizer: Any,
        *,
        period: int = PERIOD,
        coefficients: Mapping[str, float] | None = None,
    ) -> None:
        torch = require("torch")
        nn = torch.nn
        self.controller = Controller(period=period, coefficients=coefficients)
        self.iteration = 1
        self.bounds: dict[str, float] = {}
        self.predicted_sigmas: dict[str, float] = {}
        self._module = module
        self._convolutions = {
            path: one
            for path, one in module.named_modules()
            if isinstance(one, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        }
        self._inputs: dict[str, _Input] = {}
        self._losses: dict[str, tuple[float, float]] = {}
        optimizer.register_step_post_hook(self._stepped)

    def __call__(self, saved: Saved) -> float | None:
        """The bound of a saved tensor now; None if it has none."""
        return None if saved.name is None else self.bounds.get(saved.name)

    @contextmanager
    def watching(self, names: SavedNames | None) -> Iterator[None]:
        """Within it, convolutions are seen when an update is due; `swap_to` enters it.

        Raises
        ------
        SwapPlanError
            Names are not known, or are those of another module.
        """
        if names is None or names.module is not self._module:
            raise SwapPlanError(
                "bounds of a CometController are by names; give swap_to the controller's module, "
                "module="
            )
        handles = [
            one.register_forward_hook(self._watch(path, names))
            for path, one in self._convolutions.items()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _watch(self, path: str, names: SavedNames) -> Any:
        def watch(module: Any, inputs: Any, output: Any) -> None:
            if not output.requires_grad or not self.controller.due(self.iteration):
                return
            name = names.of(inputs[0])
            if name is None or not module.weight.requires_grad:
                return
            if path in self._inputs:
                raise ScheduleError(
                    f"convolution {path} runs twice before the optimizer's step, and COMET's law "
                    "is of one pass; let the optimizer step after each, or bound others by hand"
                )
            with names.own():
                values = inputs[0].detach().numpy()
            self._inputs[path] = _Input(module.weight, name, values)
            output.register_hook(lambda gradient: self._keep(path, gradient))

        return watch

    def _keep(self, path: str, gradient: Any) -> None:
        """Take the statistics of the loss's gradient by a convolution's output."""
        values = gradient.detach().numpy()
        norms = law.channel_norms(values)
        self._losses[path] = law.average_loss(values), float(np.sqrt((norms**2).mean()))

    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Update the bounds, if that is due, after the optimizer's step."""
        inputs, losses = self._inputs, self._losses
        self._inputs, self._losses = {}, {}
        collected = {
            path: Collected(
                momentum=_momentum(optimizer, inputs[path].weight, path),
                loss=loss,
                norm=norm,
                nonzero=inputs[path].nonzero,
            )
            for path, (loss, norm) in losses.items()
        }
        if collected:
            batch = inputs[next(iter(collected))].batch
            self.controller.update(self.iteration, batch, collected)
            self._round({path: inputs[path].name for path in collected})
            self.predicted_sigmas = {
                path: law.exact_sigma(
                    self.bounds[inputs[path].name], norm=each.norm, nonzero=each.nonzero
                )
                for path, each in collected.items()
                if inputs[path].name in self.bounds
            }
        self.iteration += 1

    def _round(self, names: Mapping[str, str]) -> None:
        """Give values the least bound of the convolutions that read them, as the engine has it."""
        found: dict[str, float] = {}
        for path, name in names.items():
            if path in self.controller.bounds:
                bound = self.controller.bounds[path]
                found[name] = min(found.get(name, math.inf), bound)
        self.bounds = {
            name: rounded_down(min(bound, bound_of(LARGEST_K)))
            for name, bound in found.items()
            if bound >= bound_of(SMALLEST_K)
        }


class _Input:
    """The statistics of a convolution's input.

    Attributes
    ----------
    weight : tensor
    name : str
        The value's.
    batch : int
    nonzero : float
    """

    def __init__(self, weight: Any, name: str, values: Any) -> None:
        self.weight = weight
        self.name = name
        self.batch = len(values)
        self.nonzero = float(np.count_nonzero(values)) / values.size


def _momentum(optimizer: Any, weight: Any, path: str) -> float:
    state = optimizer.state.get(weight, {})
    for key in MOMENTA:
        if state.get(key) is not None:
            return float(state[key].abs().mean())
    raise ScheduleError(
        f"the optimizer keeps no momentum of {path}'s weights, which COMET's bounds follow; take "
        "SGD with momentum, or Adam, with all of the module's parameters"
    )
