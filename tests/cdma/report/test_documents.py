"""Documents: each command's JSON is known by its keys, and what is no JSON of ours is refused."""

import json
from pathlib import Path

import pytest

from cdma.errors import UserError
from cdma.report.documents import KINDS, OTHER, Document, read_documents
from tests.cdma.report.results import COMMANDS, result, swap, trace


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_s_object_is_known(kind):
    assert Document("x.json", result(kind)).kind == kind


def test_swap_replay_trace_and_others_are_known():
    assert Document("x", swap()).kind == "swap"
    assert Document("x", trace()).kind == "trace"
    assert Document("x", dict.fromkeys(KINDS["replay"])).kind == "replay"
    assert Document("x", {"a": 1}).kind == OTHER


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("no JSON", "is no JSON (Expecting value"),
        ("[1, 2]", "is no JSON object of a command"),
        ("{}", "is no JSON object of a command"),
        ("[" * 100_000, "is no JSON ("),
        (b"\xff\xfe\x00", "is no JSON ("),
    ],
)
def test_other_files_are_refused(tmp_path, content, cause):
    path = tmp_path / "x.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as caught:
        read_documents([path])
    assert str(caught.value).startswith(f"{path} ")
    assert cause in str(caught.value)
    assert "--json" in str(caught.value)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*none\.json: No such file"):
        read_documents([tmp_path / "none.json"])


def test_files_keep_their_names_and_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(json.dumps(swap()))
    (found,) = read_documents([Path("a.json")])
    assert found == Document("a.json", swap())
