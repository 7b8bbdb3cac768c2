"""Arrays out through RTL and back, and compared: through the codec alone, or the whole engine.

And a training step of PyTorch whose saved tensors go that way (`swap_to`).
"""

from sim.swap.backend import ArrayResult, Backend, EngineFigures, Payload, QueueFigures
from sim.swap.engine_backend import EngineBackend
from sim.swap.pipeline_backend import PipelineBackend
from sim.swap.stash import Stash, StashError
from sim.swap.swap_plan import Saved, SwapPlan, SwapPlanError
from sim.swap.swap_report import SwapReport
from sim.swap.swapper import BASELINES, RoundTrip, Swapper, SwapRun
from sim.swap.torch_hooks import SavedTensorError, Swapped, swap_to

__all__ = [
    "BASELINES",
    "ArrayResult",
    "Backend",
    "EngineBackend",
    "EngineFigures",
    "Payload",
    "PipelineBackend",
    "QueueFigures",
    "RoundTrip",
    "Saved",
    "SavedTensorError",
    "Stash",
    "StashError",
    "SwapPlan",
    "SwapPlanError",
    "SwapReport",
    "SwapRun",
    "Swapped",
    "Swapper",
    "swap_to",
]
