"""JSON objects of the commands, as the tests of the report take them: real ones, and small."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cdma.cli import main

COMMANDS: dict[str, tuple[str, ...]] = {
    "schedule": (
        *("schedule", "--network", "alexnet", "--memory", "3GB", "--bound", "none"),
        *("--policy", "oracle,vdnn,vdnn-conv,cdma,vdnn++,superneurons,capuchin"),
    ),
    "largest": (
        *("schedule", "--network", "digits_cnn", "--policy", "oracle,vdnn"),
        *("--memory", "60MB", "--largest-batch"),
    ),
    "estimate": ("estimate", "--network", "alexnet", "--sweep", "units=4,6"),
    "value": (
        *("value", "--network", "digits_cnn", "--device", "titanxp", "--room", "0.3"),
        *("--link", "pcie3x16/4,pcie3x16,nvlink4", "--evaluations", "30", "--jobs", "1"),
    ),
    "profile": ("buddy", "profile", "heat", "--sweep-threshold"),
    "synth": ("synth", "token-bucket", "--config", "tiny", "--force"),
}
"""A command for each kind of document that needs no RTL to be simulated."""


@cache
def result(kind: str) -> dict[str, Any]:
    """What a command of `COMMANDS` prints."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.echo", lambda text, **_: said.append(text))
        assert main([*COMMANDS[kind], "--json"]) == 0
    found: dict[str, Any] = json.loads(said[-1])
    return found


@cache
def trace() -> dict[str, Any]:
    """The file that `cdma schedule --trace` writes, of the step of `schedule`."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("typer.echo", lambda text, **_: None)
            assert main([*COMMANDS["schedule"], "--json", "--trace", str(path)]) == 0
        found: dict[str, Any] = json.loads(path.read_text())
    return found
