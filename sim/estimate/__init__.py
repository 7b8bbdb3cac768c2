"""Times of the engine in closed form, held to its RTL by tests."""

from cdma.sim.estimate.network import NetworkEstimate, TensorEstimate
from cdma.sim.estimate.setup import PARAMETERS, Setup, Sweep
from cdma.sim.estimate.transfer import (
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
    "NetworkEstimate",
    "Setup",
    "Sweep",
    "TensorEstimate",
    "TransferCost",
    "ceilings",
    "queue_cycles",
    "transfer_cost",
    "transfer_seconds",
]
