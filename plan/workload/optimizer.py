"""Memory that an optimizer has for each weight, beside the step that is planned."""

from cdma.plan.workload.layers import GraphError
from cdma.plan.workload.table import NARROW_BYTES, WIDE_BYTES

OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}
"""Optimizers, with the float32 values that they remember of each weight (Kingma and Ba 2015: two
moments)."""


def parameter_copies(optimizer: str, precision: str) -> int:
    """Arrays of the weights' size that stay on the device.

    In float32, and with automatic casts, these are the weights, their gradients and what the
    optimizer remembers. Weights of bfloat16 have gradients of bfloat16, and the optimizer has the
    weights in float32, too, so that small steps are not lost (Micikevicius et al. 2018, §3.1): Adam
    takes 16 B per weight, as ZeRO counts (Rajbhandari et al. 2020, §3.1).

    Raises
    ------
    GraphError
        There is no such optimizer; the message lists those there are.
    """
    if optimizer not in OPTIMIZERS:
        raise GraphError(f"unknown optimizer {optimizer!r}; name one of {', '.join(OPTIMIZERS)}")
    remembered = OPTIMIZERS[optimizer]
    if precision != "bf16":
        return 2 + remembered
    return 2 + (1 + remembered) * WIDE_BYTES // NARROW_BYTES
