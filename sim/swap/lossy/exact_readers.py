"""Operations whose backward pass needs what was saved to the bit.

They divide by it, compare it, or are steep at the end of its range: an error of any size, as where
a small value has come back as zero, makes gradients infinite, NaN, or those of other elements.
"""

import re
from typing import Any

from cdma.sim.swap.saved_tensor_error import SavedTensorError

DIVIDING = (
    *("BinaryCrossEntropy", "Cumprod", "Div", "Log", "Log10", "Log1P", "Log2", "Logit"),
    *("Pow", "Prod", "Sqrt", "Std", "Xlogy", "Atan2", "Digamma", "Lgamma", "Polygamma"),
)
"""Those that divide by what they have saved; `Pow` with exponents of 1 and more does not."""

COMPARING = ("Amax", "Amin", "Aminmax", "Max", "Median", "Min", "Nanmedian")
"""Those that give the gradient to the elements that equal the result."""

STEEP = ("Acos", "Acosh", "Asin", "Atanh", "Erfinv")
"""Those that have no derivative just behind the end of their range."""

EXACT_READERS = frozenset((*DIVIDING, *COMPARING, *STEEP))
"""Autograd's nodes, without `Backward` and what follows."""


def require_inexact_reader(torch: Any, what: str, bound: float) -> None:
    """Raise a `SavedTensorError` if backward is in an operation that needs exact values.

    Parameters
    ----------
    torch : module
    what : str
        The tensor that it is about to get, for the message.
    bound : float
        Its error bound.
    """
    node = torch._C._current_autograd_node()
    if node is None:
        return
    operation = re.sub(r"Backward\d*$", "", node.name())
    if operation not in EXACT_READERS or (operation == "Pow" and _is_smooth_power(node)):
        return
    raise SavedTensorError(
        f"{node.name()} needs {what} to the bit, and it went out with an error of up to {bound:g}; "
        "give that tensor no bound"
    )


def _is_smooth_power(node: Any) -> bool:
    exponent = getattr(node, "_saved_exponent", None)
    return isinstance(exponent, int | float) and exponent >= 1
