"""Options of the commands that compute points: where, which of them, and where results are kept."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cdma.builds.cache import cache_directory
from cdma.commands.completers import among
from cdma.commands.network_options import files_of
from cdma.errors import UserError
from cdma.outputs import require_folder
from cdma.plan.workload import capture_names
from cdma.sweep.backends import DaskCluster, LocalProcesses, SweepBackend
from cdma.sweep.point import PointOutcome, file_digest

LOCAL, DASK = "local", "dask"
BACKENDS = (LOCAL, DASK)

_SHARD = re.compile(r"([1-9][0-9]*)/([1-9][0-9]*)")

_SHARED = re.compile(r"(?<=\.toml|\.json)/[0-9]+$")

Results = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where points are kept; in the cache if not given."),
]
Shard = Annotated[
    str | None, typer.Option(metavar="I/N", help="Compute part I of N of the points only.")
]
Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", help="Processes of this machine; one per core if not given, or -1."),
]
BackendName = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="|".join(BACKENDS),
        help=f"{LOCAL}: processes of this machine. {DASK}: workers of a cluster.",
        autocompletion=among(*BACKENDS),
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help=f"With --backend {DASK}, as tcp://host:8786."),
]


def shard_of(text: str | None) -> tuple[int, int]:
    """The part that `--shard` asks for, and the number of parts; all is 1 of 1."""
    if text is None:
        return 1, 1
    found = _SHARD.fullmatch(text)
    if found is None:
        raise UserError(f"--shard must be as 1/4, the first part of four, not {text!r}")
    return int(found[1]), int(found[2])


def backend_of(name: str, jobs: int | None, scheduler: str | None) -> SweepBackend:
    """The backend that the options ask for; `UserError` for options of the other one."""
    if name not in BACKENDS:
        raise UserError(f"unknown backend {name!r}; choose {' or '.join(BACKENDS)}")
    if jobs is not None and (jobs == 0 or jobs < -1):
        raise UserError(f"--jobs must be -1 or at least 1, not {jobs}")
    if name == LOCAL:
        if scheduler is not None:
            raise UserError(f"--scheduler is for --backend {DASK}; give both, or leave it out")
        return LocalProcesses(jobs=-1 if jobs is None else jobs)
    if scheduler is None:
        raise UserError(f"--backend {DASK} needs --scheduler ADDRESS, as tcp://host:8786")
    if jobs is not None:
        raise UserError(f"--jobs is for --backend {LOCAL}; start as many workers as you like")
    return DaskCluster(scheduler=scheduler)


def results_folder(results: Path | None, command: str) -> Path:
    """The folder of results: a command's own one in the cache, if none is given; `UserError` for
    one that cannot be."""
    if results is None:
        return cache_directory() / command
    require_folder(results)
    return results


def user_files(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The files that values of options name, with hashes of their contents.

    Captures that come with the package are none: its sources count anyhow.
    """
    # A link's file may be shared by devices, as own.toml/4.
    named = [_SHARED.sub("", value) for value in values if value not in capture_names()]
    paths = dict.fromkeys(path.absolute() for path in files_of(named) if path.is_file())
    return tuple((os.fspath(path), file_digest(os.fspath(path))) for path in paths)


def end_by_failures(failed: Sequence[PointOutcome]) -> None:
    """Name each point that failed on stderr, and end the command with status 1 if any did."""
    for outcome in failed:
        typer.echo(f"cdma: failed: {outcome.point.name}: {outcome.error}", err=True)
    if failed:
        raise typer.Exit(1)
