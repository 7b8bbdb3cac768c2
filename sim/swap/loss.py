"""The loss of an array in a codec that is not lossless, measured on what came back."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.stream import LINE_BYTES, ByteArray

LINE_VALUES = LINE_BYTES // 4

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The distance of values that came back from what was sent, and how many have none.

    Attributes
    ----------
    bound : float
        The largest error that a value may have.
    largest_error : float
        The largest that one has. Infinite where only one of both values is a finite number.
    exact_values : int
        Values in lines that the codec kept bit for bit.
    not_finite_values : int
        Values, among these, that are NaN or infinite.
    """

    bound: float
    largest_error: float
    exact_values: int
    not_finite_values: int

    @property
    def within_bound(self) -> bool:
        return self.largest_error <= self.bound

    @classmethod
    def of(cls, sent: ByteArray, returned: ByteArray, exact: Bools, bound: float) -> Self:
        """Compare fp32 values, as bytes, with what came back of them.

        Parameters
        ----------
        sent, returned : uint8 (bytes,)
        exact : bool (lines,)
            Which lines the codec kept bit for bit.
        bound : float
        """
        before, after = sent.view("<f4"), returned.view("<f4")
        with np.errstate(invalid="ignore"):
            errors = np.abs(after.astype(np.float64) - before.astype(np.float64))
        # Infinity less infinity is no number, nor is what NaN is from.
        errors[before.view("<u4") == after.view("<u4")] = 0
        errors[np.isnan(errors)] = np.inf
        return cls(
            bound=bound,
            largest_error=float(errors.max(initial=0)),
            exact_values=int(np.repeat(exact, LINE_VALUES)[: before.size].sum()),
            not_finite_values=int(np.count_nonzero(~np.isfinite(before))),
        )

    @classmethod
    def joined(cls, parts: Iterable["Loss"]) -> "Loss | None":
        """The loss of several arrays with one bound together; None of none."""
        losses = list(parts)
        if not losses:
            return None
        return cls(
            bound=losses[0].bound,
            largest_error=max(loss.largest_error for loss in losses),
            exact_values=sum(loss.exact_values for loss in losses),
            not_finite_values=sum(loss.not_finite_values for loss in losses),
        )
