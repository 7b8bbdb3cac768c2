"""CSWAP+'s swapping cost, equations 3 to 7, on a chain whose times can be told by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cdma.golden.formats.lossy.zfp import RATES
from cdma.plan.platform.codec_rates import LAUNCH_SECONDS
from cdma.plan.platform.device import Device
from cdma.plan.platform.link import Link
from cdma.plan.policies.cswap import CostModel, SlidingDown, decide, shipped_samples
from cdma.plan.policies.cswap.samples import lossy_ratio
from cdma.plan.policies.cswap.time_model import TimeModel
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import KINDS, Layer, Tensor

FORWARD_S = (0.010, 0.020, 0.045, 0.080)
NBYTES = 400_000_000
OUT_BYTES_PER_S, IN_BYTES_PER_S = 10e9, 8e9
PLAIN_OUT_S, PLAIN_IN_S = NBYTES / OUT_BYTES_PER_S, NBYTES / IN_BYTES_PER_S
PEAK = 1e12


def _chain(density: float = 0.5, *, skip: bool = False) -> Graph:
    """Four convolutions in a row; backward takes twice as long as forward. With `skip` the last
    one reads the first one's output, too."""
    names = ("data", "a", "b", "c", "d")
    tensors = tuple(
        Tensor(name=name, nbytes=NBYTES, kind="conv" if i else "input", density=density)
        for i, name in enumerate(names)
    )
    layers = []
    for i, seconds in enumerate(FORWARD_S):
        inputs = (i, 1) if skip and i == 3 else (i,)
        layers.append(
            Layer(
                name=names[i + 1],
                kind="conv",
                inputs=inputs,
                output=i + 1,
                saved=inputs,
                gradients=tuple(t for t in inputs if t),
                flops_forward=seconds * PEAK,
                flops_backward=2 * seconds * PEAK,
            )
        )
    return Graph(name="chain", batch=1, tensors=tensors, layers=tuple(layers))


def _scenario(density: float = 0.5, *, skip: bool = False) -> Scenario:
    device = Device(
        name="even",
        peak_flops=PEAK,
        dram_bytes_per_s=900e9,
        capacity_bytes=10**12,
        engine="titanx_gen3",
        source="this test",
        efficiency=dict.fromkeys(KINDS, 1.0),
    )
    link = Link("even", OUT_BYTES_PER_S, "this test", in_bytes_per_s=IN_BYTES_PER_S, efficiency=1.0)
    graph = _chain(density, skip=skip)
    return Scenario(graph=graph, device=device, link=link, memory_bytes=device.capacity_bytes)


class _Constant:
    """Predicts the same seconds for all, and keeps what it was asked."""

    def __init__(self, compress: float, decompress: float) -> None:
        self.seconds = compress, decompress
        self.asked: list[tuple[float, list[float]]] = []

    def predict(self, nbytes, ratio):
        self.asked.append((nbytes, np.atleast_1d(ratio).tolist()))
        shape = np.shape(ratio)
        return np.full(shape, self.seconds[0]), np.full(shape, self.seconds[1])


class TestWindows:
    """Tensor b is made by the second stage; the third reads it and saves it."""

    def test_the_next_stage_hides_the_way_out_and_the_one_after_it_the_way_in(self):
        window = CostModel(_scenario()).window(2)
        assert window.forward_seconds == pytest.approx(FORWARD_S[2])
        assert window.backward_seconds == pytest.approx(2 * FORWARD_S[3])

    def test_the_last_stages_input_has_nothing_before_it_in_backward(self):
        window = CostModel(_scenario()).window(3)
        assert window.backward_seconds == 0

    def test_all_stages_up_to_the_last_reader_hide_the_way_out(self):
        window = CostModel(_scenario(skip=True)).window(1)
        assert window.forward_seconds == pytest.approx(sum(FORWARD_S[1:]))
        assert window.backward_seconds == 0

    def test_a_longer_look_ahead_hides_more(self):
        window = CostModel(_scenario(), lookahead=2).window(1)
        assert window.backward_seconds == pytest.approx(2 * sum(FORWARD_S[2:]))


def about(seconds: float) -> Any:
    """Copies take a record's time longer than their bytes."""
    return pytest.approx(seconds, rel=1e-4)


class TestCosts:
    def test_equation_3_is_what_the_windows_leave_of_the_copies(self):
        costs = CostModel(_scenario())
        assert costs.plain(1).seconds == about(
            (PLAIN_OUT_S - FORWARD_S[1]) + max(PLAIN_IN_S - 2 * FORWARD_S[2], 0)
        )
        assert costs.plain(3).seconds == about(0 + PLAIN_IN_S)

    def test_equation_4_adds_the_codec_to_what_is_left_of_smaller_copies(self):
        times = _Constant(0.003, 0.004)
        cost = CostModel(_scenario(), {"zvc-sm": times}).compressed(1, "zvc-sm")
        part = 0.5 + 1 / 32
        assert cost.compress_seconds == 0.003
        assert cost.decompress_seconds == 0.004
        assert cost.exposed_seconds == about(part * PLAIN_OUT_S - FORWARD_S[1])
        assert cost.seconds == pytest.approx(0.007 + cost.exposed_seconds)
        assert times.asked == [(NBYTES, [0.5])]

    @pytest.mark.parametrize("sparsity", [0.0, 0.25, 0.5, 0.9, 1.0])
    def test_equation_7_counts_the_masks_of_sparse_tensors(self, sparsity):
        """The last tensor's way in is not hidden, so it shows the size."""
        cost = CostModel(_scenario(1 - sparsity)).compressed(3, "zvc-sm")
        out = max((1 - sparsity + 1 / 32) * PLAIN_OUT_S - FORWARD_S[3], 0)
        assert cost.exposed_seconds - out == about((1 - sparsity + 1 / 32) * PLAIN_IN_S)

    @pytest.mark.parametrize("bits", [9, 32, 128])
    def test_equation_7_has_p_over_128_of_dense_tensors(self, bits):
        cost = CostModel(_scenario(1.0)).compressed(3, f"zfp-{bits}")
        assert cost.exposed_seconds == about(bits / 128 * PLAIN_IN_S)

    def test_without_a_learned_time_the_codecs_model_tells(self):
        cost = CostModel(_scenario()).compressed(1, "zvc-sm")
        seconds = LAUNCH_SECONDS + NBYTES / 250e9 * (1 + 0.5 + 1 / 32)
        assert cost.compress_seconds == cost.decompress_seconds == pytest.approx(seconds)

    def test_the_engines_codec_takes_no_time_of_the_device(self):
        assert CostModel(_scenario()).compressed(1, "zvc").codec_seconds == 0

    def test_the_engines_learned_times_are_those_of_the_copies(self):
        times = _Constant(0.030, 0.095)
        cost = CostModel(_scenario(), {"zvc": times}).compressed(1, "zvc")
        assert cost.codec_seconds == 0
        exposed = (0.030 - FORWARD_S[1]) + (0.095 - 2 * FORWARD_S[2])
        assert cost.exposed_seconds == pytest.approx(exposed)

    def test_what_is_learned_from_the_rtl_agrees_with_the_declared_copies(self):
        """At the samples' link, and though no sample is larger than 1 MiB."""
        learned = TimeModel(sub_models=1, product=True).fit(shipped_samples("engine"))
        even = _scenario(0.4)
        full = Link("as sampled", 16e9, "titanx_gen3", efficiency=1.0)
        scenario = replace(even, link=full)
        told, declared = (
            CostModel(scenario, models).compressed(3, "zvc") for models in ({"zvc": learned}, {})
        )
        assert told.seconds == pytest.approx(declared.seconds, rel=0.01)

    def test_all_values_of_p_are_predicted_at_once(self):
        times = _Constant(0.001, 0.002)
        costs = CostModel(_scenario(1.0), {"zfp": times})
        by_bits = costs.zfp(1)
        assert list(by_bits) == list(RATES)
        assert times.asked == [(NBYTES, [lossy_ratio(bits) for bits in RATES])]
        assert by_bits[64] == costs.compressed(1, "zfp-64")
        assert times.asked[1] == (NBYTES, [0.5])

    def test_an_unknown_codec_is_refused_by_name(self):
        with pytest.raises(ScheduleError, match="unknown codec 'zip'; choose from"):
            CostModel(_scenario()).compressed(1, "zip")


class TestDecisions:
    def test_a_tensor_is_compressed_if_that_costs_less(self):
        """ZVC at 50 % leaves 1.25 ms of 20 ms that are exposed, beside its own time."""
        quick, slow = _Constant(0.009, 0.009), _Constant(0.010, 0.010)
        for times, worth_it in ((quick, True), (slow, False)):
            (decision,) = decide(CostModel(_scenario(), {"zvc-sm": times}), [1], ["zvc-sm"])
            assert decision.worth_it is worth_it
            assert decision.choice.codec == ("zvc-sm" if worth_it else None)

    def test_what_is_hidden_anyway_is_never_compressed(self):
        (decision,) = decide(CostModel(_scenario()), [2], ["zvc-sm"])
        assert decision.plain.seconds == 0
        assert not decision.worth_it

    def test_equal_costs_leave_the_tensor_as_it_is(self):
        (decision,) = decide(CostModel(_scenario(1.0), {"zfp": _Constant(0, 0)}), [1], ["zfp-128"])
        assert decision.compressed is not None
        assert decision.compressed.seconds == decision.plain.seconds
        assert not decision.worth_it

    def test_the_cheapest_codec_is_chosen(self):
        (decision,) = decide(CostModel(_scenario(0.3)), [3], ["csr-sm", "zvc-sm", "lz4-sm"])
        assert decision.codec == "zvc-sm"

    def test_without_codecs_nothing_is_compressed(self):
        (decision,) = decide(CostModel(_scenario()), [1], [])
        assert decision.choice.codec is None


def test_sliding_only_ever_shrinks_the_stream():
    costs = CostModel(_scenario(1.0))
    sliding = SlidingDown(top=100, bottom=20, epochs=90)
    seconds = [costs.compressed(3, f"zfp-{sliding.bits(e)}").seconds for e in range(90)]
    assert seconds == sorted(seconds, reverse=True)
