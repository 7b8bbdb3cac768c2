"""Times of the engine in closed form, held to its RTL by tests."""

from sim.estimate.network import NetworkEstimate, TensorEstimate
from sim.estimate.setup import PARAMETERS, Setup, Sweep
from sim.estimate.transfer import (
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
