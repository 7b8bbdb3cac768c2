"""Runs of pytest on projects that tests make, with the plugins of this one."""

import os
import subprocess
import sys
from pathlib import Path

from tests.lib.paths import ROOT

PLUGINS = ("tests.lib.verdicts", "tests.lib.proofs", "xdist", "pytest_timeout")


def run(project: Path, *options: str, **variables: str) -> str:
    """Run pytest as `completed` does, and return all that it prints."""
    done = completed(project, *options, **variables)
    return done.stdout + done.stderr


def completed(project: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project's folder, with a cache that is beside it.

    Parameters
    ----------
    project : Path
    *options : str
        Of pytest.
    **variables : str
        Of the environment, beside those that there are.
    """
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        "CDMA_CACHE": str(project.parent / "cache"),
        "PYTHONPATH": f"{project}{os.pathsep}{ROOT}",
        # What is not needed here takes a second to import.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **variables,
    }
    environment.pop("CDMA_TESTS_STARTED", None)
    plugins = [part for name in PLUGINS for part in ("-p", name)]
    command = [sys.executable, "-m", "pytest", *plugins, *options]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


def passed_before(project: Path) -> list[str]:
    """Names of the tests that the last run reported as passed before."""
    return (project / "build" / "verdicts.txt").read_text().splitlines()
