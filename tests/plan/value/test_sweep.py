"""Sweeps of points: each one file, computed once, whoever asks."""

import json
from dataclasses import replace

import pytest

from cdma.plan.platform.link import LinkError
from cdma.plan.policies import capuchin
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.memory import least_memory
from cdma.plan.timeline.timeline import simulate
from cdma.plan.value import sweep as module
from cdma.plan.value.point import Point, Value, evaluate
from cdma.plan.value.sweep import grid, share, stored, sweep, values
from cdma.plan.workload.layers import GraphError

STEP = {"batch": 32, "evaluations": 200}


def _points(**more: object) -> tuple[Point, ...]:
    links = ("pcie3x16/4", "pcie3x16")
    return grid(["alexnet"], ["titanxp"], links, [0.0, 0.5], ["zvc"], **{**STEP, **more})


def test_a_grid_has_every_combination_once_at_the_networks_usual_step() -> None:
    points = grid(["alexnet", "gpt2"], ["titanxp", "h100"], ["pcie3x16"], [0.0], ["zvc"])
    assert len(set(points)) == 4
    assert {(p.network, p.dataset, p.batch, p.precision) for p in points} == {
        ("alexnet", "imagenet", 256, "fp32"),
        ("gpt2", "text", 16, "bf16"),
    }


def test_shards_are_all_points_and_none_twice() -> None:
    points = grid(["alexnet"], ["titanxp"], ["pcie3x16"], [i / 10 for i in range(11)], ["zvc"])
    parts = [share(points, part, 4) for part in (1, 2, 3, 4)]
    assert sorted((p for part in parts for p in part), key=points.index) == list(points)
    assert {len(part) for part in parts} == {2, 3}
    with pytest.raises(ScheduleError, match="shard must be 1/4 to 4/4, not 5/4"):
        share(points, 5, 4)


def test_a_point_is_computed_once_and_a_half_done_sweep_goes_on(tmp_path, monkeypatch) -> None:
    points = _points()
    sweep(share(points, 1, 2), tmp_path, jobs=1)
    assert len(list(tmp_path.iterdir())) == 2
    assert [value.point for value in values(points, tmp_path)] == list(share(points, 1, 2))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    sweep(points, tmp_path, jobs=1)
    assert [value.point for value in values(points, tmp_path)] == list(points)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    monkeypatch.setattr(module, "evaluate", None)
    sweep(points, tmp_path, jobs=1)
    # Nothing is left beside the points' own files.
    assert len(list(tmp_path.iterdir())) == len(points)


def test_what_cannot_be_read_is_computed_again(tmp_path) -> None:
    (point,) = _points()[:1]
    sweep([point], tmp_path, jobs=1)
    (path,) = tmp_path.iterdir()
    value = stored(point, tmp_path)
    content = json.loads(path.read_text())
    damaged = [
        "",
        "{}",
        json.dumps({**content, "point": {**content["point"], "seed": 5}}),
        json.dumps({**content, "more": 1}),
    ]
    for text in damaged:
        path.write_text(text)
        assert stored(point, tmp_path) is None
    sweep([point], tmp_path, jobs=1)
    assert stored(point, tmp_path) == value


def test_other_sources_are_other_points(tmp_path, monkeypatch) -> None:
    (point,) = _points()[:1]
    sweep([point], tmp_path, jobs=1)
    assert stored(point, tmp_path) is not None
    assert stored(replace(point, seed=1), tmp_path) is None
    monkeypatch.setattr(module, "_sources", lambda: "changed")
    assert stored(point, tmp_path) is None


def test_unknown_names_are_refused_before_anything_is_computed(tmp_path) -> None:
    with pytest.raises(LinkError, match="unknown link 'pcie9'"):
        sweep(grid(["alexnet"], ["titanxp"], ["pcie3x16", "pcie9"], [0.0], ["zvc"]), tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ScheduleError, match=r"unknown codec 'lz4' of an engine; choose from .*zvc"):
        grid(["alexnet"], ["titanxp"], ["pcie3x16"], [0.0], ["lz4"])
    with pytest.raises(ScheduleError, match="room must be 0 to 1, not 2"):
        grid(["alexnet"], ["titanxp"], ["pcie3x16"], [2.0], ["zvc"])
    with pytest.raises(GraphError, match="unknown network 'vgg20'"):
        grid(["vgg20"], ["titanxp"], ["pcie3x16"], [0.0], ["zvc"])


def test_two_processes_compute_what_one_does(tmp_path) -> None:
    points = _points()[:2]
    for jobs in (1, 2):
        sweep(points, tmp_path / str(jobs), jobs=jobs)
    one, two = (list(values(points, tmp_path / str(jobs))) for jobs in (1, 2))
    assert one == two


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
    alone = simulate(scenario, capuchin.plan(scenario))
    assert value.without_seconds <= alone.seconds
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
