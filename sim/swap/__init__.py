"""Arrays out through RTL and back, and compared: through the codec alone, or the whole engine.

And a training step of PyTorch whose saved tensors go that way (`swap_to`).
"""

from sim.swap.engine import EngineRoad
from sim.swap.pipelines import PipelineRoad
from sim.swap.road import Carried, EngineFigures, Road
from sim.swap.stash import Stash, StashError
from sim.swap.swap_plan import Saved, SwapPlan, SwapPlanError
from sim.swap.swap_report import SwapReport
from sim.swap.swapper import BASELINES, Swapper, Trip, work_bytes
from sim.swap.torch_hooks import SavedTensorError, Swapped, swap_to

__all__ = [
    "BASELINES",
    "Carried",
    "EngineFigures",
    "EngineRoad",
    "PipelineRoad",
    "Road",
    "Saved",
    "SavedTensorError",
    "Stash",
    "StashError",
    "SwapPlan",
    "SwapPlanError",
    "SwapReport",
    "Swapped",
    "Swapper",
    "Trip",
    "swap_to",
    "work_bytes",
]
