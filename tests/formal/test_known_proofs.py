"""A proof that was found is not run again, for the same RTL, properties, depths and tools."""

import pytest
from amaranth.hdl import Module, Signal

from tests.formal import sby
from tests.formal.bench import Bench
from tests.formal.sby import ProofError, check, prove


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sby, "VERDICTS", [])


@pytest.fixture
def decided(monkeypatch):
    """Counts how often SBY would be asked; what it would say is for `test_harness.py`."""
    runs = []
    monkeypatch.setattr(sby, "_decide", lambda *arguments: runs.append(1))
    return runs


def counter(limit: int, claim: int) -> Bench:
    bench = Bench()
    count = Signal(4)
    bench.m.d.sync += count.eq(count + 1)
    with bench.m.If(count == limit):
        bench.m.d.sync += count.eq(0)
    bench.require(count <= claim)
    return bench


def test_the_same_proof_is_known(tmp_path, decided):
    prove(counter(9, 9), tmp_path, depth=2, cover_depth=2)
    prove(counter(9, 9), tmp_path, depth=2, cover_depth=2)
    assert len(decided) == 1
    assert [verdict.known for verdict in sby.VERDICTS] == [False, True]


@pytest.mark.parametrize("change", ["rtl", "property", "depth", "cover depth", "mode", "tools"])
def test_another_proof_is_not(change, tmp_path, decided, monkeypatch):
    prove(counter(9, 9), tmp_path, depth=2, cover_depth=2)
    if change == "tools":
        monkeypatch.setattr(sby, "version", lambda package: "another")
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
    assert not any(verdict.known for verdict in sby.VERDICTS)


def test_what_failed_is_run_again(tmp_path, decided, monkeypatch):
    def fail(*arguments):
        decided.append(1)
        raise ProofError("bmc to depth 8: FAIL")

    monkeypatch.setattr(sby, "_decide", fail)
    for _ in range(2):
        with pytest.raises(ProofError, match="bmc to depth 8: FAIL"):
            check(counter(9, 5), tmp_path, depth=8, cover_depth=2)
    assert len(decided) == 2
    assert sby.VERDICTS == []


def test_where_a_line_stands_is_no_part_of_it():
    first = Module()
    first.d.comb += Signal(name="a").eq(Signal(name="b"))
    second = Module()

    second.d.comb += Signal(name="a").eq(Signal(name="b"))
    texts = [sby.rtlil.convert(module, name="top", ports=[]) for module in (first, second)]
    assert texts[0] != texts[1]
    assert sby._without_places(texts[0]) == sby._without_places(texts[1])
