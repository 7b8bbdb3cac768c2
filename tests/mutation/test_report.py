"""The page of results: what is counted in which column, and what people found out."""

from tests.lib.paths import ROOT
from tests.mutation.__main__ import ROOMS
from tests.mutation.ledger import LEDGER, Record, Verdict, read, write
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.operators import mutations
from tests.mutation.report import OUTCOMES, REASONS, page, reasons


def test_rates_leave_out_what_is_equivalent_and_count_what_is_open():
    faults = list(mutations("x = a < b\ny = a & b\nz = a | b\nu = not a\nv = 1\nw = -1\n"))
    found = [Mutant("hw/lib/one.py", 0, fault) for fault in faults]
    killed, equivalent, survived, still_open, unbuilt, undecided = found
    results = [
        (killed, Verdict("killed", "tests/hw/lib/test_one.py::test_one")),
        (equivalent, Verdict("survived")),
        (survived, Verdict("survived")),
        (still_open, Verdict("open")),
        (unbuilt, Verdict("unbuilt")),
        (undecided, Verdict("undecided", "", "its tests take more than 9 s")),
        (Mutant("golden/formats/two.py", 0, faults[0]), Verdict("killed")),
    ]
    known = {equivalent.name: {"equivalent": True, "reason": "It is the same."}}
    draw = {killed.name, survived.name, "not judged"}
    lines = page(results, known, draw, [survived.name]).splitlines()
    assert (
        "Judged are 2 of the 3 mutants that are drawn of all rooms; of 1, sources have changed "
        "since." in lines
    )
    assert "| `golden/formats` | 1 | 0 | 0 | 1 | 0 | 0 | 0 | 100.0% |" in lines
    assert "| `hw/lib` | 6 | 1 | 0 | 1 | 2 | 1 | 1 | 25.0% |" in lines
    assert "| all | 7 | 1 | 0 | 2 | 2 | 1 | 1 | 40.0% |" in lines
    named = [line.split(" | ") for line in lines if "one.py" in line]
    assert [(name[2:], said[:-2]) for name, *_, said in named] == [
        (equivalent.name, "equivalent: It is the same."),
        (survived.name, "survived"),
        (still_open.name, "open"),
        (undecided.name, "its tests take more than 9 s"),
    ]


def test_survivors_that_people_looked_at_are_mutants_of_these_sources():
    known = reasons(REASONS)
    assert known.keys() <= {mutant.name for mutant in mutants(ROOT, ROOMS)}
    assert all(one["reason"] for one in known.values())


def test_a_ledger_is_read_as_it_was_written(tmp_path):
    kept = {
        "b": Record(Verdict("killed", "tests/a.py::test_a", 'KeyError: "x"'), "abc"),
        "a": Record(Verdict("open"), "def"),
    }
    write(tmp_path / "ledger.json", kept)
    assert read(tmp_path / "ledger.json") == kept
    assert [line[:4] for line in (tmp_path / "ledger.json").read_text().splitlines()] == [
        "{",
        '"a":',
        '"b":',
        "}",
    ]
    assert read(tmp_path / "none.json") == {}


def test_the_ledger_can_be_read_and_has_mutants_of_these_sources():
    kept = read(LEDGER)
    assert {record.verdict.outcome for record in kept.values()} <= {*OUTCOMES}
    # An edit may leave some without a mutant; the next run that writes drops these.
    assert kept.keys() & {mutant.name for mutant in mutants(ROOT, ROOMS)}
