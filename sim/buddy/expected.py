"""The golden model's result of a trace: data, memories and sectors."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.golden.buddy.memory import SectorCounts
from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import ByteArray
from cdma.sim.buddy.content import Content, ReplayError
from cdma.sim.machine.buddy.trace import AccessTrace


@dataclass(frozen=True, eq=False, kw_only=True)
class Expected:
    """Results of a trace in the golden model, one access after the other.

    Attributes
    ----------
    content : Content
    trace : AccessTrace
    data : uint8 array
        As `trace.data`, with what reads read in their places.
    device_before, buddy_before, device_after, buddy_after : uint8 arrays
        The memories, metadata included.
    traffic : SectorCounts
        Sectors of entries that the accesses moved.
    """

    content: Content
    trace: AccessTrace
    data: ByteArray
    device_before: ByteArray
    buddy_before: ByteArray
    device_after: ByteArray
    buddy_after: ByteArray
    traffic: SectorCounts


@dataclass(frozen=True, eq=False)
class _Steps:
    """Accesses cut into their entries, in order.

    Attributes
    ----------
    start : int64 array (n,)
        The entries' addresses.
    write : bool array (n,)
    covered : bool array (n, 128)
        Which bytes of them the accesses are about.
    place : int64 array (n, 128)
        Where these bytes are in the trace's data.
    """

    start: IntArray
    write: npt.NDArray[np.bool_]
    covered: npt.NDArray[np.bool_]
    place: IntArray


def expect(content: Content, trace: AccessTrace) -> Expected:
    """Carry out a trace's accesses in the golden model.

    Raises
    ------
    ReplayError
        An access is outside of what is mapped.
    """
    memory = content.memory()
    end = memory.map.logical_bytes
    if np.any(trace.address + trace.nbytes > end) or np.any(trace.address < 0):
        raise ReplayError(f"addresses must be 0 to {end - 1}; there is no other memory")
    before = memory.device.copy(), memory.buddy.copy()
    memory.traffic = SectorCounts()
    data = trace.data.copy()
    steps = _steps(trace)
    # Entries know nothing of one another: the first access of each comes first, then the second.
    for step in _rounds(steps.start):
        for write in (False, True):
            chosen = step[steps.write[step] == write]
            if not chosen.size:
                continue
            start, covered = steps.start[chosen], steps.covered[chosen]
            place = steps.place[chosen][covered]
            if write:
                rows = np.zeros(covered.shape, np.uint8)
                rows[covered] = trace.data[place]
                memory.write_entries(start, rows, covered)
            else:
                data[place] = memory.read_entries(start, covered)[covered]
    return Expected(
        content=content,
        trace=trace,
        data=data,
        device_before=before[0],
        buddy_before=before[1],
        device_after=memory.device,
        buddy_after=memory.buddy,
        traffic=memory.traffic,
    )


def _steps(trace: AccessTrace) -> _Steps:
    first = trace.address // ENTRY_BYTES
    counts = (trace.address + trace.nbytes - 1) // ENTRY_BYTES - first + 1
    access = np.repeat(np.arange(len(trace)), counts)
    within = np.arange(access.size) - np.repeat(np.cumsum(counts) - counts, counts)
    start = (first[access] + within) * ENTRY_BYTES
    offset = start[:, None] + np.arange(ENTRY_BYTES) - trace.address[access, None]
    covered = (offset >= 0) & (offset < trace.nbytes[access, None])
    place = np.where(covered, trace.offsets[access, None] + offset, 0)
    write = trace.write[access]
    if trace.mask is not None:
        covered &= ~write[:, None] | trace.mask[place]
    return _Steps(start, write, covered, place)


def _rounds(start: IntArray) -> list[IntArray]:
    """Numbers of steps, so that no entry is in a round twice, and each one's are in order."""
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    groups = np.flatnonzero(begins)
    turn = np.arange(start.size) - groups[np.cumsum(begins) - 1]
    return [np.sort(order[turn == k]) for k in range(int(turn.max(initial=-1)) + 1)]
