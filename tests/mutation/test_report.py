"""The page of results: what is counted in which column, and what people found out."""

from tests.lib.paths import ROOT
from tests.mutation.__main__ import ROOMS
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.operators import mutations
from tests.mutation.report import REASONS, page, reasons
from tests.mutation.run import Verdict


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
    lines = page(results, known, {killed.name, survived.name, "not judged"}).splitlines()
    assert "Judged are 2 of the 3 mutants that are drawn of all rooms." in lines
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
