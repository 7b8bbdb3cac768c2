"""A Dask cluster on the loopback: a scheduler and workers, each a process that can be killed."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from distributed import Client

from tests.lib.paths import ROOT

LONGEST_S = 600


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes
    ----------
    address : str
        The scheduler's.
    workers : list of Popen
        One thread each, and nobody who starts them again.
    """

    address: str
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def cluster(
    folder: Path, workers: int, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Cluster]:
    """Run a cluster whose files and logs lie in a folder, with Dask's settings as variables."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        with (folder / f"{len(started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
            )
        started.append(process)

    address = folder / "scheduler.json"
    where = ("--scheduler-file", str(address))
    try:
        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *where)
        for _ in range(workers):
            start("worker", "--host", "127.0.0.1", "--no-nanny", "--nthreads", "1", *where)
        end = time.monotonic() + LONGEST_S
        while not address.exists():
            assert time.monotonic() < end, logs(folder)
            time.sleep(0.05)
        with Client(scheduler_file=str(address), set_as_default=False) as client:
            if workers:
                client.wait_for_workers(workers, timeout=LONGEST_S)
            found = client.scheduler.address
        yield Cluster(found, started[1:])
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def logs(folder: Path) -> str:
    """Everything that the cluster's processes have said."""
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.log")))
