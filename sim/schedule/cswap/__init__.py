"""CSWAP+: which tensors are worth compressing, by a cost model with learned times (§5).

`cdma.sim.schedule.policies.cswap` plans with it. The regressions are in `time_model`, which needs
scikit-learn and so is not imported here.
"""

from cdma.sim.schedule.cswap.cost import Cost, CostModel, TimePredictor, Window
from cdma.sim.schedule.cswap.decision import Decision, decide
from cdma.sim.schedule.cswap.learned import LOSSLESS, learned_times
from cdma.sim.schedule.cswap.parameter_range import ParameterRange, parameter_range
from cdma.sim.schedule.cswap.samples import Sample, model_samples, sample_names, shipped_samples
from cdma.sim.schedule.cswap.sliding import SLOPES, Inverse, SlidingDown, Slope, printed_step

__all__ = [
    "LOSSLESS",
    "SLOPES",
    "Cost",
    "CostModel",
    "Decision",
    "Inverse",
    "ParameterRange",
    "Sample",
    "SlidingDown",
    "Slope",
    "TimePredictor",
    "Window",
    "decide",
    "learned_times",
    "model_samples",
    "parameter_range",
    "printed_step",
    "sample_names",
    "shipped_samples",
]
