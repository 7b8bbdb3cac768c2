"""A missing tool skips a test with one line that says all; on CI it fails."""

from dataclasses import replace

import pytest

from tests.lib.requirements import FST_HEADERS, ICARUS, Requirement, require

MISSING = Requirement("A tool", "a-package another", "its waves", lambda: False)
LINE = "A tool missing: apt-get install a-package another; left unchecked: its waves"


def test_a_missing_tool_is_told_and_skipped(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"^{LINE}$"):
        require(MISSING)


def test_on_ci_it_is_a_failure(monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=f"^{LINE}$"):
        require(MISSING)


@pytest.mark.parametrize("requirement", [ICARUS, FST_HEADERS])
def test_an_empty_path_has_none_of_them(requirement, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not requirement.present()


def test_another_installer_is_named(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    packages = replace(MISSING, installer="pip install")
    with pytest.raises(pytest.skip.Exception, match="missing: pip install a-package another;"):
        require(packages)
