"""CSWAP+'s regression of times: parts by ratio, and what its errors are measured by."""

import numpy as np
import pytest

from cdma.plan.policies.cswap import Sample, model_samples, shipped_samples
from cdma.plan.policies.cswap.time_model import (
    DENSE_RANGE,
    REGRESSORS,
    TimeModel,
    held_out_error,
    relative_absolute_error,
)
from cdma.plan.timeline.errors import ScheduleError

V100 = 900e9


def _samples(count: int = 400, *, seed: int = 0) -> list[Sample]:
    """Times that are linear in size and ratio."""
    rng = np.random.default_rng(seed)
    sizes, ratios = rng.integers(1, 2000, count) * 10**6, rng.uniform(0.2, 0.8, count)
    return [
        Sample(int(n), float(r), 1e-3 + 2e-11 * n + 1e-3 * r, 2e-3 + 1e-11 * n)
        for n, r in zip(sizes, ratios, strict=True)
    ]


class TestErrors:
    def test_a_perfect_prediction_has_none(self):
        assert relative_absolute_error([1, 2, 6], [1, 2, 6]) == 0

    def test_the_mean_has_one(self):
        assert relative_absolute_error([1, 2, 6], [3, 3, 3]) == 1

    def test_it_is_the_ratio_of_sums(self):
        # |1| + |0| + |-2| over 2 + 1 + 3.
        assert relative_absolute_error([1, 2, 6], [2, 2, 4]) == 0.5


class TestTimeModel:
    def test_a_linear_law_is_learned_exactly(self):
        model = TimeModel(sub_models=1).fit(_samples())
        compress, decompress = model.predict([5e8, 1e9], [0.3, 0.6])
        np.testing.assert_allclose(compress, [1e-3 + 1e-2 + 3e-4, 1e-3 + 2e-2 + 6e-4])
        np.testing.assert_allclose(decompress, [7e-3, 12e-3])

    def test_each_part_of_the_ratios_has_its_own_law(self):
        """The edge belongs to the upper one; beyond both the nearest one predicts."""
        rng = np.random.default_rng(1)
        ratios = np.concatenate([rng.uniform(0.2, 0.8, 200), [0.2, 0.5, 0.8]])
        samples = [Sample(10**6, float(r), 1.0 if r < 0.5 else 2.0, 3.0) for r in ratios]
        model = TimeModel(sub_models=2).fit(samples)
        compress, _ = model.predict(10**6, [0.0, 0.2, 0.499, 0.5, 0.8, 1.0])
        np.testing.assert_allclose(compress, [1, 1, 1, 2, 2, 2])

    def test_ratios_outside_are_not_learned_from(self):
        wild = [Sample(10**6, 0.1, 1e6, 1e6), Sample(10**6, 0.9, 1e6, 1e6)]
        calm, disturbed = (TimeModel().fit(s) for s in (_samples(), _samples() + wild))
        assert calm.predict(10**9, 0.5) == disturbed.predict(10**9, 0.5)

    def test_times_are_never_negative(self):
        samples = [Sample(n * 10**6, 0.5, n - 5.0, n - 5.0) for n in range(6, 20)]
        model = TimeModel(sub_models=1).fit(samples)
        assert model.predict(10**6, 0.5) == (0, 0)

    def test_results_have_the_shape_of_what_was_asked(self):
        model = TimeModel().fit(_samples())
        compress, decompress = model.predict(np.full((3, 1), 1e9), np.full((1, 2), 0.5))
        assert compress.shape == decompress.shape == (3, 2)
        assert model.predict(1e9, 0.5)[0].shape == ()

    @pytest.mark.parametrize("regressor", REGRESSORS)
    def test_every_regressor_learns_both_ways(self, regressor):
        error = held_out_error(TimeModel(regressor), _samples())
        assert error < 0.6

    def test_fitting_again_gives_the_same_model(self):
        once, again = (TimeModel("tree").fit(_samples()).predict(1.5e9, 0.4) for _ in range(2))
        assert once == again

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"regressor": "forest"}, "unknown regressor 'forest'; choose from linear, bayesian"),
            ({"sub_models": 0}, "sub_models must be at least 1, not 0"),
            ({"span": 0.0}, "span must be more than 0"),
        ],
    )
    def test_what_cannot_be_a_model_is_refused(self, wrong, message):
        with pytest.raises(ScheduleError, match=message):
            TimeModel(**wrong)

    def test_a_part_without_samples_is_named(self):
        with pytest.raises(ScheduleError, match=r"no sample has a ratio of 0 to 0.125; take more"):
            TimeModel(sub_models=8, base=DENSE_RANGE[0], span=DENSE_RANGE[1]).fit(_samples())

    def test_nothing_is_predicted_before_it_is_learned(self):
        with pytest.raises(ScheduleError, match="has learned nothing; fit it first"):
            TimeModel().predict(1e9, 0.5)


class TestOnSamples:
    """The paper's comparison on samples of the engine and of codec models."""

    @pytest.mark.parametrize("source", ["engine", "model"])
    def test_sub_models_help_a_linear_law_and_the_product_makes_it_exact(self, source):
        """Times follow the bytes of the stream, S · (1 − r), which no sum of S and r is."""
        samples = (
            shipped_samples("engine")
            if source == "engine"
            else model_samples("zvc-sm", 1000, dram_bytes_per_s=V100)
        )
        one = held_out_error(TimeModel(sub_models=1), samples)
        four = held_out_error(TimeModel(sub_models=4), samples)
        product = held_out_error(TimeModel(sub_models=1, product=True), samples)
        assert product < 1e-3 < four < one

    def test_linear_regression_does_not_beat_the_bayesian_one(self):
        """Contrary to the paper (§6.3): with many samples and three weights, they are the same."""
        samples = model_samples("zvc-sm", 1000, dram_bytes_per_s=V100)
        linear, bayesian = (
            held_out_error(TimeModel(name), samples) for name in ("linear", "bayesian")
        )
        assert linear == pytest.approx(bayesian, rel=1e-3)
