"""Notes of failures: they are kept for all machines."""

import json

import pytest

from tests.mutation import witness


def test_notes_have_no_folder_of_the_machine(tmp_path, monkeypatch):
    note = tmp_path / "note.json"
    monkeypatch.setenv(witness.NOTE, str(note))
    with pytest.raises(RuntimeError) as error:
        raise RuntimeError(f"'/usr/bin/cc' cannot read PosixPath('{tmp_path}/a.c'): 1 / 2")
    witness._note("test", error)
    said = json.loads(note.read_text())["error"]
    assert said == "RuntimeError: 'cc' cannot read PosixPath('a.c'): 1 / 2"
