"""The flow of a transfer whose zeros are not everywhere alike, line by line.

Where a tensor is dense the link is what limits, and where it is empty the units; a buffer between
them evens out what is shorter than it holds. So each part of a tensor takes what its own narrowest
bottleneck takes, and the sum is more than the tensor's mean density says. In max-plus form, each
line leaves a stage when the line before has left it, when the line has come from the stage before,
and when the stage behind has space:

    out: read i    = max(read i-1 + 1 / rate, a line's space in the buffer)
         drained i = max(read i + trip, drained i-1, space for its burst) + cycles at the port
         burst k   = max(burst k-1, drained end of k) + bytes / link
    in:  burst k   = max(burst k-1, space in the read buffer) + bytes / link
         split i   = max(burst k with the end of i + trip, split i-1, space at the units) + port
         written i = max(split i, written i-1) + 1 / rate

A transfer of equal lines comes to the closed form of `cdma.plan.engine_cost.transfer`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from cdma.hw.config import EngineConfig
from cdma.hw.dma.limits import HOST_BURST_BEATS, QUEUED_LINES
from cdma.plan.engine_cost.packing import is_slowed_by_port

AHEAD_SECTORS = 1
"""Sectors by which lines that pass two beats in a cycle, or a narrower port, may be ahead of the
port on the way out, and behind it on the way in: what packer and unpacker hold. Where one beat
passes in a cycle, lines are no faster than a port of a sector."""


@dataclass(frozen=True, kw_only=True)
class LineFlow:
    """Rates and windows that the lines of a transfer pass.

    Attributes
    ----------
    engine : EngineConfig
    line_cycles : float
        Cycles per line at the units or at DRAM, whichever is more.
    lines_cycles : float
        The round trip of a line between a unit and its memory.
    cap_cycles, cap_lines : float
        Cycles per line at the throttle, and the lines of a burst that do not wait for it.
    byte_cycles : float
        Cycles per byte of the stream on the link.
    burst_cycles : float
        Cycles per burst on the link, beside those of its bytes.
    read_cycles : float
        The round trip of a read on the link.
    write_cycles : float
        Cycles from a write burst's last byte on the link to its response.
    write_bursts : int
        Write bursts that may wait for their response.
    held_bursts : int
        Bursts that are gathered and have not left yet.
    """

    engine: EngineConfig
    line_cycles: float
    lines_cycles: float
    cap_cycles: float
    cap_lines: float
    byte_cycles: float
    burst_cycles: float
    read_cycles: float
    write_cycles: float
    write_bursts: int
    held_bursts: int


def out_cycles(lines: Sequence[int], flow: LineFlow) -> float:
    """Cycles from the first line's data to the last byte on the link.

    Parameters
    ----------
    lines : sequence of int
        Bytes of the stream, head included, by line.
    flow : LineFlow
    """
    engine = flow.engine
    burst_bytes = HOST_BURST_BEATS * engine.host_bytes
    beats = _beats(lines, engine)
    is_slowed = is_slowed_by_port(engine, engine.drain_beats)
    ahead = _ahead_cycles(engine)
    buffer_beats = engine.unit_lines * engine.units * engine.codec.sectors
    reads = _Reservations(buffer_beats, engine.codec.sectors)
    read = -flow.line_cycles
    drained = free = packed = 0.0
    port_cycles = _port_cycles(lines, beats, engine, 2, engine.drain_beats)
    offset = start = 0
    left: deque[float] = deque(maxlen=max(flow.held_bursts, flow.write_bursts))
    for i, size in enumerate(lines):
        capped = (i - flow.cap_lines) * flow.cap_cycles
        read = reads.next(max(read + flow.line_cycles, capped))
        here = read + flow.line_cycles
        begins = max(here, drained)
        drained = begins + port_cycles[i]
        packed = max(packed, begins) + size / engine.stream_bytes_per_cycle
        if is_slowed:
            drained = max(drained, packed - ahead)
        reads.arrive(read + flow.lines_cycles, beats[i])
        offset += size
        ends = i == len(lines) - 1
        while offset - start >= burst_bytes or (ends and offset > start):
            nbytes = min(burst_bytes, offset - start)
            start += nbytes
            stored = drained - (offset - start) / engine.stream_bytes_per_cycle
            stored += -(-nbytes // engine.host_bytes)
            if len(left) >= flow.write_bursts:
                stored = max(stored, left[-flow.write_bursts] + flow.write_cycles)
            free = max(free, stored) + nbytes * flow.byte_cycles + flow.burst_cycles
            left.append(free)
            if len(left) >= flow.held_bursts:
                drained = max(drained, left[-flow.held_bursts])
        reads.leave(drained + flow.lines_cycles, beats[i])
    return free


def in_cycles(lines: Sequence[int], flow: LineFlow) -> float:
    """Cycles from the first byte on the link to the last line at its unit; see `out_cycles`."""
    engine = flow.engine
    burst_bytes = HOST_BURST_BEATS * engine.host_bytes
    beats = _beats(lines, engine)
    is_slowed = is_slowed_by_port(engine, engine.split_beats)
    ahead = _ahead_cycles(engine)
    queued = QUEUED_LINES * engine.codec.sectors * engine.units
    total = sum(lines)
    asked = 0
    link = written = split = fed = 0.0
    at_once = min(engine.split_lines, engine.codec.entries[0].lines_per_cycle)
    port_cycles = _port_cycles(lines, beats, engine, at_once, engine.split_beats)
    taken = 0
    # Splits by the stream's bytes before them, of which the read buffer is free by then.
    freed: deque[tuple[int, float]] = deque()
    at_units: deque[tuple[float, int]] = deque()
    waiting = 0
    outstanding: deque[float] = deque(maxlen=engine.unit_lines * engine.units)
    for i, size in enumerate(lines):
        taken += size
        while asked < taken:
            nbytes = min(burst_bytes, total - asked)
            needs = asked + nbytes - engine.read_buffer_bytes
            while freed and freed[0][0] < needs:
                freed.popleft()
            # Room is asked for a trip before its bytes come.
            space_free = freed[0][1] + flow.read_cycles if needs > 0 and freed else 0.0
            link = max(link, space_free) + nbytes * flow.byte_cycles + flow.burst_cycles
            asked += nbytes
        come = link - (asked - taken) * flow.byte_cycles
        fed = max(fed, split - ahead) + size / engine.stream_bytes_per_cycle
        split = max(split + port_cycles[i], come)
        if is_slowed:
            split = max(split, fed)
        waiting += beats[i]
        while waiting > queued:
            done, count = at_units.popleft()
            waiting -= count
            split = max(split, done)
        freed.append((taken, split))
        written = max(split, written) + flow.line_cycles
        if len(outstanding) == outstanding.maxlen:
            written = max(written, outstanding[0] + flow.lines_cycles)
        outstanding.append(written)
        at_units.append((written, beats[i]))
    return written


class _Reservations:
    """Beats of the buffer: a line's worst case from its request on, its own from its arrival on."""

    def __init__(self, beats: int, worst: int) -> None:
        self.free = beats
        self.worst = worst
        self._arrivals: deque[tuple[float, int]] = deque()
        self._leaves: deque[tuple[float, int]] = deque()

    def next(self, earliest: float) -> float:
        """Return the time at which a line can be requested, `earliest` or later."""
        while self.free < self.worst:
            queue = self._leaves
            if self._arrivals and (not queue or self._arrivals[0][0] <= queue[0][0]):
                queue = self._arrivals
            moment, count = queue.popleft()
            earliest = max(earliest, moment)
            self.free += count
        self.free -= self.worst
        return earliest

    def arrive(self, moment: float, beats: int) -> None:
        self._arrivals.append((moment, self.worst - beats))

    def leave(self, moment: float, beats: int) -> None:
        self._leaves.append((moment, beats))


def _ahead_cycles(engine: EngineConfig) -> float:
    """Cycles of the port that lines may be ahead of it, or behind."""
    return AHEAD_SECTORS * engine.codec.sector_bytes / engine.stream_bytes_per_cycle


def _beats(lines: Sequence[int], engine: EngineConfig) -> list[int]:
    """Cycles of each line at the port: at least one, for its head."""
    codec = engine.codec
    head = codec.entries[0].head_bytes(codec)
    return [max(1, -(-(size - head) // codec.sector_bytes)) for size in lines]


def _port_cycles(
    lines: Sequence[int],
    beats: Sequence[int],
    engine: EngineConfig,
    lines_at_once: int,
    chunk_beats: int,
) -> list[int]:
    """Cycles that each line takes at the port beyond those of the line before."""
    cycles = []
    joins = False
    for i, count in enumerate(beats):
        # Its first beat leaves with the last one of the line before, if that is not full already.
        full = joins and beats[i - 1] == 1
        joins = lines_at_once == 2 and i > 0 and not full
        if chunk_beats == 1:
            joins = joins and _together(lines[i - 1], lines[i], engine)
        elif not engine.codec.entries[0].head_bytes(engine.codec):
            joins = False
        cycles.append(count - joins)
    return cycles


def _together(first: int, second: int, engine: EngineConfig) -> bool:
    """Return True if two lines pass the port in one cycle: in a head and a sector."""
    codec = engine.codec
    head = codec.entries[0].head_bytes(codec)
    return bool(head) and first + second - head <= codec.sector_bytes
