"""The value map's points: every combination, at each network's usual step."""

import pytest

from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.value.grid import grid
from cdma.plan.workload.layers import GraphError


def test_a_grid_has_every_combination_once_at_the_networks_usual_step() -> None:
    points = grid(["alexnet", "gpt2"], ["titanxp", "h100"], ["pcie3x16"], [0.0], ["zvc"])
    assert len(set(points)) == 4
    assert {(p.network, p.dataset, p.batch, p.precision) for p in points} == {
        ("alexnet", "imagenet", 256, "fp32"),
        ("gpt2", "text", 16, "bf16"),
    }


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r"unknown codec 'lz4' of an engine; choose from .*zvc"):
        grid(["alexnet"], ["titanxp"], ["pcie3x16"], [0.0], ["lz4"])
    with pytest.raises(ScheduleError, match="room must be 0 to 1, not 2"):
        grid(["alexnet"], ["titanxp"], ["pcie3x16"], [2.0], ["zvc"])
    with pytest.raises(GraphError, match="unknown network 'vgg20'"):
        grid(["vgg20"], ["titanxp"], ["pcie3x16"], [0.0], ["zvc"])
