"""docs/guide/swap/torch-swap.md: what it shows is what its code prints."""

import re
from typing import Any

import pytest

from tests.lib.paths import ROOT

PAGE = ROOT / "docs" / "guide" / "swap" / "torch-swap.md"


@pytest.mark.torch
def test_code_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    examples = re.findall(
        r"^```python\n(.*?)^```\n\n```\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    assert len(examples) == 1
    names: dict[str, Any] = {}
    for code, shown in examples:
        exec(compile(code, str(PAGE), "exec"), names)
        assert capsys.readouterr().out == shown
