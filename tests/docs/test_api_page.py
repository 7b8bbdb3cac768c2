"""The page of the Python names: every public name is on it, under where it is defined."""

import importlib
import re

import cdma
from tests.docs.pages import DOCS

PAGE = (DOCS / "reference" / "api.md").read_text("utf-8")
NAMED = re.findall(r"^::: ([\w.]+)$", PAGE, re.M)


def test_every_public_name_is_on_the_page():
    public = [getattr(cdma, name) for name in cdma.__all__]
    assert {f"{one.__module__}.{one.__qualname__}" for one in public} <= set(NAMED)


def test_every_name_on_the_page_is_there_and_has_a_docstring():
    for name in NAMED:
        module, _, attribute = name.rpartition(".")
        found = getattr(importlib.import_module(module), attribute)
        assert found.__module__ == module
        assert len(found.__doc__) > 60
