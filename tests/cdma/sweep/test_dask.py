"""Sweeps on a real Dask cluster on the loopback, one of whose workers is killed."""

import json
import threading
from contextlib import ExitStack

import pytest

from cdma.cli import main
from cdma.errors import UserError
from cdma.sweep.backends import DaskCluster, LocalProcesses
from cdma.sweep.run import compute
from cdma.sweep.store import Store
from tests.cdma.sweep.work import LONGEST_S, break_down, die, point, refuse, square_later
from tests.lib.processes import until
from tests.lib.requirements import DASK, require

NUMBERS = range(6)


@pytest.fixture
def clusters(tmp_path_factory):
    """The function that starts a cluster."""
    require(DASK)
    from tests.cdma.sweep.cluster import cluster

    with ExitStack() as running:
        yield lambda *arguments: running.enter_context(
            cluster(tmp_path_factory.mktemp("cluster"), *arguments)
        )


@pytest.fixture
def cluster(clusters):
    return clusters(2)


def begun(folder):
    """The points that are or were worked at: by process, their numbers."""
    found = {}
    for path in folder.glob("*-*"):
        number, pid = map(int, path.name.split("-"))
        found.setdefault(pid, set()).add(number)
    return found


def test_a_worker_that_is_killed_in_a_point_costs_nothing_but_time(tmp_path, cluster):
    work = tmp_path / "work"
    work.mkdir()
    lost = {}

    def kill_in_the_middle():
        # The victim is in a point, and no point is done.
        until(lambda: begun(work), "nobody works", within_s=LONGEST_S)
        victim = next(each for each in cluster.workers if each.pid in begun(work))
        lost.update({victim: begun(work)[victim.pid]})
        victim.kill()
        victim.wait()
        (work / "go").touch()

    killer = threading.Thread(target=kill_in_the_middle, daemon=True)
    killer.start()
    store = Store(tmp_path / "dask", ("builds",))
    later = [point(number, square_later, folder=work) for number in NUMBERS]
    assert compute(later, store, DaskCluster(scheduler=cluster.address)) == []
    killer.join()
    ((victim, numbers),) = lost.items()
    assert len(numbers) == 1
    # The survivor has computed everything, the lost point a second time.
    (survivor,) = (each for each in cluster.workers if each is not victim)
    assert begun(work)[survivor.pid] == set(NUMBERS)
    local = Store(tmp_path / "local", ("builds",))
    assert compute([point(number) for number in NUMBERS], local, LocalProcesses(jobs=1)) == []
    names = sorted(path.name for path in local.folder.iterdir())
    assert sorted(path.name for path in store.folder.iterdir()) == names
    for name in names:
        assert (store.folder / name).read_bytes() == (local.folder / name).read_bytes()


@pytest.mark.verify
def test_points_that_fail_on_the_cluster_are_told_and_the_others_are_kept(tmp_path, cluster):
    store = Store(tmp_path, ("builds",))
    points = [point(0), point(1, refuse), point(2, break_down), point(3)]
    failed = compute(points, store, DaskCluster(scheduler=cluster.address))
    assert [outcome.point.name for outcome in failed] == ["of 1", "of 2"]
    assert failed[0].error == "1 is refused; name another"
    assert failed[1].error.endswith("ZeroDivisionError: division by zero")
    assert [store.read(each) is not None for each in points] == [True, False, False, True]


@pytest.mark.verify
def test_a_worker_with_other_sources_computes_nothing(tmp_path, cluster):
    store = Store(tmp_path, ("builds",))
    store.sources = "others"
    (failed,) = compute([point(1)], store, DaskCluster(scheduler=cluster.address))
    assert "the sources or packages of cdma are others" in failed.error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.verify
def test_the_table_is_the_same_as_without_a_cluster(tmp_path, capsys, cluster, monkeypatch):
    """`cdma sweep`, a worker of which is killed when the first point is there."""
    monkeypatch.chdir(tmp_path)
    sweep = ("estimate", "--network", "alexnet", "--link", "pcie3x16,pcie4x16,pcie5x16")
    folder = tmp_path / "dask"
    there = []

    def kill_in_the_middle():
        until(lambda: list(folder.glob("*.json")), "nothing is kept", within_s=LONGEST_S)
        cluster.workers[0].kill()
        cluster.workers[0].wait()
        there.extend(folder.glob("*.json"))

    killer = threading.Thread(target=kill_in_the_middle, daemon=True)
    killer.start()
    where = ("--backend", "dask", "--scheduler", cluster.address)
    assert main(["sweep", "--results", "dask", *where, "--csv", *sweep]) == 0
    killer.join()
    table = capsys.readouterr().out
    assert 1 <= len(there) < 3
    assert main(["sweep", "--results", "local", "--jobs", "1", "--csv", *sweep]) == 0
    assert capsys.readouterr().out == table
    assert table.count("\n") == 1 + 3
    # A third run, with everything there, asks no cluster.
    cluster.workers[1].kill()
    assert main(["sweep", "--results", "dask", *where, "--json", *sweep]) == 0
    assert json.loads(capsys.readouterr().out)["computed"] == 3


@pytest.mark.verify
def test_files_on_the_line_are_found_by_workers_elsewhere(tmp_path, capsys, cluster, monkeypatch):
    monkeypatch.chdir(tmp_path)
    densities = {"relu": 0.25}
    (tmp_path / "flat.json").write_text(json.dumps(densities))
    where = ("--backend", "dask", "--scheduler", cluster.address, "--results", "points")
    sweep = ("estimate", "--network", "alexnet", "--density", "flat.json")
    status = main(["sweep", *where, "--json", *sweep])
    report = capsys.readouterr()
    assert status == 0, report.err


@pytest.mark.verify
def test_a_point_that_kills_its_workers_fails_alone(tmp_path, clusters):
    """With the cluster's limit at one worker, so that another one is left."""
    cluster = clusters(2, {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"})
    store = Store(tmp_path, ("builds",))
    (failed,) = compute([point(1, die)], store, DaskCluster(scheduler=cluster.address))
    assert failed.error.startswith("lost by the cluster: ")
    assert compute([point(2)], store, DaskCluster(scheduler=cluster.address)) == []


def test_a_cluster_without_workers_is_told(tmp_path, clusters):
    store, address = Store(tmp_path, ("builds",)), clusters(0).address
    with pytest.raises(UserError, match=f"scheduler at {address} has no workers; start some"):
        compute([point(1)], store, DaskCluster(scheduler=address))


def test_no_scheduler_is_told(tmp_path, monkeypatch):
    require(DASK)
    monkeypatch.setattr("cdma.sweep.backends.CONNECT_S", 0.5)
    store = Store(tmp_path, ("builds",))
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(UserError, match=f"no Dask scheduler answers at {address}; start one"):
            compute([point(1)], store, DaskCluster(scheduler=address))
