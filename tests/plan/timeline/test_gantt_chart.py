"""The picture of timelines: it is a PNG file, and what happens is in it, in its color."""

import io

import numpy as np
import pytest
from matplotlib import colors, image

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies import oracle, vdnn
from cdma.plan.policies.comet import policy as comet
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.gantt_chart import COLORS, gantt_chart
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.timeline.trace import KINDS
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from tests.lib.legends import colors_of_axes, colors_of_legends, drawn, labels, names_in_legends


@pytest.fixture(scope="module")
def alexnet() -> Scenario:
    return Scenario(
        graph=density.apply(Graph.from_table("alexnet")),
        device=device("titanx"),
        link=link("pcie3x16"),
        memory_bytes=4 * 10**9,
    )


def kinds_in(png: bytes) -> set[str]:
    """Kinds of events whose color has pixels."""
    pixels = image.imread(io.BytesIO(png), format="png")[..., :3]
    return {
        kind
        for kind in KINDS
        if (np.abs(pixels - colors.to_rgb(COLORS[kind])) < 0.01).all(axis=-1).sum() > 20
    }


def test_what_happens_is_drawn_and_nothing_else(alexnet: Scenario) -> None:
    swapped = gantt_chart([simulate(alexnet, vdnn.plan(alexnet))], "alexnet, $12")
    assert kinds_in(swapped) == {"forward", "backward", "offload", "prefetch"}
    trace = simulate(alexnet, comet.plan(alexnet))
    assert kinds_in(gantt_chart([trace])) == {event.kind for event in trace.events}


def test_a_picture_is_the_same_every_time_and_grows_by_policies(alexnet: Scenario) -> None:
    one = [simulate(alexnet, vdnn.plan(alexnet))]
    assert gantt_chart(one) == gantt_chart(one)
    heights = [
        image.imread(io.BytesIO(gantt_chart(one * count)), format="png").shape[0]
        for count in (1, 2)
    ]
    assert heights[1] > 1.5 * heights[0]


def test_without_a_policy_that_fits_there_is_no_picture(alexnet: Scenario) -> None:
    nothing = simulate(with_memory(alexnet, 10**8), oracle.plan(alexnet))
    with pytest.raises(ScheduleError, match="no policy fits into the memory"):
        gantt_chart([nothing])


def test_every_color_is_in_the_legend(alexnet: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = drawn(monkeypatch, "cdma.plan.timeline.gantt_chart")
    trace = simulate(alexnet, comet.plan(alexnet))
    gantt_chart([trace])
    (figure,) = figures
    assert len(colors_of_axes(figure)) > 4
    assert colors_of_axes(figure) <= colors_of_legends(figure)
    kinds = {event.kind for event in trace.events}
    shown = [kind for kind in KINDS if kind in kinds]
    assert names_in_legends(figure) == [*shown, "memory reserved", "memory limit"]
    assert labels(figure) == ["time since the step began, ms", "memory, GB"]


@pytest.mark.parametrize(("file_format", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF-")])
def test_other_formats(alexnet: Scenario, file_format: str, start: bytes) -> None:
    traces = [simulate(alexnet, vdnn.plan(alexnet))]
    assert gantt_chart(traces, file_format=file_format).startswith(start)
