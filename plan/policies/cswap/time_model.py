"""A model of compression and decompression times, learned from samples (CSWAP+, §5.4).

A regression from a tensor's size and compression ratio to seconds; or several, each for a part of
the ratios, as the paper has it. `linear` is the paper's choice; the others are those that it
compares with (§6.3). Inputs are in MB, results in ms, since not all of them are indifferent to
units.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cdma.builds.extras import extra
from cdma.plan.policies.cswap.samples import Sample
from cdma.plan.timeline.errors import ScheduleError

with extra("plan"):
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import BayesianRidge, LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR
    from sklearn.tree import DecisionTreeRegressor

Floats = npt.NDArray[np.float64]


def _scaled_svr() -> Any:
    scaled = make_pipeline(StandardScaler(), SVR(C=10.0, epsilon=0.01))
    return TransformedTargetRegressor(regressor=scaled, transformer=StandardScaler())


REGRESSORS: dict[str, Callable[[], Any]] = {
    "linear": LinearRegression,
    "bayesian": BayesianRidge,
    "svr": SVR,
    # The same with inputs and results of mean 0 and variance 1, which SVR is meant for.
    "svr-scaled": _scaled_svr,
    "tree": lambda: DecisionTreeRegressor(random_state=0),
}
"""By name: linear and Bayesian regression, support vectors, decision tree."""

SPARSE_RANGE = (0.2, 0.6)
"""Base and span of the ratios that sparse tensors' sub-models share (§5.4)."""
DENSE_RANGE = (0.0, 1.0)
"""The same of dense tensors."""


class TimeModel:
    """Predicts seconds from bytes and ratio.

    Parameters
    ----------
    regressor : str
        Of `REGRESSORS`.
    sub_models : int
        Sub-model i of n learns from ratios in [base + span · i/n, base + span · (i+1)/n), the last
        one with its end, and predicts for them. Samples outside of all are not learned from; the
        nearest sub-model predicts for them.
    base, span : float
        `SPARSE_RANGE` or `DENSE_RANGE`.
    product : bool
        Whether size × ratio is an input, too. Times that are proportional to the bytes of the
        stream are linear with it, but not without. Ours, not the paper's.

    Raises
    ------
    ScheduleError
        There is no such regressor, or no sub-model, or a sub-model has no samples.
    """

    def __init__(
        self,
        regressor: str = "linear",
        *,
        sub_models: int = 4,
        base: float = SPARSE_RANGE[0],
        span: float = SPARSE_RANGE[1],
        product: bool = False,
    ) -> None:
        if regressor not in REGRESSORS:
            raise ScheduleError(
                f"unknown regressor {regressor!r}; choose from {', '.join(REGRESSORS)}"
            )
        if sub_models < 1:
            raise ScheduleError(f"sub_models must be at least 1, not {sub_models}")
        if not span > 0:
            raise ScheduleError(f"span must be more than 0, not {span}")
        self.regressor = regressor
        self.sub_models = sub_models
        self.base = base
        self.span = span
        self.product = product
        self._fitted: list[tuple[Any, Any]] = []

    def fit(self, samples: Sequence[Sample]) -> Self:
        """Learn from samples, and forget what was learned before."""
        nbytes = np.array([sample.nbytes for sample in samples], float)
        ratios = np.array([sample.ratio for sample in samples], float)
        times = np.array([[s.compress_seconds, s.decompress_seconds] for s in samples], float)
        inside = (ratios >= self.base) & (ratios <= self.base + self.span)
        parts = self._parts(ratios)
        fitted = []
        for part in range(self.sub_models):
            mine = inside & (parts == part)
            if not mine.any():
                low, high = (self.base + self.span * (part + k) / self.sub_models for k in (0, 1))
                raise ScheduleError(
                    f"no sample has a ratio of {low:.3g} to {high:.3g}; take more samples, or "
                    f"fewer sub-models than {self.sub_models}"
                )
            inputs = self._inputs(nbytes[mine], ratios[mine])
            compress, decompress = (
                REGRESSORS[self.regressor]().fit(inputs, times[mine, way] * 1e3) for way in (0, 1)
            )
            fitted.append((compress, decompress))
        self._fitted = fitted
        return self

    def predict(self, nbytes: npt.ArrayLike, ratio: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Seconds of compression and of decompression, never negative.

        Parameters
        ----------
        nbytes, ratio : array_like
            Of one shape, which the results have, too.
        """
        if not self._fitted:
            raise ScheduleError("the time model has learned nothing; fit it first")
        sizes, ratios = np.broadcast_arrays(np.asarray(nbytes, float), np.asarray(ratio, float))
        flat_sizes, flat_ratios = sizes.ravel(), ratios.ravel()
        parts = self._parts(flat_ratios)
        times = np.zeros((2, flat_sizes.size))
        for part in np.unique(parts):
            mine = parts == part
            inputs = self._inputs(flat_sizes[mine], flat_ratios[mine])
            for way in (0, 1):
                times[way, mine] = self._fitted[part][way].predict(inputs) / 1e3
        compress, decompress = np.maximum(times, 0).reshape(2, *sizes.shape)
        return compress, decompress

    def _parts(self, ratios: Floats) -> npt.NDArray[np.int64]:
        """The sub-model of each ratio."""
        position = np.floor((ratios - self.base) / self.span * self.sub_models)
        return np.clip(position, 0, self.sub_models - 1).astype(np.int64)

    def _inputs(self, nbytes: Floats, ratios: Floats) -> Floats:
        columns = [nbytes / 1e6, ratios]
        if self.product:
            columns.append(nbytes / 1e6 * ratios)
        return np.stack(columns, axis=1)


def relative_absolute_error(measured: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """RAE = Σ|ŷ − y| / Σ|ȳ − y| (§6.3): 0 is perfect, 1 no better than to predict the mean.

    Print has |ŷ − y| / |ŷ − y|, which is 1 for whatever one predicts.
    """
    y, estimate = np.asarray(measured, float), np.asarray(predicted, float)
    return float(np.abs(estimate - y).sum() / np.abs(y.mean() - y).sum())


def held_out_error(model: TimeModel, samples: Sequence[Sample], *, seed: int = 0) -> float:
    """RAE on a quarter of the samples, of the model fitted to the others; the mean of both ways."""
    order = np.random.default_rng(seed).permutation(len(samples))
    tested = len(samples) // 4
    model.fit([samples[i] for i in order[tested:]])
    test = [samples[i] for i in order[:tested]]
    compress, decompress = model.predict([s.nbytes for s in test], [s.ratio for s in test])
    return (
        relative_absolute_error([s.compress_seconds for s in test], compress)
        + relative_absolute_error([s.decompress_seconds for s in test], decompress)
    ) / 2
