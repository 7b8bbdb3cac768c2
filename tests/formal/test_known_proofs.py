"""A proof that was found is not run again, for the same RTL, properties, depths and tools.

Neither is the search for a fault that is planted, once it has been found.
"""

import re

import pytest
from amaranth.hdl import Module, Signal

from tests.formal import smtbmc
from tests.formal.bench import Bench
from tests.formal.smtbmc import ProofError, RefutedError, UndecidedError, check, prove


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(smtbmc, "PROOF_RESULTS", [])


@pytest.fixture
def decided(monkeypatch):
    """Counts how often solvers would be asked; what they would say is for `test_harness.py`."""
    runs = []
    monkeypatch.setattr(smtbmc, "_decide", lambda *arguments: runs.append(1))
    return runs


def counter(limit: int, claim: int) -> Bench:
    bench = Bench()
    count = Signal(4)
    bench.m.d.sync += count.eq(count + 1)
    with bench.m.If(count == limit):
        bench.m.d.sync += count.eq(0)
    bench.require(count <= claim)
    bench.cover(count == 1)
    return bench


def test_the_same_proof_is_known(tmp_path, decided):
    prove(counter(9, 9), tmp_path, depth=2, cover_depth=2)
    prove(counter(9, 9), tmp_path, depth=2, cover_depth=2)
    assert len(decided) == 1
    assert [result.known for result in smtbmc.PROOF_RESULTS] == [False, True]


@pytest.mark.parametrize("change", ["rtl", "property", "depth", "cover depth", "mode", "tools"])
def test_another_proof_is_not(change, tmp_path, decided, monkeypatch):
    prove(counter(9, 9), tmp_path, depth=2, cover_depth=2)
    if change == "tools":
        monkeypatch.setattr(smtbmc, "version", lambda package: "another")
    bench = counter(8 if change == "rtl" else 9, 10 if change == "property" else 9)
    if change == "mode":
        check(bench, tmp_path, depth=2, cover_depth=2)
    else:
        prove(
            bench,
            tmp_path,
            depth=3 if change == "depth" else 2,
            cover_depth=3 if change == "cover depth" else 2,
        )
    assert len(decided) == 2
    assert not any(result.known for result in smtbmc.PROOF_RESULTS)


def test_where_there_is_no_cover_none_is_looked_for(tmp_path, decided):
    bench = Bench()
    bench.require(Signal() == 0)
    prove(bench, tmp_path, depth=2, cover_depth=2)
    prove(counter(9, 9), tmp_path, depth=2, cover_depth=2)
    depths = [result.depths for result in smtbmc.PROOF_RESULTS]
    assert depths == [{"prove": 2}, {"prove": 2, "cover": 2}]


def test_what_failed_is_run_again(tmp_path, decided, monkeypatch):
    def fail(*arguments):
        decided.append(1)
        raise ProofError("bmc to depth 8: FAIL")

    monkeypatch.setattr(smtbmc, "_decide", fail)
    for _ in range(2):
        with pytest.raises(ProofError, match="bmc to depth 8: FAIL"):
            check(counter(9, 5), tmp_path, depth=8, cover_depth=2)
    assert len(decided) == 2
    assert smtbmc.PROOF_RESULTS == []


@pytest.fixture
def refuted(monkeypatch):
    """Counts how often solvers would be asked; a counterexample is what they would say."""
    runs = []

    def refute(tools, folder, depths, timeout_s):
        runs.append(1)
        raise RefutedError(f"bmc to depth 8: FAIL\nAssert failed in top\ntraces in {folder}")

    monkeypatch.setattr(smtbmc, "_decide", refute)
    return runs


def test_a_planted_fault_that_was_found_is_told_again(tmp_path, refuted):
    for _ in range(2):
        with pytest.raises(RefutedError, match="bmc to depth 8: FAIL\nAssert failed in top"):
            check(counter(9, 5), tmp_path, depth=8, planted=True)
    assert len(refuted) == 1
    assert smtbmc.PROOF_RESULTS == []
    # Where no fault is planted it is looked for again, with its trace.
    with pytest.raises(RefutedError, match=re.escape(str(tmp_path))):
        check(counter(9, 5), tmp_path, depth=8)
    assert len(refuted) == 2


@pytest.mark.parametrize("change", ["rtl", "property", "depth", "tools"])
def test_another_fault_is_not_known(change, tmp_path, refuted, monkeypatch):
    with pytest.raises(RefutedError):
        check(counter(9, 5), tmp_path, depth=8, planted=True)
    if change == "tools":
        monkeypatch.setattr(smtbmc, "version", lambda package: "another")
    bench = counter(8 if change == "rtl" else 9, 6 if change == "property" else 5)
    with pytest.raises(RefutedError):
        check(
            bench,
            tmp_path,
            depth=9 if change == "depth" else 8,
            planted=True,
        )
    assert len(refuted) == 2


@pytest.mark.parametrize("error", [ProofError, UndecidedError])
def test_what_has_no_counterexample_is_not_known(error, tmp_path, monkeypatch):
    runs = []

    def fail(*arguments):
        runs.append(1)
        raise error("bmc to depth 8: TIMEOUT")

    monkeypatch.setattr(smtbmc, "_decide", fail)
    for _ in range(2):
        with pytest.raises(error):
            check(counter(9, 5), tmp_path, depth=8, planted=True)
    assert len(runs) == 2


def test_a_fault_that_is_gone_is_proven(tmp_path, refuted, monkeypatch):
    with pytest.raises(RefutedError):
        check(counter(9, 5), tmp_path, depth=8, planted=True)
    monkeypatch.setattr(smtbmc, "_decide", lambda *arguments: None)
    check(counter(9, 9), tmp_path, depth=8, planted=True)
    assert len(smtbmc.PROOF_RESULTS) == 1


def test_where_a_line_stands_is_no_part_of_it():
    first = Module()
    first.d.comb += Signal(name="a").eq(Signal(name="b"))
    second = Module()

    second.d.comb += Signal(name="a").eq(Signal(name="b"))
    texts = [smtbmc.rtlil.convert(module, name="top", ports=[]) for module in (first, second)]
    assert texts[0] != texts[1]
    assert smtbmc._without_places(texts[0]) == smtbmc._without_places(texts[1])
