"""The store: what a result is kept under, and what is read back."""

import json
from dataclasses import replace

import pytest

from cdma.errors import UserError
from cdma.sweep import store as module
from cdma.sweep.point import SweepPoint
from cdma.sweep.store import Store
from tests.cdma.sweep.work import point, square

ROOMS = ("builds",)


def test_a_result_is_read_as_it_was_written(tmp_path):
    store = Store(tmp_path / "new" / "folder", ROOMS)
    result = {"a": [1, 2.5, None, {"b": True}], "text": "…"}
    assert store.read(point(3)) is None
    store.write(point(3), result)
    assert store.read(point(3)) == result
    assert store.read(point(4)) is None
    # Nothing is left beside the points' own files.
    assert list(store.folder.iterdir()) == [store.path(point(3))]


def test_a_point_is_its_content_and_not_its_name_or_order_of_keys(tmp_path):
    store = Store(tmp_path, ROOMS)
    one = SweepPoint(name="one", content={"a": 1, "b": [2]}, work=square)
    other = SweepPoint(name="other", content={"b": [2], "a": 1}, work=square)
    assert store.path(one) == store.path(other)
    store.write(one, {"x": 1})
    assert store.read(other) == {"x": 1}


def test_other_contents_files_and_sources_are_other_points(tmp_path, monkeypatch):
    store = Store(tmp_path, ROOMS)
    one = replace(point(3), files=(("/a/x.npy", "1"), ("/a/y.npy", "2")))
    paths = {
        store.path(one),
        store.path(point(3)),
        store.path(replace(one, content={"number": 4})),
        store.path(replace(one, files=(("/a/x.npy", "1"), ("/a/y.npy", "3")))),
        store.path(replace(one, files=(("/a/x.npy", "2"), ("/a/y.npy", "1")))),
        Store(tmp_path, ("builds", "golden")).path(one),
    }
    monkeypatch.setattr(module, "sources", lambda rooms: "changed")
    paths.add(Store(tmp_path, ROOMS).path(one))
    assert len(paths) == 7
    # The same file elsewhere is the same file.
    moved = replace(one, files=(("/b/x.npy", "1"), ("/b/y.npy", "2")))
    assert Store(tmp_path, ROOMS).path(moved) == Store(tmp_path, ROOMS).path(one)


def test_what_is_damaged_is_not_there(tmp_path):
    store = Store(tmp_path, ROOMS)
    store.write(point(3), {"square": 9})
    path = store.path(point(3))
    whole = json.loads(path.read_text())
    damaged = [
        "",
        "{}",
        "[]",
        path.read_text()[:-5],
        json.dumps({**whole, "result": {"square": 8}}),
        json.dumps({**whole, "point": {"number": 4}}),
        json.dumps({**whole, "check": ""}),
    ]
    for text in damaged:
        path.write_text(text)
        assert store.read(point(3)) is None, text
    # A whole file of another point in its place, as a hand might put there.
    store.write(point(4), {"square": 16})
    path.write_bytes(store.path(point(4)).read_bytes())
    assert store.read(point(3)) is None
    store.write(point(3), {"square": 9})
    assert store.read(point(3)) == {"square": 9}


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        Store(tmp_path / "file" / "points", ROOMS).write(point(3), {})
