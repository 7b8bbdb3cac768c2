"""`make coverage`: tell the lines, branches and port bits that benches on Verilator miss."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tests.coverage.benches import BENCHES
from tests.coverage.counts import BenchError, kept_counts, merged
from tests.coverage.report import Report, read_open, read_waivers, write_open
from tests.coverage.totals import components_of_hw, ranges
from tests.lib.closure import Checkout
from tests.lib.paths import ROOT


def coverage(
    only: Annotated[list[str] | None, typer.Option(help="Benches to run, not all of them.")] = None,
    write: Annotated[bool, typer.Option("--write", help="List what is open as known.")] = False,
) -> None:
    """Print what the benches cover; those whose counts are not known yet are run."""
    console = Console(width=160, soft_wrap=True, highlight=False, markup=False)
    checkout = Checkout(ROOT)
    try:
        totals = merged([kept_counts(name, checkout) for name in only or BENCHES])
    except BenchError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from None
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
    if report.failures:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(coverage)
