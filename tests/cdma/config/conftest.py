"""A folder with a user's files, in which the commands of these tests run."""

import sys

import pytest

from tests.cdma.config.files import write_all


@pytest.fixture(autouse=True)
def _in_a_folder_with_files(tmp_path, monkeypatch):
    write_all(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_hooks", None)
