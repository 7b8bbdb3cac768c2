"""Written Verilog of small components: its text, and that it is equivalent to their RTLIL."""

import difflib

import pytest

from tests.hw.emit.writer.specimens import EXPECTED, SPECIMENS, modules_of, text_of
from tests.lib.rtl.equivalence import check_module


@pytest.mark.parametrize("name", list(SPECIMENS))
def test_the_text_is_as_expected(name):
    expected = (EXPECTED / f"{name}.v").read_text("utf-8")
    changes = difflib.unified_diff(expected.splitlines(), text_of(name).splitlines(), lineterm="")
    assert not list(changes)


@pytest.mark.parametrize("name", list(SPECIMENS))
def test_the_text_is_equivalent(name, tmp_path):
    modules = modules_of(name)
    for module in modules:
        found = check_module(module, modules, tmp_path / module.name)
        assert found.holds, found.log


def test_each_text_is_of_a_specimen():
    assert {path.stem for path in EXPECTED.iterdir()} == SPECIMENS.keys()
