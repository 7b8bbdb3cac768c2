"""`cdma reproduce`."""

import json

import pytest

import cdma.reproduce as command
from cdma.cli import main
from sim.reproduce import PAPERS, Measured, Paper


def _toys(*, holds: bool) -> Paper:
    made = Paper("toy", "Toys [of wood]")

    @made.exact("§1", "one and one [sic]", "3", slip=True)
    def _sum() -> Measured:
        return Measured("[1, 1]: 2", True)

    @made.shape("§2", "more is more", "yes", under="no friction")
    def _more() -> Measured:
        return Measured("much", holds)

    made.shape("§2", "for hours", "yes", under="no friction", name="hours", long=True)(_more)
    made.not_claimable("speed", "§3", "speed", "fast", needs="a GPU")
    return made


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "paper_of", lambda _name: _toys(holds=True))


def test_a_real_paper_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "buddy", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["failures"] == []
    assert len(report["claims"]) == len(PAPERS["buddy"].claims) == sum(report["verdicts"].values())
    by_name = {row["name"]: row for row in report["claims"]}
    assert by_name["targets"] == {
        "paper": "buddy",
        "name": "targets",
        "section": "§3.2",
        "claim": "targets, and their sectors in device memory",
        "class": "exact",
        "published": "1, 1.33, 2, 4×: 4, 3, 2, 1",
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
    assert "4 claims. shape holds: 1, slip in the print: 1, not claimable: 1, not run: 1." in lines


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
