"""The law by which an error of activations becomes one of gradients: COMET's, and the exact one.

A convolution's weight gradient is a sum of products of its input A and the loss's gradient L by
its output. If every element of A that is not zero is off by an independent error uniform in ±bound,
a weight's gradient is off by a sum of many small terms: normal, with a standard deviation σ. Both
laws here say what σ is.

COMET (§4.2, eq. 10 and 11) has σ = a·L̄·√(N·R)·bound, with one coefficient a = 0.32 for all layers.
Exactly, an error uniform in ±bound has the variance bound²/3, and the terms' variances add up:
σ = bound/√3·√R·‖L‖₂, where the norm is over all images and pixels of the weight's output channel.
So a is ‖L‖₂/(√3·L̄·√N): steady while a layer trains, but not the same from layer to layer. The
paper's reason for 0.32, that one image alone leaves "a = 1/3", takes the variance of a uniform
error for its deviation, which is 0.577.

Three more things in the print: R, "sparsity" in eq. 3, is the share of elements that are *not* zero
(eq. 11 says so). Eq. 8 says average and writes a sum; σ grows with √N for summed gradients, and the
exact law holds for either, as L carries the factor 1/N. L̄, "the average value of the loss", is
taken as eq. 9 has it: the mean over images of the largest magnitude.
"""

import math

import numpy as np

from cdma.golden.formats.interface import Array
from cdma.plan.timeline.errors import ScheduleError

PAPER_COEFFICIENT = 0.32
"""COMET, §5.2: a for all layers of all networks."""


def paper_sigma(
    bound: float, *, loss: float, batch: int, nonzero: float, coefficient: float
) -> float:
    """σ of a layer's gradient error by COMET's eq. 10 and 11.

    Parameters
    ----------
    bound : float
        Of the absolute error of activations.
    loss : float
        L̄; see `average_loss`.
    batch : int
        N, images of the minibatch.
    nonzero : float
        R, the share of activations that are not zero, 0…1.
    coefficient : float
        a.
    """
    return coefficient * loss * math.sqrt(batch * nonzero) * bound


def paper_bound(
    sigma: float, *, loss: float, batch: int, nonzero: float, coefficient: float
) -> float:
    """The bound that leaves this σ, by COMET's eq. 3; the inverse of `paper_sigma`.

    Raises
    ------
    ScheduleError
        No bound does: there is no loss or no activation, so that no error matters.
    """
    return _bound(
        sigma, paper_sigma(1.0, loss=loss, batch=batch, nonzero=nonzero, coefficient=coefficient)
    )


def exact_sigma(bound: float, *, norm: float, nonzero: float) -> float:
    """σ exactly: of the gradients of an output channel, or in the root mean square of a layer's.

    Parameters
    ----------
    bound : float
        Of the absolute error of activations.
    norm : float
        ‖L‖₂ of the channel, or its root mean square over channels; see `channel_norms`.
    nonzero : float
        R, the share of activations that are not zero, 0…1.
    """
    return bound / math.sqrt(3) * math.sqrt(nonzero) * norm


def exact_bound(sigma: float, *, norm: float, nonzero: float) -> float:
    """The bound that leaves this σ: `exact_sigma` backwards. Raises as `paper_bound` does."""
    return _bound(sigma, exact_sigma(1.0, norm=norm, nonzero=nonzero))


def coefficient(*, norm: float, loss: float, batch: int) -> float:
    """The a with which COMET's law is the exact one.

    Raises
    ------
    ScheduleError
        There is no loss.
    """
    if not loss > 0:
        raise ScheduleError(f"no coefficient fits a loss of {loss}; collect it again later")
    return norm / (math.sqrt(3 * batch) * loss)


def average_loss(gradients: Array) -> float:
    """L̄ of the loss's gradient by a layer's output, N×C×H×W: the mean of images' maxima (eq. 9)."""
    return float(np.abs(gradients).reshape(len(gradients), -1).max(axis=1).mean())


def channel_norms(gradients: Array) -> Array:
    """‖L‖₂ by output channel, (C,), of the loss's gradient by a layer's output, N×C×H×W."""
    channels = np.moveaxis(np.asarray(gradients, np.float64), 1, 0)
    return np.linalg.norm(channels.reshape(len(channels), -1), axis=1)


def _bound(sigma: float, per_bound: float) -> float:
    if not per_bound > 0:
        raise ScheduleError(
            "no error bound follows from a layer without loss or activations; keep its tensor as "
            "it is"
        )
    return sigma / per_bound
