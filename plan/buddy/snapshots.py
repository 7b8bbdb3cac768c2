"""Snapshots of memory: what each allocation held at several moments of a run.

They come from files and from the workloads that are shipped, in any mixture.
docs/guide/buddy/buddy-profile.md describes the files: an `.npz` archive has a member for each
snapshot of an allocation, named `allocation@time`, or `allocation` alone; an `.npy` file is a
snapshot of the allocation that its name, without suffix, names. Several sources with the same
allocation are its snapshots in the order given.
"""

import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.bf16 import rounded_to_bf16
from cdma.plan.workload import load_capture
from cdma.plan.workload.capture.fields import heat, indices, shallow_water

Array = npt.NDArray[Any]

_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
    OverflowError,
    struct.error,
)
"""What zipfile makes of an archive in memory that is none, or damaged, or encrypted."""


class SnapshotError(Exception):
    """Snapshots that cannot be read or do not fit together; the message is "cause; mend"."""


class Time(NamedTuple):
    """Time of a snapshot. Times sort in the order of the run."""

    source: int
    """The number of the source, or 0 if no allocation is in more than one."""
    order: tuple[tuple[int, int, str], ...]
    """By the time in the snapshot's name; nothing if there is none."""
    label: str


class Snapshot(NamedTuple):
    """Contents of an allocation at one time, as one source has them; the time may be ""."""

    name: str
    time: str
    array: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Allocation:
    """Contents of an allocation at each of some times.

    Attributes
    ----------
    name : str
    times : tuple of Time
        Ascending, each once.
    arrays : tuple of arrays
        One array for each time, all of the same number of bytes.
    """

    name: str
    times: tuple[Time, ...]
    arrays: tuple[Array, ...]

    @property
    def nbytes(self) -> int:
        """Size of the allocation in bytes."""
        return self.arrays[0].nbytes


def load_snapshots(sources: Sequence[str | os.PathLike[str]]) -> tuple[Allocation, ...]:
    """Read snapshots, each source an `.npz` or `.npy` file or one of `WORKLOADS`.

    Allocations come in the order in which they are first seen.

    Raises
    ------
    SnapshotError
        There is no source, or no such file or workload; a file is no such archive, or damaged, or
        holds something else than numbers; an allocation is empty, has two snapshots at one time,
        or changes its size.
    """
    if not sources:
        raise SnapshotError("no snapshots given; name .npz or .npy files, or a workload")
    found: dict[str, list[tuple[int, Snapshot]]] = {}
    labels = []
    for number, source in enumerate(sources):
        text = os.fspath(source)
        snapshots = WORKLOADS[text]() if text in WORKLOADS else read_arrays(text)
        labels.append(text if text in WORKLOADS else Path(text).stem)
        for snapshot in snapshots:
            found.setdefault(snapshot.name, []).append((number, snapshot))
    if all(len({number for number, _ in taken}) == 1 for taken in found.values()):
        labels = []
    return tuple(_allocation(name, taken, labels) for name, taken in found.items())


def in_bf16(allocations: Iterable[Allocation]) -> tuple[Allocation, ...]:
    """The allocations with all floats rounded to bf16, as bit patterns in uint16.

    Other numbers stay as they are.
    """
    return tuple(
        replace(allocation, arrays=tuple(_rounded(array) for array in allocation.arrays))
        for allocation in allocations
    )


def read_arrays(path: str | os.PathLike[str]) -> list[Snapshot]:
    """The snapshots in one file, in its order. See `load_snapshots` for the errors."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        cause = error.strerror or str(error)
        mend = f"name an .npz or .npy file, or one of {', '.join(WORKLOADS)}"
        raise SnapshotError(f"cannot read {path}: {cause}; {mend}") from error
    if content.startswith(np.lib.format.MAGIC_PREFIX):
        return [Snapshot(Path(path).stem, "", _array(str(path), content))]
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            snapshots = [
                _member(f"{path}, array {member.filename.removesuffix('.npy')},", member, archive)
                for member in archive.infolist()
                if member.filename.endswith(".npy")
            ]
    except _DAMAGED as error:
        raise SnapshotError(
            f"{path} is neither an .npz archive nor an .npy file, or it is damaged; save arrays "
            "with numpy.savez or numpy.save"
        ) from error
    if not snapshots:
        raise SnapshotError(f"{path} has no arrays in it; save some with numpy.savez")
    return snapshots


def _rounded(array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    # Beyond float32's range is infinity in bf16, too.
    with np.errstate(over="ignore"):
        return rounded_to_bf16(array.astype(np.float32))


def _member(where: str, member: zipfile.ZipInfo, archive: zipfile.ZipFile) -> Snapshot:
    full = member.filename.removesuffix(".npy")
    name, at, time = full.rpartition("@")
    array = _array(where, archive.read(member))
    return Snapshot(name, time, array) if at and name else Snapshot(full, "", array)


def _array(where: str, content: bytes) -> Array:
    try:
        array: Array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (ValueError, TypeError, SyntaxError, OverflowError, EOFError) as error:
        if "Object arrays" in str(error):
            raise SnapshotError(
                f"{where} holds pickled objects; save numbers (no dtype object)"
            ) from error
        raise SnapshotError(f"{where} is a damaged .npy file; save it again") from error
    if array.dtype.kind not in "biufc":
        raise SnapshotError(f"{where} has dtype {array.dtype}; save booleans, integers or floats")
    if not array.nbytes:
        raise SnapshotError(f"{where} is empty; leave it out")
    return array


def _allocation(name: str, taken: list[tuple[int, Snapshot]], labels: list[str]) -> Allocation:
    """Combine one allocation's snapshots; `labels` name the sources, if these are times."""
    at: dict[Time, Array] = {}
    for number, snapshot in taken:
        label = snapshot.time
        if labels:
            label = f"{labels[number]}@{label}" if label else labels[number]
        time = Time(number if labels else 0, _natural(snapshot.time), label)
        if time in at:
            raise SnapshotError(f"allocation {name} has two snapshots at {label!r}; rename one")
        at[time] = snapshot.array
    times = tuple(sorted(at))
    sizes = {time.label: at[time].nbytes for time in times}
    first, *others = sizes
    for other in others:
        if sizes[other] != sizes[first]:
            raise SnapshotError(
                f"allocation {name} changes its size, from {sizes[first]} B at {first!r} to "
                f"{sizes[other]} B at {other!r}; name what is allocated anew differently"
            )
    return Allocation(name=name, times=times, arrays=tuple(at[time] for time in times))


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which numbers in texts sort as numbers: step2 before step10."""
    return tuple(
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", text)
        if part
    )


def _of_capture(name: str) -> Callable[[], list[Snapshot]]:
    def snapshots() -> list[Snapshot]:
        found = []
        for activation in load_capture(name).activations:
            allocation, _, time = activation.name.rpartition("@")
            found.append(Snapshot(allocation, time, activation.array))
        return found

    return snapshots


def _of_fields(
    fields: Callable[[], Mapping[str, Sequence[Array]]],
) -> Callable[[], list[Snapshot]]:
    def snapshots() -> list[Snapshot]:
        return [
            Snapshot(name, str(number) if len(arrays) > 1 else "", array)
            for name, arrays in fields().items()
            for number, array in enumerate(arrays)
        ]

    return snapshots


def _of_all(names: Iterable[str]) -> Callable[[], list[Snapshot]]:
    return lambda: [snapshot for name in names for snapshot in WORKLOADS[name]()]


WORKLOADS: dict[str, Callable[[], list[Snapshot]]] = {
    "digits-cnn": _of_capture("digits-cnn"),
    "digits-cnn-training": _of_capture("digits-cnn-training"),
    "tiny-gpt": _of_capture("tiny-gpt"),
    "python-gpt": _of_capture("python-gpt"),
    "heat": _of_fields(heat),
    "shallow-water": _of_fields(shallow_water),
    "indices": _of_fields(indices),
    "mixed": _of_all(("digits-cnn-training", "heat", "shallow-water", "indices")),
}
"""Workloads that may stand in for files: training runs (docs/guide/plan/capture.md), solvers
and arrays of indices (`cdma.plan.workload.capture.fields`), and all of these together."""
