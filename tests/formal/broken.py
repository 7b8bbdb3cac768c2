"""Components broken on purpose: what a proof must find."""

import inspect
import textwrap
from typing import Any

import pytest


def break_elaborate(
    monkeypatch: pytest.MonkeyPatch, component: type, right: str, wrong: str
) -> None:
    """Put something else in the place of the only `right` in the source of a component's logic.

    It is in `elaborate` or in one of the methods that elaborate stages for it.
    """
    sources = {
        name: textwrap.dedent(inspect.getsource(method))
        for name, method in vars(component).items()
        if inspect.isfunction(method) and name != "__init__"
    }
    assert sum(source.count(right) for source in sources.values()) == 1
    (name,) = (name for name, source in sources.items() if right in source)
    scope: dict[str, Any] = {}
    exec(sources[name].replace(right, wrong), vars(inspect.getmodule(component)), scope)
    monkeypatch.setattr(component, name, scope[name])
