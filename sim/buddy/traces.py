"""Traces for compressed memory: made of patterns, or read from files."""

import io
import os
import zipfile
from dataclasses import replace

import numpy as np

from cdma.golden.formats.interface import IntArray
from cdma.sim.buddy.content import Content, ReplayError
from cdma.sim.machine.buddy.trace import AccessTrace

PATTERNS = ("stream", "random", "strided")
STRIDE_BYTES = 8192 + 128
"""Default distance of strided accesses: each has its metadata in another
sector than the one before, and all entries of a page have their turn."""

_COLUMNS = ("id", "earliest", "beat_bytes")


def pattern_trace(
    content: Content,
    pattern: str,
    *,
    accesses: int,
    access_bytes: int = 128,
    read_fraction: float = 1.0,
    stride_bytes: int = STRIDE_BYTES,
    seed: int = 0,
) -> AccessTrace:
    """Make a trace of accesses to memory's contents by a pattern; their IDs go round.

    Parameters
    ----------
    content : Content
    pattern : str
        "stream": one piece of memory after the other, from the start again after the last;
        "random": any, each time; "strided": pieces that are `stride_bytes` apart.
    accesses : int
    access_bytes : int
        Of each: a power of two, up to 4096.
    read_fraction : float
        How many of them are reads, drawn at random. Writes put there what `content` says.
    stride_bytes : int
    seed : int
        Of what is drawn at random.

    Raises
    ------
    ReplayError
        There is no such pattern, or a parameter is out of range.
    """
    if pattern not in PATTERNS:
        raise ReplayError(f"unknown pattern {pattern!r}; choose {', '.join(PATTERNS)}")
    if accesses < 1:
        raise ReplayError(f"there must be at least 1 access, not {accesses}")
    if access_bytes not in (sizes := [1 << i for i in range(13)]):
        raise ReplayError(f"accesses must have a power of two of bytes, {sizes[0]} to {sizes[-1]}")
    if not 0 <= read_fraction <= 1:
        raise ReplayError(f"the fraction of reads must be 0 to 1, not {read_fraction:g}")
    if stride_bytes < 1:
        raise ReplayError(f"the stride must be at least 1 B, not {stride_bytes}")
    rng = np.random.default_rng(seed)
    units = content.units(access_bytes)
    numbers = np.arange(accesses)
    if pattern == "random":
        order = rng.integers(0, units.size, accesses)
    elif pattern == "strided":
        order = _strided(numbers, max(1, stride_bytes // access_bytes), units.size)
    else:
        order = numbers % units.size
    trace = AccessTrace.uniform(
        write=rng.random(accesses) >= read_fraction,
        address=units[order],
        nbytes=access_bytes,
        id=numbers % (1 << content.config.id_bits),
        # Wider beats would ask for more than the access.
        beat_bytes=min(access_bytes, content.config.entry.sector_bytes),
    )
    return _with_data(trace, content)


def load_trace(path: str | os.PathLike[str], content: Content) -> AccessTrace:
    """A trace from an `.npz` archive: `address`, `bytes` and `write`, and if need be `id`,
    `earliest` (cycles), `beat_bytes` and `data`, the bytes of all accesses one after the other.

    Without `data`, writes put there what `content` says.

    Raises
    ------
    ReplayError
        It cannot be read, or its arrays do not fit together.
    """
    try:
        # numpy leaves a file open that it cannot read, and reads no pipe.
        with open(path, "rb") as file:
            archived = io.BytesIO(file.read())
        with np.load(archived, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, TypeError, AttributeError) as error:
        raise ReplayError(
            f"{os.fspath(path)} is no trace that can be read; save arrays with numpy.savez"
        ) from error
    missing = {"address", "bytes", "write"} - arrays.keys()
    if missing:
        raise ReplayError(
            f"{os.fspath(path)} has no array {sorted(missing)[0]!r}; a trace has address, bytes "
            "and write"
        )
    count = arrays["address"].size
    for name in ("address", "bytes", "write", *_COLUMNS):
        if name in arrays and arrays[name].shape not in ((count,), ()):
            raise ReplayError(f"{name} must be of {count} accesses, as address is")
    if not count:
        raise ReplayError(f"{os.fspath(path)} has no accesses; give some")
    trace = AccessTrace.uniform(
        write=arrays["write"].astype(np.bool_),
        address=arrays["address"],
        nbytes=arrays["bytes"],
        **{name: arrays[name] for name in _COLUMNS if name in arrays},
    )
    if np.any(trace.address < 0) or np.any(trace.address + trace.nbytes > content.after.size):
        raise ReplayError(
            f"addresses must be 0 to {content.after.size - 1}: there is no other memory; "
            "give more data"
        )
    if "data" not in arrays:
        return _with_data(trace, content)
    data = np.ascontiguousarray(arrays["data"]).reshape(-1).view(np.uint8)
    if data.size != trace.data.size:
        raise ReplayError(
            f"data must have {trace.data.size} B, one for each accessed, not {data.size}"
        )
    return replace(trace, data=data)


def _strided(numbers: IntArray, stride: int, count: int) -> IntArray:
    """Steps of a stride that starts one further each time round, so that all are reached."""
    per_round = -(-count // stride)
    rounds, step = np.divmod(numbers, per_round)
    return np.asarray((step * stride + rounds) % count)


def _with_data(trace: AccessTrace, content: Content) -> AccessTrace:
    """Fill in the data of a trace's writes from the content."""
    # The bytes' addresses, access by access.
    inside = np.arange(trace.data.size) - np.repeat(trace.offsets[:-1], trace.nbytes)
    data = content.after[np.repeat(trace.address, trace.nbytes) + inside]
    return replace(trace, data=data)
