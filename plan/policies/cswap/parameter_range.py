"""Algorithm 1 of CSWAP+ (§5.2.2): between which values lossy compression's parameter may be.

Above Top no tensor gains by compression; below Bottom the copy of some tensor is hidden as it is
and smaller streams gain nothing for it. As in print, but for four holes:

- The search begins at the codec's least legal P, not at 1, which ZFP does not have.
- Print never looks at the first value, so "nothing helps" and "only the first helps" are the same.
  Here the first is looked at, and nothing is None.
- Bisection finds the largest P with a property only if all smaller ones have it, too. A time model
  of several sub-models has steps, and then the answer may be wrong. So each answer is compared with
  a scan of all P, which wins; `corrected` tells whose was wrong.
- Lines 17 to 19 compute a cost that the search for Bottom never uses.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cdma.plan.platform.codec_rates import ZFP_LEAST_BITS, ZFP_MOST_BITS

Holds = Callable[[int], bool]
"""Whether a P has a property."""


@dataclass(frozen=True, kw_only=True)
class ParameterRange:
    """The result of Algorithm 1.

    Attributes
    ----------
    top : int or None
        The largest P that is worth it for some tensor; None if none is for any.
    bottom : int
        The least over tensors of the largest P with which the copy is hidden; the codec's least P
        if some tensor's never is.
    corrected : tuple of str
        Tensors for which bisection missed the right value.
    """

    top: int | None
    bottom: int
    corrected: tuple[str, ...] = ()

    @property
    def useful(self) -> bool:
        """True if compressing is worth it at all (lines 28 to 31)."""
        return self.top is not None and self.top > self.bottom


def parameter_range(
    tensors: Iterable[str],
    *,
    benefit: Callable[[str, int], float],
    cost: Callable[[str, int], float],
    hidden: Callable[[str, int], bool],
    least: int = ZFP_LEAST_BITS,
    most: int = ZFP_MOST_BITS,
) -> ParameterRange:
    """Algorithm 1 over tensors.

    Parameters
    ----------
    tensors : iterable of str
        Names.
    benefit, cost : callable
        Of a tensor's name and P: the seconds that smaller copies save, and those that compression
        and decompression take. Worth it is a benefit that is not less than the cost.
    hidden : callable
        Of a tensor's name and P: whether both copies are hidden by computation.
    least, most : int
        Legal values of P.
    """
    tops: list[int] = []
    bottoms: list[int] = [most]
    corrected = []
    for name in tensors:

        def worth(bits: int, name: str = name) -> bool:
            return benefit(name, bits) >= cost(name, bits)

        def is_hidden(bits: int, name: str = name) -> bool:
            return hidden(name, bits)

        top, top_right = _verified(worth, least, most)
        bottom, bottom_right = _verified(is_hidden, least, most)
        if top is not None:
            tops.append(top)
        bottoms.append(least if bottom is None else bottom)
        if not (top_right and bottom_right):
            corrected.append(name)
    return ParameterRange(
        top=max(tops, default=None), bottom=min(bottoms), corrected=tuple(corrected)
    )


def largest_by_bisection(holds: Holds, least: int, most: int) -> int | None:
    """The largest value that has a property, if all smaller ones have it; None: not even the least.

    In log2(most − least) steps, and one to look at the least.
    """
    left, right = least, most
    while left < right:
        middle = (left + right + 1) // 2
        if holds(middle):
            left = middle
        else:
            right = middle - 1
    return left if left > least or holds(least) else None


def largest_by_scan(holds: Holds, least: int, most: int) -> int | None:
    """The largest value that has a property, whatever the others have; None if none has it."""
    return next((bits for bits in range(most, least - 1, -1) if holds(bits)), None)


def _verified(holds: Holds, least: int, most: int) -> tuple[int | None, bool]:
    """The right value, and whether bisection would have found it."""
    scanned = largest_by_scan(holds, least, most)
    return scanned, scanned == largest_by_bisection(holds, least, most)
