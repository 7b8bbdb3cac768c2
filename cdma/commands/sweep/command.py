"""`cdma sweep`: a command over all combinations of its options' values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from cdma.builds.documents import body
from cdma.commands.completers import among
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.sweep.axes import Axis, axes_of_file, axes_of_line, combined, grid
from cdma.commands.sweep.fields import Scalar, fields_of, require_fields
from cdma.commands.sweep.report import SweepReport, SweepRow, as_csv, as_dict
from cdma.commands.sweep.swept import FIELDS, SweptCommand
from cdma.commands.sweep.table import print_sweep
from cdma.commands.sweep_options import (
    LOCAL,
    BackendName,
    Jobs,
    Results,
    Scheduler,
    Shard,
    backend_of,
    end_by_failures,
    results_folder,
    shard_of,
)
from cdma.errors import UserError
from cdma.schemas import document
from cdma.sweep.run import compute, share
from cdma.sweep.store import Store
from cdma.terminal.parser import plain_typer

sweep = plain_typer()


# All behind COMMAND is the command's.
@sweep.command("sweep", context_settings={"allow_interspersed_args": False})
def run_sweep(
    command: Annotated[
        str,
        typer.Argument(
            metavar="COMMAND", help=f"One of {', '.join(FIELDS)}.", autocompletion=among(*FIELDS)
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[AXIS]…",
            help="Its options with commas between values, and its arguments: --link "
            "pcie3x16,pcie4x16. All combinations are points.",
            show_default=False,
        ),
    ] = None,
    axes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml|.json",
            help="Options, each with a list of values; beside those of the line.",
        ),
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]…",
            help="Columns of the table: fields of the command's JSON, as total.ratio.",
        ),
    ] = None,
    results: Results = None,
    shard: Shard = None,
    jobs: Jobs = None,
    backend: BackendName = LOCAL,
    scheduler: Scheduler = None,
    wants_csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a command for all combinations of its options' values, as a table.

    Options of the sweep stand before COMMAND. Points that the folder of results has are not
    computed again. Exit status 1 if any fails; the others are kept.
    """
    swept = SweptCommand(command)
    chosen, part = backend_of(backend, jobs, scheduler), shard_of(shard)
    if wants_csv and as_json:
        raise UserError("--csv and --json are two forms of one table; leave one of them out")
    names = _field_names(fields, command)
    found = [] if axes is None else axes_of_file(swept, axes)
    found = combined([*found, *axes_of_line(swept, words or [])])
    _check(swept, found)
    combinations = list(grid(found))
    # All are parsed, as the command would, before any is computed.
    points = [swept.point(values) for values in combinations]
    store = Store(results_folder(results, "sweep"))
    failed = compute(share(points, *part), store, chosen)
    kept = [store.read(point) for point in points]
    of_points = [None if result is None else fields_of(body(result)) for result in kept]
    require_fields(names, [each for each in of_points if each is not None])
    rows = [
        SweepRow(
            values=values,
            fields={name: each.get(name) for name in names},
            file=str(store.path(point)),
        )
        for values, point, each in zip(combinations, points, of_points, strict=True)
        if each is not None
    ]
    report = SweepReport(
        command=command,
        axes=found,
        fields=names,
        points=len(points),
        rows=rows,
        failed=failed,
        clock_hz=max((clock for each in of_points if each for clock in _clocks(each)), default=0.0),
    )
    if as_json:
        print_json(document("sweep", as_dict(report)))
    elif wants_csv:
        typer.echo(as_csv(report), nl=False)
    else:
        print_sweep(report)
    end_by_failures(failed)


def _clocks(fields: Mapping[str, Scalar]) -> list[float]:
    """The clocks that a result's times are of."""
    found = [value for name, value in fields.items() if name.rpartition(".")[2] == "clock_hz"]
    return [value for value in found if isinstance(value, float)]


def _field_names(text: str | None, command: str) -> list[str]:
    if text is None:
        return list(FIELDS[command])
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UserError(f"--fields must be names with commas between, not {text!r}")
    return list(dict.fromkeys(names))


def _check(swept: SweptCommand, axes: list[Axis]) -> None:
    for axis in axes:
        for value in axis.values:
            swept.check(axis.name, value)
