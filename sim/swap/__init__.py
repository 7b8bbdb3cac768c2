"""Arrays out through RTL and back, and compared: through the codec alone, or the whole engine."""

from sim.swap.engine import EngineRoad
from sim.swap.pipelines import PipelineRoad
from sim.swap.road import Carried, EngineFigures, Road
from sim.swap.swapper import BASELINES, Swapper, Trip, work_bytes

__all__ = [
    "BASELINES",
    "Carried",
    "EngineFigures",
    "EngineRoad",
    "PipelineRoad",
    "Road",
    "Swapper",
    "Trip",
    "work_bytes",
]
