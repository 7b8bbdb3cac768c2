"""HTML in notebooks: the objects' figures are in it, and texts stay texts."""

import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from cdma.builds.displays import facts, table
from cdma.hw.config import PRESETS, EngineConfig
from cdma.plan.engine_cost import NetworkEstimate, Setup
from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies.comparison import Comparison, compare
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.sim.swap import Loss, RoundTrip, SwapRun

EVIL = "<script>alert(1)</script>&"


class Shown(HTMLParser):
    """The cells of an object's HTML, and its other elements."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: list[str] = []
        self._in_cell = False
        self.feed(value if isinstance(value, str) else value._repr_html_())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._in_cell = tag in ("td", "caption")
        if self._in_cell:
            self.cells.append("")

    def handle_endtag(self, tag):
        self._in_cell = False

    def handle_data(self, data):
        if self._in_cell:
            self.cells[-1] += data


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return Scenario(
        graph=density.apply(Graph.from_table("alexnet")),
        device=device("titanxp"),
        link=link("pcie3x16"),
        memory_bytes=22 * 10**8,
    )


@pytest.fixture(scope="module")
def comparison(scenario) -> Comparison:
    return compare(scenario, ("vdnn", "cdma", "vdnn-conv"), effort="none")


def test_texts_are_escaped():
    for html in (table(EVIL, [EVIL], [[EVIL]]), facts(EVIL, {EVIL: EVIL})):
        assert "script" not in Shown(html).tags
        assert EVIL in Shown(html).cells


def test_an_engine_shows_its_fields():
    cells = Shown(PRESETS["titanx_gen3"]).cells
    pairs = dict(zip(cells[1::2], cells[2::2], strict=True))
    assert cells[0] == "EngineConfig"
    assert pairs["units"] == "6"
    assert pairs["buffer_bytes"] == "71,680"
    assert pairs["codec.codecs"] == "zvc, raw"
    assert set(pairs) > {field for field in EngineConfig.__dataclass_fields__ if field != "codec"}


def test_a_run_shows_its_arrays():
    one = RoundTrip(
        name=EVIL,
        dtype="float32",
        shape=(32,),
        nbytes=128,
        nonzero=4,
        element_bytes=4,
        codec="zvc",
        parameters={},
        compressed_bytes=64,
        cycles_out=1234,
        cycles_in=99,
        crc32=0,
        faults=(),
        baseline_bytes={},
        engine=None,
    )
    wrong = replace(one, name="b", faults=("word 3",), compressed_bytes=0)
    loss = Loss(bound=0.25, largest_error=0.2, exact_values=0, not_finite_values=0)
    cells = Shown(SwapRun((one, replace(one, loss=loss), wrong), None)).cells
    assert cells[1:8] == [EVIL, "128", "64", "2.00×", "1,234", "99", "exact"]
    assert cells[14] == "within 0.25"
    assert cells[-1] == "WRONG"


def test_an_estimate_shows_its_tensors(scenario):
    estimate = NetworkEstimate.of(scenario.graph, Setup.named("titanx_gen3"))
    cells = Shown(estimate).cells
    first = estimate.tensors[0]
    assert cells[1] == first.name
    assert cells[5] == f"{1e3 * first.offload.seconds:,.3f}"
    assert len(cells) == 1 + 8 * len(estimate.tensors)


def test_a_comparison_shows_its_policies(comparison):
    cells = Shown(comparison).cells
    assert cells[1::5] == ["vdnn", "cdma", "vdnn-conv"]
    assert cells[2] == f"{1e3 * comparison.results['vdnn'].trace.seconds:,.1f}"
    assert cells[12] == "no room"


def test_a_result_shows_plan_figures_and_picture(comparison):
    shown = Shown(comparison.results["cdma"])
    assert "Plan of cdma" in shown.cells
    assert "swap zvc" in shown.cells
    assert "Step under cdma" in shown.cells
    assert f"{1e3 * comparison.results['cdma'].trace.seconds:,.1f} ms" in shown.cells
    assert shown.tags.count("img") == 1


def test_what_does_not_fit_has_no_picture(comparison):
    shown = Shown(comparison.results["vdnn-conv"])
    assert "no room" in shown.cells
    assert "img" not in shown.tags


def test_without_matplotlib_there_is_no_picture(comparison, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    shown = Shown(comparison.results["cdma"].trace)
    assert "Step under cdma" in shown.cells
    assert "img" not in shown.tags
