"""Bounds of what a transfer asks for behind its first error: at most what was outstanding.

AXI lets no burst be taken back, and stages work ahead of each other. So behind an error there are
bursts that a look into the future would have spared, as many as the queues between the stages hold.
The bounds are in bytes of whole beats, and tests hold the engine to them.
"""

from dataclasses import dataclass

from cdma.hw.config import EngineConfig
from cdma.hw.dma.inbound.expansion import REPORTS, unchecked_lines
from cdma.hw.dma.limits import HOST_BURST_BEATS

STOP_CYCLES = 8
"""From the answer with an error at a port to the last request of the stages that ask."""

SLOTS = 4
"""Requests that wait between a stage and its bus, in two buffers of two."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Bytes of bursts whose address is accepted behind a transfer's first error.

    Of a bus's answer, those are bursts from the cycle on in which it is taken. A stream's error, or
    the end of the capacity, is a place in the data: those bursts count that only bytes behind it
    need. An abort counts from its register's write.

    Attributes
    ----------
    out_reads
        Of device memory, on the way out: behind an error's answer, whatever bus gave it, or an
        abort.
    out_reads_beyond
        Of device memory, behind the line in which the capacity ends.
    out_writes
        Of host memory, behind the answer to a write. They are right, or lie behind the burst.
    out_writes_owed
        Of host memory, behind the answer to a read, or an abort: bytes that were read before, and
        that the record counts.
    in_reads
        Of host memory, on the way in: behind the answer to a read, or an abort.
    in_reads_beyond
        Of host memory: behind the answer to a write, an error in the stream or the end of the
        capacity.
    in_writes
        Of device memory, likewise. Behind the answer to a read, the lines before it are written,
        and the record counts them.
    """

    out_reads: int
    out_reads_beyond: int
    out_writes: int
    out_writes_owed: int
    in_reads: int
    in_reads_beyond: int
    in_writes: int


def inbound_lines(config: EngineConfig) -> int:
    """The most lines that have been split off streams and have no report yet."""
    lines = unchecked_lines(config.codec) + config.unit_lines + REPORTS
    return config.units * lines


def reach(config: EngineConfig) -> Reach:
    """Return the bounds of an engine."""
    codec = config.codec
    sector, host = codec.sector_bytes, config.host_bytes
    # A converter holds a beat of each width at most.
    between = 0 if host == sector else sector + host
    # A line that begins inside a beat lies in one beat more.
    line = codec.line_bytes + sector
    issued = 2 * STOP_CYCLES + SLOTS * config.units
    # Each line in the buffer has a beat at least, and each of those behind it an element.
    buffered = config.units * config.unit_beats
    drained = (SLOTS * sector + between) // codec.element_bytes
    stream = buffered * (sector + codec.head_elements * codec.element_bytes)
    queued = 2 * HOST_BURST_BEATS + STOP_CYCLES
    bursts = HOST_BURST_BEATS * host
    lines = inbound_lines(config)
    in_reads = (SLOTS + STOP_CYCLES) * bursts
    return Reach(
        out_reads=min(issued, buffered) * line,
        out_reads_beyond=(buffered + drained + issued) * line,
        out_writes=queued * host,
        out_writes_owed=stream + (queued + 2 * SLOTS) * host + between,
        in_reads=min(in_reads, (config.read_beats + STOP_CYCLES) * host),
        in_reads_beyond=lines * codec.worst_line_bytes
        + between
        + config.read_buffer_bytes
        + SLOTS * bursts,
        in_writes=lines * line,
    )
