"""Notebooks run from first cell to last, show what they say, and are kept without outputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS
from tests.lib.requirements import NBCLIENT, require

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))

SHOWN = {
    "plan-a-step": ["no room", "Plan of cdma", "swap zvc", "data:image/svg+xml"],
    "swap-arrays": ["EngineConfig", "after ReLU", "exact"],
}
"""Texts that the HTML of a notebook's cells has."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


# The kernel is another process, whose imports no verdict sees.
@pytest.mark.always
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(NBCLIENT)
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    client: Any = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    html = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    for text in SHOWN[path.stem]:
        assert text in html


def test_every_notebook_is_named() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)
