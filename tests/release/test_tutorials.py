"""The tutorials, command for command, where only the wheel is installed."""

import os

import pytest

from tests.docs.pages import DOCS
from tests.docs.tutorials import TUTORIALS, carry_out
from tests.lib.requirements import ICARUS, require

PICTURES = {"rtl-engineer": {"waves.svg": "rtl-engineer.svg"}}
"""Files that a tutorial makes, and the pictures on its page that they are."""


@pytest.mark.verify
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial_shows_what_its_commands_print(page, environment, users):
    require(ICARUS)
    path = f"{environment}{os.pathsep}{os.environ['PATH']}"
    assert carry_out(page, users, {**os.environ, "PATH": path}) == []
    for made, picture in PICTURES.get(page.stem, {}).items():
        shown = page.parent / picture
        assert (users / made).read_text("utf-8") == shown.read_text("utf-8"), (
            f"{made} is no longer {shown.relative_to(DOCS)}: copy it there"
        )
