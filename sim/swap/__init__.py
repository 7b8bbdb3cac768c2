"""Arrays out through RTL and back, and compared: through the codec alone, or the whole engine.

And a training step of PyTorch whose saved tensors go that way (`swap_to`).
"""

from cdma.sim.swap.backend import ArrayResult, Backend, EngineFigures, Payload, QueueFigures
from cdma.sim.swap.engine_backend import EngineBackend
from cdma.sim.swap.pipeline_backend import PipelineBackend
from cdma.sim.swap.stash import Stash, StashError
from cdma.sim.swap.swap_plan import Saved, SwapPlan, SwapPlanError
from cdma.sim.swap.swap_report import SwapReport
from cdma.sim.swap.swapper import BASELINES, RoundTrip, Swapper, SwapRun
from cdma.sim.swap.torch_hooks import SavedTensorError, Swapped, swap_to

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
