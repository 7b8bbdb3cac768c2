"""`make coverage`: tell the lines, branches and port bits that benches on Verilator miss."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tests.coverage.benches import BENCHES
from tests.coverage.report import Report, read_open, read_waivers, write_open
from tests.coverage.totals import Totals, components_of_hw, counted, ranges
from tests.lib.paths import ROOT

FOLDER = ROOT / "build" / "coverage"


def run_benches(folder: Path, names: Sequence[str] = tuple(BENCHES)) -> bool:
    """Run benches, which leave their counts in a folder; true if all of them pass."""
    passed = True
    for name in names:
        arguments = BENCHES[name]
        shutil.rmtree(folder / name, ignore_errors=True)
        environment = {**os.environ, "CDMA_COVERAGE": str(folder / name)}
        command = ["-m", "pytest", "-q", "-p", "tests.coverage.plugin", "-p", "no:cacheprovider"]
        done = subprocess.run([sys.executable, *command, *arguments], cwd=ROOT, env=environment)
        passed = passed and done.returncode == 0
    return passed


def merged(folder: Path, names: Sequence[str] = tuple(BENCHES)) -> Totals:
    """The counts that benches have left in a folder."""
    totals = Totals.empty()
    for points in sorted(file for name in names for file in (folder / name).glob("*.json")):
        counts = counted(points.with_suffix(".dat").read_text("utf-8"))
        totals.add(json.loads(points.read_text("utf-8")), counts)
    return totals


def coverage(
    only: Annotated[list[str] | None, typer.Option(help="Benches to run, not all of them.")] = None,
    again: Annotated[bool, typer.Option(help="Run the benches, or read what they left.")] = True,
    write: Annotated[bool, typer.Option("--write", help="List what is open as known.")] = False,
) -> None:
    """Run the benches and print what they cover."""
    console = Console(width=160, soft_wrap=True, highlight=False, markup=False)
    folder = FOLDER / "counts"
    passed = run_benches(folder, only or tuple(BENCHES)) if again else True
    totals = merged(folder)
    waivers = read_waivers()
    report = Report.of(totals, waivers, read_open())
    table = Table("component", "lines", "branches", "port bits", "constant", "waived")
    for row in report.rows():
        table.add_row(*row)
    console.print(table)
    for line in ranges(report.open):
        console.print(f"open: {line}")
    for waiver in waivers:
        count = sum(found is waiver for found in report.waived.values())
        what = f"{waiver.component} {waiver.kind} {waiver.point}"
        console.print(f"waived, {count}: {what}: {waiver.reason}")
    for name in sorted(components_of_hw() - set(totals.components)):
        console.print(f"in no bench: {name}")
    if write:
        write_open(report.open)
        report = Report.of(totals, waivers, read_open())
    for name in report.shorter:
        console.print(f"fewer are open than listed: {name}")
    for failure in report.failures:
        console.print(failure)
    if report.failures or not passed:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(coverage)
