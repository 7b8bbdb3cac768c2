"""COMET's controller: an error bound for every convolution's input, and the batch that fits."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cdma.plan.policies.comet import law
from cdma.plan.timeline.errors import ScheduleError

PERIOD = 1000
"""W, iterations between two collections (COMET, §3.1)."""

ERROR_SHARE = 0.01
"""σ by the average magnitude of the momentum (COMET, eq. 1)."""

RESTLESS = 2.0
"""A bound that changes by more than this factor from one update to the next halves W (§3.1)."""

RESERVE = 0.05
"""Share of the memory kept free in case compression is worse than expected (COMET, §3.4)."""


@dataclass(frozen=True, kw_only=True)
class Collected:
    """Statistics of a convolution that one iteration collects (COMET, §3.1).

    Attributes
    ----------
    momentum : float
        M, the mean magnitude of the optimizer's momentum of its weights (eq. 1). Frameworks keep
        the momentum of eq. 2 themselves; a mean with signs would say nothing.
    loss : float
        L̄ of the loss's gradient by its output (`law.average_loss`).
    norm : float
        ‖L‖₂, in the root mean square over its output channels (`law.channel_norms`).
    nonzero : float
        R, the share of its input's elements that are not zero, 0…1.
    """

    momentum: float
    loss: float
    norm: float
    nonzero: float


class Controller:
    """Turns what is collected every W iterations into error bounds (COMET, §3).

    `bounds` is empty at first: for the first W iterations tensors stay as they are and the batch is
    the original one. At every iteration that is `due`, an `update` gives each layer the bound

        eb = σ / (a·L̄·√(N·R)),  σ = 0.01·M                                    (eq. 1 and 3)

    If any layer's bound has changed by more than 2× since the last update, either way, W is halved,
    and reset once all have settled. A layer that no bound can be found for (nothing flows through
    it, or its momentum is nothing) keeps the one it had; one that has none stays as it is.

    Parameters
    ----------
    period : int
        W.
    coefficients : mapping of str to float, optional
        a by layer. Layers that are not in it are calibrated at their first update so that eq. 3 is
        the exact law (`law.coefficient`): the paper's 0.32 for all of them is not right for any.

    Attributes
    ----------
    period : int
        W as it is now.
    bounds : dict of str to float
        The absolute error bound by layer, in the activations' units.
    coefficients : dict of str to float
        a by layer, as far as known.

    Raises
    ------
    ScheduleError
        A period under 1, a coefficient that is not positive, or a collected value that is negative,
        no number or, for `nonzero`, over 1. The message names the layer.
    """

    def __init__(
        self, *, period: int = PERIOD, coefficients: Mapping[str, float] | None = None
    ) -> None:
        if period < 1:
            raise ScheduleError(f"the period must be 1 iteration or more, not {period}")
        for layer, value in (coefficients or {}).items():
            if not 0 < value < math.inf:
                raise ScheduleError(f"coefficient of {layer} must be more than 0, not {value}")
        self._longest_period = period
        self.period = period
        self.coefficients = dict(coefficients or {})
        self.bounds: dict[str, float] = {}
        self._next_update = period

    def due(self, iteration: int) -> bool:
        """Return True if figures are collected in this iteration; iterations count from 1."""
        return iteration >= self._next_update

    def update(self, iteration: int, batch: int, collected: Mapping[str, Collected]) -> None:
        """New bounds, from what has been collected in this iteration.

        Parameters
        ----------
        iteration : int
            From 1.
        batch : int
            N of this iteration.
        collected : mapping of str to Collected
            By layer.
        """
        before = dict(self.bounds)
        for layer, values in collected.items():
            _check(layer, values)
            if values.momentum and values.loss and values.norm and values.nonzero:
                self.bounds[layer] = self._bound(layer, batch, values)
        changes = (self.bounds[layer] / before[layer] for layer in before)
        if any(change > RESTLESS or change < 1 / RESTLESS for change in changes):
            self.period = max(self.period // 2, 1)
        else:
            self.period = self._longest_period
        self._next_update = iteration + self.period

    def batch(self, original: int, memory_bytes: float, bytes_per_image: float, *, cap: int) -> int:
        """The batch to train with now: the original one as long as there are no bounds.

        The other parameters, and the error where nothing fits, are those of `training_batch`.
        """
        if not self.bounds:
            return original
        return training_batch(memory_bytes, bytes_per_image, cap=cap)

    def _bound(self, layer: str, batch: int, values: Collected) -> float:
        if layer not in self.coefficients:
            self.coefficients[layer] = law.coefficient(
                norm=values.norm, loss=values.loss, batch=batch
            )
        return law.paper_bound(
            ERROR_SHARE * values.momentum,
            loss=values.loss,
            batch=batch,
            nonzero=values.nonzero,
            coefficient=self.coefficients[layer],
        )


def training_batch(
    memory_bytes: float, bytes_per_image: float, *, cap: int, fixed_bytes: float = 0.0
) -> int:
    """The batch that COMET trains with once it knows how well tensors compress (§3.4).

    A power of two, at least 2 and at most `cap`, that leaves 5 % of the memory free.

    Parameters
    ----------
    memory_bytes : float
        Of the device.
    bytes_per_image : float
        Of the peak, that grows with the batch.
    cap : int
        The largest batch that is wanted.
    fixed_bytes : float
        Of the peak, that does not: weights and their like.

    Raises
    ------
    ScheduleError
        Not even two images fit, or are allowed; the message says how much memory two need.
    """
    if not bytes_per_image > 0:
        raise ScheduleError(f"bytes_per_image must be more than 0, not {bytes_per_image}")
    images = min(cap, (memory_bytes * (1 - RESERVE) - fixed_bytes) / bytes_per_image)
    if images < 2:
        needed = (fixed_bytes + 2 * bytes_per_image) / (1 - RESERVE)
        raise ScheduleError(
            f"no batch of 2 or more images: the cap is {cap}, and two need {needed:.4g} B of "
            f"{memory_bytes:.4g} B; raise the cap or give more memory"
        )
    return int(2 ** math.floor(math.log2(images)))


def _check(layer: str, values: Collected) -> None:
    for name in ("momentum", "loss", "norm", "nonzero"):
        value = getattr(values, name)
        if not 0 <= value < math.inf:
            raise ScheduleError(
                f"{name} collected of layer {layer} must be 0 or more, not {value}; the training "
                "may have diverged"
            )
    if values.nonzero > 1:
        raise ScheduleError(
            f"nonzero collected of layer {layer} must be 0 to 1, not {values.nonzero}"
        )
