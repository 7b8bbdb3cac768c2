"""Sweeps on this machine: each point once, whatever happens to the others."""

from dataclasses import replace

import pytest

from cdma.errors import UserError
from cdma.sweep import point as point_module
from cdma.sweep.backends import LocalProcesses
from cdma.sweep.point import Evaluation, file_digest
from cdma.sweep.run import compute, share
from cdma.sweep.sources import sources
from cdma.sweep.store import Store
from tests.cdma.sweep.work import break_down, die, point, refuse, square

ONE = LocalProcesses(jobs=1)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path, ("builds",))


class NoBackend:
    """A backend that must not be asked."""

    def outcomes(self, function, points):
        raise AssertionError("asked")


class Telling:
    """A backend that tells which points it was given, and computes them."""

    def __init__(self, told):
        self.told = told

    def outcomes(self, function, points):
        self.told += [point.name for point in points]
        return map(function, points)


def test_shards_are_all_points_and_none_twice():
    parts = [share(range(11), part, 4) for part in (1, 2, 3, 4)]
    assert sorted(each for part in parts for each in part) == list(range(11))
    assert {len(part) for part in parts} == {2, 3}
    with pytest.raises(UserError, match="shard must be 1/4 to 4/4, not 5/4"):
        share(range(11), 5, 4)


def test_a_point_is_computed_once_and_a_half_done_sweep_goes_on(store):
    points = [point(number) for number in range(4)]
    assert compute(share(points, 1, 2), store, ONE) == []
    before = {path: path.stat().st_mtime_ns for path in store.folder.iterdir()}
    assert len(before) == 2
    assert compute(points, store, ONE) == []
    assert [store.read(each) for each in points] == [{"square": n * n} for n in range(4)]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert compute(points, store, NoBackend()) == []
    # Nothing is left beside the points' own files.
    assert len(list(store.folder.iterdir())) == len(points)


def test_a_point_that_is_asked_for_twice_is_computed_once(store):
    told = []
    assert compute([point(2), point(2)], store, Telling(told)) == []
    assert told == ["of 2"]


def test_two_processes_compute_what_one_does(tmp_path):
    points = [point(number) for number in range(5)]
    kept = []
    for jobs in (1, 2):
        store = Store(tmp_path / str(jobs), ("builds",))
        assert compute(points, store, LocalProcesses(jobs=jobs)) == []
        kept.append([store.read(each) for each in points])
    assert kept[0] == kept[1]


def test_points_that_fail_are_told_and_the_others_are_kept(store):
    points = [point(0), point(1, refuse), point(2), point(3, break_down), point(4)]
    failed = compute(points, store, ONE)
    assert [outcome.point.name for outcome in failed] == ["of 1", "of 3"]
    # An error that is the user's is one line, a bug has its traceback.
    assert failed[0].error == "1 is refused; name another"
    assert failed[1].error.startswith("Traceback")
    assert failed[1].error.endswith("ZeroDivisionError: division by zero")
    assert [store.read(each) is not None for each in points] == [True, False, True, False, True]
    # They are tried again.
    assert compute([point(1), *points[2:3]], store, ONE) == []


def test_a_process_that_is_killed_ends_the_sweep_with_one_line(store):
    with pytest.raises(UserError, match=r"a process that computed points was killed.*fewer --jobs"):
        compute([point(1, die), point(2, die)], store, LocalProcesses(jobs=2))


def test_other_sources_than_at_the_start_fail_the_point(store):
    evaluation = Evaluation(rooms=("builds",), sources="others")
    outcome = evaluation(point(3))
    assert outcome.result is None
    assert "the sources or packages of cdma are others than at the sweep's start" in outcome.error


def test_sources_that_change_meanwhile_fail_the_point(monkeypatch):
    found = iter(["same", "changed"])
    monkeypatch.setattr(point_module, "sources", lambda rooms: next(found))
    outcome = Evaluation(rooms=("builds",), sources="same")(point(3))
    assert outcome.result is None
    assert "while the point was computed" in outcome.error


def test_a_file_that_changes_meanwhile_fails_the_point(tmp_path):
    path = tmp_path / "a.npy"
    path.write_text("one")
    evaluation = Evaluation(rooms=("builds",), sources=sources(("builds",)))
    reader = replace(point(3), files=((str(path), file_digest(str(path))),))
    assert evaluation(reader).result == {"square": 9}

    def work():
        path.write_text("two")
        return square(3)

    outcome = evaluation(replace(reader, work=work))
    assert outcome.result is None
    assert outcome.error.startswith(f"{path} is another file than at the sweep's start, while")
    path.unlink()
    assert evaluation(reader).error.startswith(f"cannot read {path}")
