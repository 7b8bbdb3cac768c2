"""The counts of benches, kept while the tests and all that these depend on are the same."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cdma.builds.cache import cache_directory, cached, digest
from tests.coverage.benches import BENCHES
from tests.coverage.totals import Totals, counted
from tests.lib.closure import Checkout
from tests.lib.paths import ROOT

SHIMS = ("sim", "tests/coverage/shim")
"""Folders of what is simulated around the RTL, in other languages than Python."""


class BenchError(Exception):
    """A bench has failed, so its counts tell nothing."""


def kept_counts(name: str, checkout: Checkout) -> Path:
    """The folder with a bench's counts, which is run if the cache does not have it.

    Raises
    ------
    BenchError
        A test of it fails.
    """

    def run(folder: Path) -> None:
        command = ["-m", "pytest", "-q", "-p", "tests.coverage.plugin", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, *command, *BENCHES[name]],
            cwd=ROOT,
            env={**os.environ, "CDMA_COVERAGE": str(folder)},
        )
        if done.returncode != 0:
            raise BenchError(f"bench {name} does not pass with coverage; see its output")

    return cached(_folder(name, checkout), run)


def is_known(name: str, checkout: Checkout) -> bool:
    """Return True if a bench need not be run."""
    return (cache_directory() / _folder(name, checkout)).is_dir()


def merged(folders: Sequence[Path]) -> Totals:
    """The counts of several benches."""
    totals = Totals.empty()
    for points in sorted(file for folder in folders for file in folder.glob("*.json")):
        counts = counted(points.with_suffix(".dat").read_text("utf-8"))
        totals.add(json.loads(points.read_text("utf-8")), counts)
    return totals


def _folder(name: str, checkout: Checkout) -> str:
    """The name in the cache, with a hash of what a bench's counts depend on."""
    tests = [Path(ROOT, argument) for argument in BENCHES[name] if argument.endswith(".py")]
    modules = {"tests.coverage.plugin", "tests.conftest", *map(checkout.name_of, tests)}
    others = [
        file
        for file in checkout.files
        if file.suffix != ".py" and any(file.is_relative_to(ROOT / folder) for folder in SHIMS)
    ]
    sources = digest(
        *BENCHES[name],
        checkout.sources(checkout.closure(modules)),
        *(checkout.hash(file) for file in [*others, ROOT / "constraints.txt"]),
    )
    return f"coverage-{name}-{sources}"
