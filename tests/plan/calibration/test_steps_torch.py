"""Steps of whole networks that GPUs were timed with: what the page says of them is what is planned.

The times are a GPU's and stay as they were taken; what is planned beside them is planned again.
"""

import re
from functools import cache

import pytest

from cdma.plan.platform.device import device
from cdma.plan.workload.graph import Graph
from tests.lib.paths import ROOT

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

PAGE = ROOT / "docs/guide/plan/calibrate.md"
ROW = re.compile(r"^\| (H\d00) \| `(\w+)` \| (fp32|autocast) \| (.+) \|$", re.MULTILINE)
ROWS = [found.groups() for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))]


@cache
def _graph(name: str, precision: str) -> Graph:
    from tests.plan.calibration import torch_steps

    subject = getattr(torch_steps, name)()
    casts = None if precision == "fp32" else torch.bfloat16
    return Graph.from_module(subject.module, subject.example, target="gpu", autocast=casts)


def _milliseconds(name: str, graph: Graph) -> float:
    found = device(name)
    return 1e3 * sum(
        max(found.layer_seconds(layer, backward=backward))
        for layer in graph.layers
        for backward in (False, True)
    )


@pytest.mark.verify
@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row[:3]))
def test_the_page_has_what_is_planned_beside_what_was_timed(row: tuple[str, ...]) -> None:
    gpu, name, precision, cells = row
    numbers = [float(re.sub(r"[,%+ ]", "", cell)) for cell in cells.split("|")]
    timed, calibrated, off, declared, declared_off, saved, more = numbers
    graph = _graph(name, precision)
    for owner, shown, error in (
        (f"{gpu.lower()}-calibrated", calibrated, off),
        (gpu.lower(), declared, declared_off),
    ):
        planned = _milliseconds(owner, graph)
        assert shown == pytest.approx(planned, abs=0.06)
        assert error == pytest.approx(100 * (timed / planned - 1), abs=0.9)
    assert graph.saved_bytes == saved + more


def test_both_gpus_have_all_steps_in_both_precisions() -> None:
    assert len(ROWS) == len({row[:3] for row in ROWS}) == 2 * 4 * 2


def test_calibrated_times_are_nearer_than_declared_ones() -> None:
    errors = []
    for *_, cells in ROWS:
        numbers = [float(re.sub(r"[,%+ ]", "", cell)) for cell in cells.split("|")]
        timed, calibrated, _, declared, *_ = numbers
        errors.append((abs(timed / calibrated - 1), abs(timed / declared - 1)))
    ours, theirs = zip(*errors, strict=True)
    assert max(ours) < 0.6
    assert sum(ours) < sum(theirs) / 3
