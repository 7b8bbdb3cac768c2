"""Components broken on purpose: what a proof must find."""

import inspect
import textwrap
from typing import Any

import pytest


def break_elaborate(
    monkeypatch: pytest.MonkeyPatch, component: type, right: str, wrong: str
) -> None:
    """Put something else in the place of the only `right` in a component's methods."""
    sources = {
        name: textwrap.dedent(inspect.getsource(method))
        for name, method in vars(component).items()
        if inspect.isfunction(method)
    }
    assert sum(source.count(right) for source in sources.values()) == 1
    name = next(name for name, source in sources.items() if right in source)
    scope: dict[str, Any] = {}
    exec(sources[name].replace(right, wrong), vars(inspect.getmodule(component)), scope)
    monkeypatch.setattr(component, name, scope[name])
