"""The value of a point: its two best plans, and their times."""

import json
from dataclasses import replace

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies import capuchin, capuchin_feedback
from cdma.plan.policies.recomputing import checkpoint, dtr
from cdma.plan.timeline.memory import least_memory
from cdma.plan.timeline.timeline import simulate
from cdma.plan.value.point import Point, Value, evaluate


def test_a_point_s_value_is_of_its_two_plans() -> None:
    """AlexNet's thirteen tensors, on CIFAR, where its weights do not hide them."""
    point = Point.usual(
        "alexnet",
        dataset="cifar",
        device="titanxp",
        link="pcie3x16",
        codec="zvc",
        room=0.0,
        evaluations=1000,
    )
    scenario, value = point.scenario(), evaluate(point)
    assert value.memory_bytes == scenario.memory_bytes == least_memory(scenario).nbytes
    assert value.fits
    assert value.link_bytes_per_s == 0.8 * 16e9
    assert value.oracle_seconds == scenario.compute_seconds
    assert value.oracle_seconds <= value.with_seconds <= value.without_seconds
    for policy in (capuchin, capuchin_feedback, checkpoint, dtr):
        assert value.without_seconds <= simulate(scenario, policy.plan(scenario)).seconds
    assert Value.from_dict(json.loads(json.dumps(value.as_dict()))) == value


def test_where_no_engine_is_as_fast_as_the_link_none_gains() -> None:
    point = Point.usual(
        "alexnet", device="h100", link="nvlink4", codec="zvc", room=0.5, batch=8, evaluations=50
    )
    value = evaluate(point)
    assert value.engine is None
    assert value.gain == 0


def test_dense_values_gain_nothing_by_zvc() -> None:
    value = evaluate(
        Point.usual(
            "gpt2",
            device="titanxp",
            link="pcie3x16",
            codec="zvc",
            room=0.1,
            batch=1,
            evaluations=50,
        )
    )
    assert value.mean_density == 1
    # A copy that takes longer leaves computation a little more of the memory's bandwidth.
    assert 0 <= value.gain < 1e-3


def test_a_device_and_a_link_of_one_s_own_are_kept_with_the_value() -> None:
    titan = replace(device("titanxp"), name="mine", efficiency_error={"conv": 0.1})
    own = replace(link("pcie3x16"), name="cable", bytes_per_s=8e9, in_bytes_per_s=8e9)
    point = Point.usual(
        "alexnet", device=titan, link=own, codec="zvc", room=0.5, batch=8, evaluations=50
    )
    assert (point.device, point.link) == ("mine", "cable")
    scenario = point.scenario()
    assert (scenario.device, scenario.link) == (titan, own)
    value = evaluate(point)
    assert value.link_bytes_per_s == 0.8 * 8e9
    assert Value.from_dict(json.loads(json.dumps(value.as_dict()))) == value
