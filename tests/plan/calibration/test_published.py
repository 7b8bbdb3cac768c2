"""Published efficiencies: fits beside a search of the same equation, and what is left declared."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from cdma.plan.calibration.published import (
    MEASURED,
    STEPS,
    missing_kinds,
    published_efficiencies,
    with_published,
)
from cdma.plan.platform.device import DEVICES, device
from cdma.plan.platform.link import link
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import KINDS


def seconds(network: str, batch: int, of) -> float:
    """A step's computation by the planner's scenario."""
    graph = density.apply(Graph.from_table(network, batch), "curve", 0, 90)
    scenario = Scenario(graph=graph, device=of, link=link("pcie3x16"), memory_bytes=10**12)
    return scenario.compute_seconds


@pytest.mark.parametrize("name", STEPS)
def test_fitted_steps_are_as_near_to_the_published_ones_as_they_can_be(name: str) -> None:
    """Against a search that only sees whole steps, by the planner's own timeline."""
    steps = STEPS[name]

    def relative(parts: np.ndarray) -> np.ndarray:
        products, others = parts
        kinds = {kind: products if kind in ("conv", "fc") else others for kind in KINDS}
        of = replace(device(name), efficiency=kinds)
        return np.array(
            [seconds(net, steps.batch, of) / took - 1 for net, took in steps.seconds.items()]
        )

    found = minimize(
        lambda parts: float((relative(parts) ** 2).sum()),
        (0.5, 0.5),
        bounds=((0.05, 1), (0.05, 1)),
        method="Nelder-Mead",
        options={"maxfev": 60},
    )
    products, others = published_efficiencies(name)[:2]
    ours = relative(np.array([products.efficiency, others.efficiency]))
    assert (ours**2).sum() <= found.fun * 1.01 + 1e-5
    assert products.error == others.error == pytest.approx(np.abs(ours).mean(), abs=2e-3)
    # Better than the declared .7, or nobody would need it.
    assert np.abs(ours).mean() < np.abs(relative(np.array([0.7, 0.7]))).mean()


@pytest.mark.parametrize("name", DEVICES)
def test_every_kind_of_every_device_is_published_once_or_missing(name: str) -> None:
    kinds = [kind for row in published_efficiencies(name) for kind in row.kinds]
    assert sorted([*kinds, *missing_kinds(name)]) == sorted(KINDS)
    for row in published_efficiencies(name):
        assert 0 < row.efficiency <= 1
        assert row.source


def test_a_device_has_what_is_published_and_declared_ones_beside() -> None:
    plain, found = device("h100"), with_published(device("h100"))
    assert found.efficiency == {**plain.efficiency, "fc": 794.5 / 989, "attention": 0.35}
    assert found.efficiency_error is None
    assert "arXiv 2407.08608" in found.source
    assert with_published(device("a100")).efficiency_error == {
        "attention": pytest.approx(0.187, abs=1e-3)
    }


def test_products_are_parts_of_the_device_s_own_peak() -> None:
    for row in MEASURED:
        if row.kinds == ("fc",):
            tflops = float(row.what.split(", ", 1)[1].split(" of ")[0])
            assert row.efficiency == pytest.approx(tflops * 1e12 / device(row.device).narrow_flops)


@pytest.mark.parametrize(
    "of", [device("b200"), replace(device("titanx"), peak_flops=1e12)], ids=["none", "own"]
)
def test_a_device_without_is_refused_with_those_that_have(of) -> None:
    with pytest.raises(ScheduleError, match=r"were found; choose from k40, titanx, v100, h100"):
        with_published(of)
