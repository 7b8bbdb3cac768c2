"""Lossy compression's parameter over the epochs of a training run (CSWAP+, §5.2.2, equations 1, 2).

P is in bits per four values. It begins at `top`, where little is lost, and slides down to `bottom`,
as training bears more error the longer it lasts. `Inverse` goes the other way, for comparison
(§6.4); a fixed P needs no class.
"""

from dataclasses import dataclass
from typing import Literal

from cdma.plan.platform.codec_rates import ZFP_LEAST_BITS, ZFP_MOST_BITS
from cdma.plan.timeline.errors import ScheduleError

Slope = Literal["printed", "exact"]
SLOPES: tuple[Slope, ...] = ("printed", "exact")


def printed_step(top: int, bottom: int, epochs: int) -> int:
    """Equation 2: ΔP = ⌊(Top − Bottom) / Epoch + 1/2⌋.

    It is 0 where `top − bottom` is less than half of `epochs`, and then P stays at `top` for ever.
    """
    return (2 * (top - bottom) + epochs) // (2 * epochs)


@dataclass(frozen=True, kw_only=True)
class SlidingDown:
    """Rule for the P of each epoch of a training run.

    Parameters
    ----------
    top, bottom : int
        Of Algorithm 1 (`cdma.plan.policies.cswap.parameter_range`), 9 to 128 bits per four values.
    epochs : int
        Of the whole training run.
    slope : str
        "printed": equations 1 and 2, by a whole step per epoch, with their trap: a step of 0.
        "exact", which is ours: evenly, so that the last epoch is the first one with `bottom`, or
        one of the first.

    Raises
    ------
    ScheduleError
        `top` and `bottom` are none that ZFP has, or in the wrong order; no epochs; no such slope.
    """

    top: int
    bottom: int
    epochs: int
    slope: Slope = "printed"

    def __post_init__(self) -> None:
        if not ZFP_LEAST_BITS <= self.bottom <= self.top <= ZFP_MOST_BITS:
            raise ScheduleError(
                f"bottom and top must be {ZFP_LEAST_BITS} to {ZFP_MOST_BITS} bits per four values "
                f"and in this order, not {self.bottom} and {self.top}"
            )
        if self.epochs < 1:
            raise ScheduleError(f"epochs must be at least 1, not {self.epochs}")
        if self.slope not in SLOPES:
            raise ScheduleError(f"unknown slope {self.slope!r}; choose from {', '.join(SLOPES)}")

    @property
    def step(self) -> float:
        """The decrease of P per epoch, before it is rounded."""
        if self.slope == "printed":
            return printed_step(self.top, self.bottom, self.epochs)
        return (self.top - self.bottom) / max(self.epochs - 1, 1)

    @property
    def slides(self) -> bool:
        """True if P ever leaves its first value."""
        return self.bits(self.epochs - 1) != self.bits(0)

    def bits(self, epoch: int) -> int:
        """P in an epoch, the first of which is 0: equation 1. ScheduleError if it is negative."""
        if epoch < 0:
            raise ScheduleError(f"epoch must be 0 or more, not {epoch}")
        return max(self.top - int(epoch * self.step + 0.5), self.bottom)


class Inverse(SlidingDown):
    """The Inverse Scheme (§6.4): the same values, from `bottom` up to `top`."""

    def bits(self, epoch: int) -> int:
        """P in an epoch."""
        return self.top + self.bottom - super().bits(epoch)
