"""Times of the engine in closed form, held to its RTL by tests."""

from cdma.plan.engine_cost.captured_sizes import TensorSizes, captured_sizes
from cdma.plan.engine_cost.network import NetworkEstimate, TensorEstimate
from cdma.plan.engine_cost.packing import LineSizes
from cdma.plan.engine_cost.setup import PARAMETERS, Setup, Sweep
from cdma.plan.engine_cost.transfer import (
    EstimateError,
    TransferCost,
    ceilings,
    queue_cycles,
    transfer_cost,
    transfer_seconds,
)

__all__ = [
    "PARAMETERS",
    "EstimateError",
    "LineSizes",
    "NetworkEstimate",
    "Setup",
    "Sweep",
    "TensorEstimate",
    "TensorSizes",
    "TransferCost",
    "captured_sizes",
    "ceilings",
    "queue_cycles",
    "transfer_cost",
    "transfer_seconds",
]
