"""The console table of `cdma sweep`."""

from rich.table import Table

from cdma.commands.sweep.fields import Scalar
from cdma.commands.sweep.report import SweepReport, plain
from cdma.synth.gates.clock import ENGINE
from cdma.terminal.console import clock_fact, facts_grid, plain_table, terminal

DIGITS = 5


def print_sweep(report: SweepReport) -> None:
    """A row per point: the values of the axes that have several, and the fields."""
    console = terminal()
    fixed = [
        f"--{axis.name} {plain(axis.values[0])}" for axis in report.axes if len(axis.values) == 1
    ]
    console.print(" ".join(["cdma", report.command, *fixed]), style="bold", highlight=False)
    if clock := clock_fact(report.clock_hz, ENGINE):
        console.print(facts_grid(clock))
    if report.rows:
        console.print(_table(report))
    missing = report.points - len(report.rows) - len(report.failed)
    if missing:
        console.print(f"{missing} of {report.points} points are not computed yet.", highlight=False)


def _table(report: SweepReport) -> Table:
    table = plain_table()
    swept = [axis.name for axis in report.axes if len(axis.values) > 1]
    for name in swept:
        table.add_column(name, no_wrap=True)
    for name in report.fields:
        table.add_column(name.replace(".", ".\n"), justify="right", no_wrap=True)
    for row in report.rows:
        table.add_row(
            *(str(plain(row.values[name])) for name in swept),
            *(_cell(row.fields[name]) for name in report.fields),
        )
    return table


def _cell(value: Scalar) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    return f"{value:,}" if type(value) is int else str(value)
