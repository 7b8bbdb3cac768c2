"""CSWAP+: which tensors are worth compressing, by a cost model with learned times (§5).

`cdma.plan.policies.cswap.policy` plans with it. The regressions are in `time_model`, which needs
scikit-learn and so is not imported here.
"""

from cdma.plan.policies.cswap.cost import Cost, CostModel, TimePredictor, Window
from cdma.plan.policies.cswap.decision import Decision, decide
from cdma.plan.policies.cswap.learned import LOSSLESS, learned_times
from cdma.plan.policies.cswap.parameter_range import ParameterRange, parameter_range
from cdma.plan.policies.cswap.samples import Sample, model_samples, sample_names, shipped_samples
from cdma.plan.policies.cswap.sliding import SLOPES, Inverse, SlidingDown, Slope, printed_step

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
