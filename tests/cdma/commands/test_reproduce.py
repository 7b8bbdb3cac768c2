"""`cdma reproduce`."""

import json

import pytest

import cdma.commands.reproduce.command as command
from cdma.cli import main
from cdma.plan.papers import Figure, Printed, Quote
from cdma.reproduce import PAPERS, Kind, Measured, Paper


def _toys(*, holds: bool) -> Paper:
    figures = {
        "sum": Figure(shown="3", quotes=(Quote(7, "1 + 1 = 3"),)),
        "wheels": Figure(shown="4"),
        "more": Figure(shown="yes"),
        "hours": Figure(shown="yes"),
        "speed": Figure(shown="fast"),
    }
    made = Paper("toy", "Toys [of wood]", Printed(tables={}, figures=figures))

    @made.exact("§1", "one and one [sic]", kind=Kind.ARITHMETIC, slip=True)
    def _sum() -> Measured:
        return Measured("[1, 1]: 2", True)

    @made.exact("§1", "wheels of a car", kind=Kind.CONSTANT)
    def _wheels() -> Measured:
        return Measured("4", True)

    @made.shape("§2", "more is more", under="no friction")
    def _more() -> Measured:
        return Measured("much", holds)

    made.shape("§2", "for hours", under="no friction", name="hours", long=True)(_more)
    made.not_claimable("speed", "§3", "speed", needs="a GPU")
    return made


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "paper_of", lambda _name: _toys(holds=True))


@pytest.mark.verify
def test_a_real_paper_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "buddy", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["failures"] == []
    assert len(report["claims"]) == len(PAPERS["buddy"].claims) == sum(report["verdicts"].values())
    assert list(report["kinds"]) == ["mechanism", "constant", "arithmetic", "quoted"]
    by_kind = [sum(counts.values()) for counts in report["kinds"].values()]
    assert sum(by_kind) == len(report["claims"])
    assert all(by_kind)
    by_name = {row["name"]: row for row in report["claims"]}
    assert by_name["targets"] == {
        "paper": "buddy",
        "name": "targets",
        "section": "§3.2",
        "claim": "targets, and their sectors in device memory",
        "class": "exact",
        "kind": "mechanism",
        "published": "1, 1.33, 2, 4×: 4, 3, 2, 1",
        "lines": [106],
        "ours": "1, 1.33, 2, 4×: 4, 3, 2, 1",
        "assumptions": "",
        "verdict": "exact",
    }
    assert by_name["footprint"]["verdict"] == "slip in the print"
    assert by_name["performance"]["verdict"] == "not claimable"


def test_a_table_has_claim_class_figures_and_verdict(
    toys: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "toy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (slip,) = (line for line in lines if "one and one [sic]" in line)
    for part in ("§1", "exact", "3", "[1, 1]: 2", "slip in the print"):
        assert part in slip
    (shape,) = (line for line in lines if "more is more" in line)
    for part in ("§2", "(1)", "shape", "much", "shape holds"):
        assert part in shape
    assert "(1) no friction." in lines
    assert any("not run" in line and "--all" in line for line in lines)
    assert any("needs a GPU" in line and "not claimable" in line for line in lines)


def test_kinds_are_apart_and_counted(toys: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "toy"]) == 0
    lines = capsys.readouterr().out.splitlines()

    def at(text: str) -> int:
        (place,) = (i for i, line in enumerate(lines) if text in line)
        return place

    order = [
        *("mechanism: what runs", "more is more"),
        *("constant: a number", "wheels of a car"),
        *("arithmetic: the paper's", "one and one"),
        *("quoted: not claimed", "needs a GPU"),
    ]
    places = [at(text) for text in order]
    assert places == sorted(places)
    assert "as printed" in lines[at("wheels of a car")]
    assert lines[-5:] == [
        "mechanism: 2 (1 shape holds, 1 not run)",
        "constant: 1 (1 as printed)",
        "arithmetic: 1 (1 slip in the print)",
        "quoted: 1 (1 not claimable)",
        "5 claims",
    ]


def test_long_rows_on_request(toys: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "toy", "--all", "--json"]) == 0
    assert "not run" not in json.loads(capsys.readouterr().out)["verdicts"]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_row_that_does_not_hold_is_a_failure(
    form: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "paper_of", lambda _name: _toys(holds=False))
    assert main(["reproduce", "toy", *form]) == 1
    out = capsys.readouterr().out
    if form:
        assert json.loads(out)["failures"] == ["toy/more"]
    else:
        assert "FAILS toy/more: much" in out


def test_unknown_papers_list_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "vdnn"]) == 2
    assert capsys.readouterr().err == (
        "cdma: error: unknown paper 'vdnn'; choose from cdma, cswap+, comet, buddy, home\n"
    )
