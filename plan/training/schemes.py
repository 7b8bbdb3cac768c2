"""Schemes that choose a codec per activation and iteration, as CSWAP+ and COMET compare them."""

from collections.abc import Callable, Mapping
from typing import Protocol

from cdma import golden
from cdma.plan.policies.comet import Collected, Controller
from cdma.plan.policies.cswap import Inverse, SlidingDown
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.training.saved import Compressor
from cdma.plan.training.zeros import ZerosKept

TOP_BITS, BOTTOM_BITS = 100, 20
"""The range of P in the paper's example (CSWAP+, §5.2.2)."""

STATIC_ITERATIONS = (1, 100)
"""When COMET's static strategy estimates its bounds (COMET, §5.3; 200, too)."""


class Scheme(Protocol):
    """Says which codec is used, and may look at the training now and then."""

    def codec(self, tensor: str, epoch: int) -> Compressor | None:
        """The codec of an activation in an epoch, from 0; None leaves it as it is."""

    def due(self, iteration: int) -> bool:
        """Return True if figures are collected in an iteration, counted from 1."""

    def update(self, iteration: int, batch: int, collected: Mapping[str, Collected]) -> None:
        """Take the statistics of the convolutions, by the names of their inputs."""


class Baseline:
    """The scheme that keeps all activations as they are."""

    def codec(self, tensor: str, epoch: int) -> Compressor | None:
        """None."""
        return None

    def due(self, iteration: int) -> bool:
        """Never."""
        return False

    def update(self, iteration: int, batch: int, collected: Mapping[str, Collected]) -> None:
        """Nothing."""


class FixedRate(Baseline):
    """The scheme that compresses all activations by ZFP, with a rate for each epoch.

    Parameters
    ----------
    bits : callable
        P, in bits per four values, in an epoch.
    zeros_kept : bool
        Have zeros come back as zeros, for one more bit per value.
    """

    def __init__(self, bits: Callable[[int], int], *, zeros_kept: bool = False) -> None:
        self._bits = bits
        self._zeros_kept = zeros_kept

    def codec(self, tensor: str, epoch: int) -> Compressor | None:
        """ZFP at the epoch's rate."""
        codec = golden.codec("zfp", rate=self._bits(epoch))
        return ZerosKept(codec) if self._zeros_kept else codec


class ErrorBounded:
    """Inputs of convolutions by error-bounded quantization, as COMET; nothing else is compressed.

    Parameters
    ----------
    period : int
        W, iterations before the first estimate of the bounds, and between two.
    static : bool
        Keep the first.
    """

    def __init__(self, period: int, *, static: bool = False) -> None:
        self.controller = Controller(period=period)
        self._static = static

    def codec(self, tensor: str, epoch: int) -> Compressor | None:
        """Quantization, for the convolutions' inputs as soon as there is a bound."""
        bound = self.controller.bounds.get(tensor)
        return None if bound is None else golden.codec("quantize", bound=bound)

    def due(self, iteration: int) -> bool:
        """Return True as the controller decides; once if the scheme is static."""
        if self._static and self.controller.bounds:
            return False
        return self.controller.due(iteration)

    def update(self, iteration: int, batch: int, collected: Mapping[str, Collected]) -> None:
        """New bounds."""
        self.controller.update(iteration, batch, collected)


Make = Callable[[int, int], Scheme]

SCHEMES: dict[str, Make] = {
    "baseline": lambda epochs, steps: Baseline(),
    "zfp-64": lambda epochs, steps: FixedRate(lambda epoch: 64),
    "zfp-32": lambda epochs, steps: FixedRate(lambda epoch: 32),
    "zfp-32-zeros": lambda epochs, steps: FixedRate(lambda epoch: 32, zeros_kept=True),
    "sliding": lambda epochs, steps: FixedRate(
        SlidingDown(top=TOP_BITS, bottom=BOTTOM_BITS, epochs=epochs).bits
    ),
    "inverse": lambda epochs, steps: FixedRate(
        Inverse(top=TOP_BITS, bottom=BOTTOM_BITS, epochs=epochs).bits
    ),
    # An epoch of the digits is as far as it makes sense to wait: a training is fewer iterations
    # than the paper's 1000.
    "comet": lambda epochs, steps: ErrorBounded(steps),
    "static-1": lambda epochs, steps: ErrorBounded(STATIC_ITERATIONS[0], static=True),
    "static-100": lambda epochs, steps: ErrorBounded(STATIC_ITERATIONS[1], static=True),
}
"""By name: a scheme for so many epochs of so many steps."""


def scheme(name: str, epochs: int, steps: int) -> Scheme:
    """The scheme of that name for a training of `epochs` epochs of `steps` iterations.

    Raises
    ------
    ScheduleError
        There is no such scheme, the message lists those there are; or the numbers are not positive.
    """
    if name not in SCHEMES:
        raise ScheduleError(f"unknown scheme {name!r}; choose from {', '.join(SCHEMES)}")
    if epochs < 1 or steps < 1:
        raise ScheduleError(f"epochs and steps must be at least 1, not {epochs} and {steps}")
    return SCHEMES[name](epochs, steps)
