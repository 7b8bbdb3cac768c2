"""Arrays out through RTL and back, and compared: through the codec alone, or the whole engine.

And a training step of PyTorch whose saved tensors go that way: all or some of them (`swap_to`), or
as a schedule's plan has it (`planned_step`, and `plan_step` that finds one within a memory).
"""

from cdma.sim.swap.backend import ArrayResult, Backend, EngineFigures, Payload, QueueFigures
from cdma.sim.swap.engine_backend import EngineBackend
from cdma.sim.swap.loss import Loss
from cdma.sim.swap.lossy.comet_controller import CometController
from cdma.sim.swap.lossy.loss_ledger import LossyTensors
from cdma.sim.swap.pipeline_backend import PipelineBackend
from cdma.sim.swap.saved_tensor_error import SavedTensorError
from cdma.sim.swap.stash import Stash, StashError
from cdma.sim.swap.step.device_memory import DeviceMemory, DeviceMemoryError
from cdma.sim.swap.step.host_memory import EngineHost
from cdma.sim.swap.step.planned_step import planned_step
from cdma.sim.swap.step.rehearsal import Rehearsal, rehearse
from cdma.sim.swap.step.step_planner import StepPlan, plan_step
from cdma.sim.swap.step.step_run import StepRun, run_plain, run_planned
from cdma.sim.swap.swap_plan import Saved, SwapPlan, SwapPlanError
from cdma.sim.swap.swap_report import SwapReport
from cdma.sim.swap.swapper import BASELINES, RoundTrip, Swapper, SwapRun
from cdma.sim.swap.torch_hooks import Swapped, swap_to

__all__ = [
    "BASELINES",
    "ArrayResult",
    "Backend",
    "CometController",
    "DeviceMemory",
    "DeviceMemoryError",
    "EngineBackend",
    "EngineFigures",
    "EngineHost",
    "Loss",
    "LossyTensors",
    "Payload",
    "PipelineBackend",
    "QueueFigures",
    "Rehearsal",
    "RoundTrip",
    "Saved",
    "SavedTensorError",
    "Stash",
    "StashError",
    "StepPlan",
    "StepRun",
    "SwapPlan",
    "SwapPlanError",
    "SwapReport",
    "SwapRun",
    "Swapped",
    "Swapper",
    "plan_step",
    "planned_step",
    "rehearse",
    "run_plain",
    "run_planned",
    "swap_to",
]
