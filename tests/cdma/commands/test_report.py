"""`cdma report` and `--html`: one page either way, and errors that help."""

import json
import re
from pathlib import Path

import pytest

from cdma.builds.documents import body
from cdma.cli import main
from tests.cdma.report.results import COMMANDS, result, swap, trace
from tests.lib.shares import names


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def content_of(page: str) -> str:
    """A page without what tells when and by which command it was made."""
    made = r'<p class="made">.*?</p>|Computed by cdma[^<]*'
    return re.sub(made, "", Path(page).read_text("utf-8"), flags=re.DOTALL)


def error(capsys, *arguments: str) -> str:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("cdma: error: ")
    assert told.err.count("\n") == 1
    return told.err


@pytest.mark.parametrize(
    "kind", names([kind for kind in COMMANDS if kind != "schedule"], quick=["value"])
)
def test_a_command_s_page_is_that_of_its_json(capsys, kind):
    assert main([*COMMANDS[kind], "--json", "--html", "own.html"]) == 0
    Path(f"{kind}.json").write_text(capsys.readouterr().out)
    assert body(json.loads(Path(f"{kind}.json").read_text())) == body(result(kind))
    assert main(["report", f"{kind}.json", "--html", "report.html"]) == 0
    size = Path("report.html").stat().st_size
    assert capsys.readouterr().out == f"report.html: {size:,} bytes\n"
    assert content_of("own.html") == content_of("report.html")
    assert "cdma report" in Path("report.html").read_text()


def test_a_schedule_s_page_has_the_timelines_of_its_trace(capsys):
    assert main([*COMMANDS["schedule"], "--json", "--html", "own.html"]) == 0
    Path("schedule.json").write_text(capsys.readouterr().out)
    Path("trace.json").write_text(json.dumps(trace()))
    assert main(["report", "schedule.json", "trace.json"]) == 0
    assert content_of("own.html") == content_of("report.html")
    assert content_of("own.html").count('class="timeline"') == 1


def test_a_sweep_over_efficiencies_has_a_page_without_timelines():
    step = ["--network", "digits_cnn", "--policy", "vdnn,oracle", "--efficiency", ".5,1"]
    assert main(["schedule", *step, "--html", "page.html"]) == 0
    page = content_of("page.html")
    assert 'class="timeline"' not in page
    assert page.count("The step under each policy at efficiency") == 4


def test_several_files_are_sections_of_one_page():
    Path("swap.json").write_text(json.dumps(swap()))
    Path("est.json").write_text(json.dumps(result("estimate")))
    assert main(["report", "swap.json", "est.json", "--html", "all.html"]) == 0
    page = content_of("all.html")
    assert page.count("<h2>") == 3
    assert "swap: ZVC through titanx_gen3, and more" in page


def test_a_page_exists_already(capsys):
    Path("swap.json").write_text(json.dumps(swap()))
    assert main(["report", "swap.json"]) == 0
    capsys.readouterr()
    assert "report.html exists already; name another file, or" in error(
        capsys, "report", "swap.json"
    )
    assert main(["report", "swap.json", "--force"]) == 0


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("report", "none.json"), "cannot read none.json: No such file or directory"),
        (("report", "text.json"), "text.json is no JSON (Expecting value"),
        (("report", "part.json"), "part.json looks like the JSON of cdma swap, but is not whole"),
        (("report", "ok.json", "--html", "a.pdf"), "a page is HTML, not 'a.pdf'; name a .html"),
        (("report",), "missing argument"),
        (
            ("estimate", "--network", "alexnet", "--html", "a.txt"),
            "a page is HTML, not 'a.txt'; name a .html file",
        ),
        (
            ("estimate", "--network", "alexnet", "--html", "no/a.html"),
            "cannot write no/a.html: No such file or directory",
        ),
    ],
)
def test_errors_name_cause_and_mend(capsys, arguments, cause):
    Path("text.json").write_text("text")
    Path("part.json").write_text(json.dumps({**swap(), "total": {}}))
    Path("ok.json").write_text(json.dumps(swap()))
    assert cause in error(capsys, *arguments)
    assert not Path("report.html").exists()
