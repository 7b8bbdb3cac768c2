"""Readers refuse documents of another schema and of versions to come, and read older ones."""

import json
from pathlib import Path

import pytest

from cdma.builds.documents import VERSIONS, body, head, refusal
from cdma.cli import main
from cdma.synth.baseline import read_baseline
from cdma.synth.errors import SynthError

LATER = {"schema": "config", "version": VERSIONS["config"] + 1}
FOREIGN = {"schema": "theirs", "version": 1}


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(capsys):
    assert main(["config", "show", "tiny", "--kind", "engine", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def written(content) -> str:
    Path("x.json").write_text(json.dumps(content))
    return "x.json"


def error(capsys, *arguments: str) -> str:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err.removeprefix("cdma: error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "takes_any"),
    [
        (("config", "show"), True),
        (("report",), True),
        (("estimate", "--network", "digits_cnn", "--config"), True),
        (("estimate", "--network", "digits_cnn", "--density"), False),
        (("estimate", "--network", "digits_cnn", "--capture"), False),
    ],
)
def test_other_documents_are_refused_by_every_reader(arguments, takes_any, config, capsys):
    reader = [*arguments, written({**config, **FOREIGN})]
    told = error(capsys, *reader)
    assert told.startswith("x.json ")
    assert "; " in told
    if takes_any:
        assert told == (
            "x.json has the schema 'theirs', which this cdma does not know; update cdma, or give "
            "a file that it has written"
        )
        written({**config, **LATER})
        assert error(capsys, *reader) == (
            "x.json has version 2 of the schema 'config', and this cdma reads up to 1; update "
            "cdma, or make the file again with this one"
        )


def test_a_capture_to_come_is_refused(capsys):
    reader = ["estimate", "--network", "digits_cnn", "--density"]
    told = error(capsys, *reader, written({"schema": "capture", "version": 3}))
    assert told.startswith("x.json has version 3 of the schema 'capture', and this cdma reads up ")
    told = error(capsys, *reader, written({"schema": "swap", "version": 1}))
    assert told.startswith("x.json has the schema 'swap', and neither densities nor a capture; ")


@pytest.mark.parametrize("number", [None, 0, -1, 1.0, "1", True])
def test_a_version_that_is_none_is_refused(number, config, capsys):
    told = error(capsys, "config", "show", written({**config, "version": number}))
    assert "versions are whole numbers from 1 on; make the file again" in told


def test_documents_without_a_head_are_read(config, capsys):
    assert main(["config", "show", written(config), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["config", "show", written(body(config)), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    assert told["configuration"] == config["configuration"]


def test_a_baseline_of_another_schema_is_refused(tmp_path):
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"schema": "swap", "version": 1, "components": []}))
    with pytest.raises(SynthError, match=r"has the schema 'swap'; give one with 'synth'"):
        read_baseline(path=path)


def test_of_every_schema_the_own_version_is_taken_and_no_later_one():
    for name, number in VERSIONS.items():
        assert refusal(head(name), "x", name) is None
        assert refusal({**head(name), "version": number + 1}, "x", name) is not None
        assert refusal(head(name), "x", "other") is not None
    assert refusal({"anything": 1}, "x", "swap") is None
