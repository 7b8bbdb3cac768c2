"""Components broken on purpose: what a proof must find."""

import inspect
import textwrap
from typing import Any

import pytest


def break_elaborate(
    monkeypatch: pytest.MonkeyPatch, component: type, right: str, wrong: str
) -> None:
    """Put something else in the place of the only `right` in a component's source."""
    source = textwrap.dedent(inspect.getsource(component.elaborate))
    assert source.count(right) == 1
    scope: dict[str, Any] = {}
    exec(source.replace(right, wrong), vars(inspect.getmodule(component)), scope)
    monkeypatch.setattr(component, "elaborate", scope["elaborate"])
