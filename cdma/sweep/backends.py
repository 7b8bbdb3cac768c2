"""Backends: the places where points are computed."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cdma.builds.extras import extra
from cdma.errors import UserError
from cdma.sweep.point import PointOutcome, SweepPoint
from cdma.terminal.interruption import Interruption

CONNECT_S = 10
"""So long a scheduler may take to answer."""


class SweepBackend(Protocol):
    """Computes points by a function, in any order, and yields each outcome as it comes."""

    def outcomes(
        self, function: Callable[[SweepPoint], PointOutcome], points: Sequence[SweepPoint]
    ) -> Iterator[PointOutcome]: ...


@dataclass(frozen=True, kw_only=True)
class LocalProcesses:
    """Processes of this machine, by joblib.

    Attributes
    ----------
    jobs : int
        How many; -1 for one per core.
    """

    jobs: int = -1

    def outcomes(
        self, function: Callable[[SweepPoint], PointOutcome], points: Sequence[SweepPoint]
    ) -> Iterator[PointOutcome]:
        # Here, as little else needs it.
        with extra("plan"):
            from joblib import Parallel, delayed
            from joblib.externals.loky.process_executor import TerminatedWorkerError

        # One point per batch: what is done is kept at once.
        parallel = Parallel(n_jobs=self.jobs, return_as="generator_unordered", batch_size=1)
        try:
            yield from parallel(delayed(_outcome)(function, point, os.getpid()) for point in points)
        except TerminatedWorkerError as error:
            raise UserError(
                "a process that computed points was killed, perhaps for want of memory; run the "
                "sweep again with fewer --jobs: it goes on where it was"
            ) from error


def _outcome(
    function: Callable[[SweepPoint], PointOutcome], point: SweepPoint, started_by: int
) -> PointOutcome:
    """Compute a point; a signal ends this process once the point's temporary files are removed."""
    if os.getpid() == started_by:
        # One job is no other process, and the command itself takes care of signals.
        return function(point)
    with Interruption() as interruption:
        try:
            return function(point)
        except KeyboardInterrupt:
            pass
    os._exit(interruption.status or 1)


@dataclass(frozen=True, kw_only=True)
class DaskCluster:
    """Workers of a Dask scheduler. A point whose worker is lost goes to another one.

    Attributes
    ----------
    scheduler : str
        Its address, as tcp://host:8786.
    """

    scheduler: str

    def outcomes(
        self, function: Callable[[SweepPoint], PointOutcome], points: Sequence[SweepPoint]
    ) -> Iterator[PointOutcome]:
        with extra("dask"):
            from distributed import as_completed

        with self._client() as client:
            if not client.scheduler_info()["workers"]:
                raise UserError(
                    f"the Dask scheduler at {self.scheduler} has no workers; start some with "
                    f"`dask worker {self.scheduler} --nthreads 1`"
                )
            # Not pure: what this sweep computes, it computes for itself.
            futures = {client.submit(function, each, pure=False): each for each in points}
            for future in as_completed(list(futures), loop=client.loop):
                point = futures.pop(future)
                if future.status == "finished":
                    yield future.result()
                else:
                    reason = " ".join(str(future.exception()).split())
                    yield PointOutcome(point=point, error=f"lost by the cluster: {reason}")

    def _client(self) -> Any:
        from distributed import Client

        try:
            return Client(self.scheduler, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UserError(
                f"no Dask scheduler answers at {self.scheduler}; start one with `dask scheduler`, "
                "and give the address that it prints"
            ) from error
