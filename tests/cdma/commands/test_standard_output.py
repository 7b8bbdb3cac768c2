"""`-` in the place of a file: what goes to the standard output, what comes from the standard input,
and what cannot."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from cdma.cli import main

STEP = ("schedule", "--network", "digits_cnn", "--policy", "vdnn", "--bound", "none")
ESTIMATE = ("estimate", "--network", "digits_cnn")
PROFILE = ("buddy", "profile", "a.npy")
SWAP = ("swap", "a.npy", "--engine", "codec")


@pytest.fixture(autouse=True)
def _with_an_array(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(600, dtype=np.int32))


def given(monkeypatch, content: bytes) -> None:
    """Make these bytes the standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("command", [ESTIMATE, STEP, PROFILE, SWAP], ids=lambda words: words[0])
def test_a_page_is_all_that_is_printed(command, capfd):
    assert main([*command, "--html", "page.html"]) == 0
    table = capfd.readouterr().out
    assert table
    assert main([*command, "--html", "-"]) == 0
    page = capfd.readouterr().out
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")
    assert table not in page
    assert not Path("-").exists()


def test_timelines_are_all_that_is_printed(capfd):
    assert main([*STEP, "--trace", "-"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert main([*STEP, "--trace", "trace.json"]) == 0
    assert printed["traceEvents"] == json.loads(Path("trace.json").read_text())["traceEvents"]


def test_a_report_of_the_standard_input(capfd, monkeypatch):
    assert main([*ESTIMATE, "--json"]) == 0
    given(monkeypatch, capfd.readouterr().out.encode())
    assert main(["report", "-", "--html", "-"]) == 0
    told = capfd.readouterr()
    assert told.out.startswith("<!DOCTYPE html>")
    assert "cdma estimate --network digits_cnn --json" in told.out
    assert told.err.startswith("the standard output: ")
    given(monkeypatch, b"{")
    assert main(["report", "-"]) == 2
    assert capfd.readouterr().err.startswith("cdma: error: the standard input is no JSON (")


def test_swap_takes_the_standard_input(capfd, monkeypatch):
    given(monkeypatch, Path("a.npy").read_bytes())
    assert main(["swap", "-", "--engine", "codec", "--json"]) == 0
    piped = json.loads(capfd.readouterr().out)
    assert main([*SWAP, "--json"]) == 0
    named = json.loads(capfd.readouterr().out)
    assert piped["total"] == named["total"]
    assert piped["arrays"][0]["shape"] == [600]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*ESTIMATE, "--html", "-", "--json"), "--html - and --json would all go to the standard"),
        ((*SWAP, "--html", "-", "--json"), "--html - and --json would all go to the standard ou"),
        ((*STEP, "--trace", "-", "--html", "-"), "--trace - and --html - would all go to the st"),
        ((*STEP, "--trace", "-", "--json"), "--trace - and --json would all go to the standard "),
        ((*STEP, "--plot", "-"), "--plot writes PNG, SVG or PDF, not '-'; name a file that ends"),
        ((*PROFILE, "--heat-map", "-"), "--heat-map writes PNG, SVG or PDF, not '-'; name a file"),
        ((*SWAP, "--waves", "-"), "waves cannot be written to -; name a file .vcd or .fst"),
        ((*SWAP, "--save", "-"), "files of a folder cannot go to the standard output; name a fol"),
        (("generate", "packer", "--out", "-"), "files of a folder cannot go to the standard outp"),
        (("synth", "packer", "--out", "-"), "files of a folder cannot go to the standard output;"),
        (("board", "ulx3s_85f", "--out", "-"), "files of a folder cannot go to the standard outp"),
        (("capture", "digits-cnn", "--out", "-"), "files of a folder cannot go to the standard o"),
        (("value", "--results", "-"), "files of a folder cannot go to the standard output; name"),
    ],
)
def test_what_cannot_go_there_is_refused(arguments, message, capfd):
    assert main(arguments) == 2
    told = capfd.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"cdma: error: {message}")
    assert told.err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["a.npy"]
