"""Duration of a transfer of the engine, from its bytes and the machine's figures.

A transfer is a fixed latency there and back, and a flow that is as fast as its narrowest
bottleneck.

*Latency*, to the host: the descriptor's read (two latencies of the link and 64 bytes), the first
data's read (DRAM), the last data's way to the host, the record's (the link each), and what the
engine itself takes. To the device: the descriptor's read, the first data's (two latencies again),
the last data's write (DRAM), the record's way.

*Bottlenecks* (`cdma.plan.engine_cost.bottlenecks`): the link with its efficiency, and its overhead
per burst; the engine's port to it, at which a compressed line takes whole cycles
(`cdma.plan.engine_cost.packing`); its units; DRAM; the throttle, a token bucket; and three windows,
which give what they hold once per round trip: lines between units and DRAM, write bursts
outstanding to the host, and the read buffer for streams from it.

*Bursts* to the host are gathered whole before they leave: behind the device's bottlenecks the last
one still takes its time on the link, and before the link's the first one is gathered.

*Variable density*: where zeros are not everywhere alike, and the lines' sizes are known, each part
of the tensor is as fast as its own narrowest bottleneck (`cdma.plan.engine_cost.variable_density`).

*Engines side by side* have an equal part each, at the same time: the transfer ends with the part
that takes longest.

Several transfers in the ring overlap: the latency of the first is all there is, and what each adds
is its flow and its record or descriptor on the link; but descriptors come no faster than
`EngineConfig.transfers` per round trip.

The engine's own cycles are measured in its RTL, once; all else is the configuration's. How far this
is from the RTL stands in docs/guide/swap/estimate.md; short transfers in the ring in large numbers
may take 15 % longer than this says, and 30 % where they are more than four at once.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdma.hw.config import EngineConfig
from cdma.hw.dma.limits import ENTRY_BYTES, HOST_BURST_BEATS
from cdma.plan.engine_cost.bottlenecks import (
    LINE_CYCLES,
    READ_CYCLES,
    WRITE_CYCLES,
    Bottleneck,
    bottlenecks_of,
    slowest,
)
from cdma.plan.engine_cost.packing import LineSizes
from cdma.plan.engine_cost.variable_density import LineFlow, in_cycles, out_cycles
from cdma.plan.platform.environment import MachineConfig, part_lines
from cdma.plan.platform.throttles import THROTTLES, Throttle

WAYS = ("out", "in")
"""Device to host, and back."""

# What the engine adds to the latencies, and to the round trip of a descriptor, in cycles.
OUT_CYCLES = 43
IN_CYCLES = 60
FETCH_CYCLES = 36

WRITER_BURSTS = 2
"""Of writes to the host, that the engine gathers and sends (`cdma.hw.dma.outbound.writer`)."""

CEILING_LINES = 1 << 33
"""Enough that a burst is nothing."""


class EstimateError(ValueError):
    """A transfer that cannot be: "cause; mend"."""


@dataclass(frozen=True, kw_only=True)
class TransferCost:
    """Cost of a transfer in cycles, by what another transfer could overlap.

    Attributes
    ----------
    latency_cycles : float
        The cycles in which another transfer could flow.
    flow_cycles : float
        The cycles in which its bytes occupy the narrowest bottleneck.
    link_cycles : float
        The cycles of its record (to the host) or its descriptor (to the device) on the same link.
    fetch_cycles : float
        The least cycles per descriptor when many of them are short.
    limit : str
        The narrowest bottleneck: `link`, `port`, `units`, `dram`, `throttle`, `lines`, `writes` or
        `reads`.
    clock_hz : float
    """

    latency_cycles: float
    flow_cycles: float
    link_cycles: float
    fetch_cycles: float
    limit: str
    clock_hz: float

    @property
    def cycles(self) -> float:
        """Cycles from the doorbell to the record in host memory, alone in the ring."""
        return self.latency_cycles + self.flow_cycles + self.link_cycles

    @property
    def seconds(self) -> float:
        return self.cycles / self.clock_hz

    @property
    def queued_cycles(self) -> float:
        """Cycles that the transfer adds to others that are in the ring with it."""
        return max(self.flow_cycles + self.link_cycles, self.fetch_cycles)


def transfer_cost(
    raw_bytes: float,
    stream_bytes: float,
    *,
    way: str,
    machine: MachineConfig,
    engine: EngineConfig,
    throttle: Throttle = THROTTLES["none"],
    compressed: bool = True,
    lines: Sequence[int] | None = None,
    sizes: LineSizes | None = None,
) -> TransferCost:
    """Estimate the cost of a transfer.

    Parameters
    ----------
    raw_bytes : float
        Bytes of the tensor on the device, more than 0.
    stream_bytes : float
        Bytes on the link; `raw_bytes` for a plain copy.
    way : str
        `out`, device to host, or `in`.
    machine : MachineConfig
    engine : EngineConfig
        Each, if the machine has several.
    throttle : Throttle
        Limit of reads of device memory, of each engine; transfers to the device ignore it.
    compressed : bool
        True if the engine compresses, or expands, on the way.
    lines : sequence of int, optional
        Bytes of the stream by line, where they are known. Otherwise zeros are taken to be spread
        evenly; a tensor with long runs of them takes longer than that.
    sizes : LineSizes, optional
        Of the stream's lines, in any order; those of lines whose zeros are anywhere if not given.

    Raises
    ------
    EstimateError
        There is no such way, a size is not positive, or the lines are not `stream_bytes`.
    """
    outward = _outward(way)
    if not 0 < raw_bytes < math.inf or not 0 < stream_bytes < math.inf:
        raise EstimateError(
            "raw_bytes and stream_bytes must be more than 0, not "
            f"{raw_bytes:g} and {stream_bytes:g}"
        )
    if lines is not None and (not compressed or sum(lines) != stream_bytes):
        raise EstimateError("lines must be those of a compressed stream, stream_bytes together")
    parts = _parts(raw_bytes, stream_bytes, lines, machine.engines)
    return max(
        (
            _engine_cost(raw, stream, part, outward, machine, engine, throttle, compressed, sizes)
            for raw, stream, part in parts
        ),
        key=lambda cost: cost.cycles,
    )


def transfer_seconds(
    raw_bytes: float,
    stream_bytes: float,
    *,
    way: str,
    machine: MachineConfig,
    engine: EngineConfig,
    throttle: Throttle = THROTTLES["none"],
    compressed: bool = True,
) -> float:
    """Seconds from the doorbell to the record; `transfer_cost` has arguments and errors."""
    return transfer_cost(
        raw_bytes,
        stream_bytes,
        way=way,
        machine=machine,
        engine=engine,
        throttle=throttle,
        compressed=compressed,
    ).seconds


def ceilings(
    density: float,
    *,
    way: str,
    machine: MachineConfig,
    engine: EngineConfig,
    throttle: Throttle = THROTTLES["none"],
) -> dict[str, float]:
    """Throughput that each bottleneck allows a transfer so large that latencies do not count.

    The least of them is cDMA's model (§VI): with link and throttle alone it is `S / max(S / (rL),
    S / CAP)` for S bytes at the ratio r.

    Parameters
    ----------
    density : float
        Part of the elements that is not zero, 0…1.
    way, machine, engine, throttle
        As of `transfer_cost`.

    Returns
    -------
    dict of str to float
        Raw bytes per second by bottleneck.

    Raises
    ------
    EstimateError
        There is no such way, or the density is not 0…1.
    """
    outward = _outward(way)
    if not 0 <= density <= 1:
        raise EstimateError(f"density must be 0 to 1, not {density:g}")
    codec = engine.codec
    raw = float(CEILING_LINES * codec.line_bytes)
    stream = codec.entries[0].mean_stream_bytes(raw, density, codec)
    device, link = bottlenecks_of(raw, stream, outward, machine, engine, throttle, True)
    return {
        bottleneck.name: raw
        * bottleneck.per_cycle
        / bottleneck.nbytes
        * machine.clock_hz
        * machine.engines
        for bottleneck in [*link, *device]
    }


def queue_cycles(costs: Iterable[TransferCost]) -> float:
    """Cycles of transfers one way that are in the ring together, from doorbell to last record."""
    queue = list(costs)
    if not queue:
        return 0.0
    return queue[0].cycles + sum(cost.queued_cycles for cost in queue[1:])


def _outward(way: str) -> bool:
    if way not in WAYS:
        raise EstimateError(f"way must be {' or '.join(WAYS)}, not {way!r}")
    return way == "out"


def _parts(
    raw_bytes: float, stream_bytes: float, lines: Sequence[int] | None, engines: int
) -> list[tuple[float, float, Sequence[int] | None]]:
    """The part of each engine that has one: bytes of the tensor, of the stream, and its lines.

    Without lines all parts are alike, and one stands for all.
    """
    if lines is None or engines == 1:
        return [(raw_bytes / engines, stream_bytes / engines, lines)]
    each = part_lines(len(lines), engines)
    cuts = [lines[start : start + each] for start in range(0, len(lines), each)]
    line_bytes = raw_bytes / len(lines)
    return [(line_bytes * len(cut), float(sum(cut)), cut) for cut in cuts]


def _engine_cost(
    raw_bytes: float,
    stream_bytes: float,
    lines: Sequence[int] | None,
    outward: bool,
    machine: MachineConfig,
    engine: EngineConfig,
    throttle: Throttle,
    compressed: bool,
    sizes: LineSizes | None,
) -> TransferCost:
    """The cost of a transfer, or of its part, by one engine."""
    entry = ENTRY_BYTES + machine.link_overhead_bytes
    record = entry / machine.link_out_bytes_per_cycle
    descriptor = entry / machine.link_in_bytes_per_cycle
    latency = machine.link_latency_cycles
    fetch = 2 * latency + descriptor
    fixed = fetch + latency + machine.dram_latency_cycles
    device, link = bottlenecks_of(
        raw_bytes, stream_bytes, outward, machine, engine, throttle, compressed, sizes
    )
    flow, limit = slowest([*device, *link])
    if outward:
        # The last data's way; the record's is in `fixed`.
        fixed += latency + OUT_CYCLES
        moving = _out_cycles(device, link, stream_bytes, machine, engine)
        occupied = record
    else:
        # The first data's way there and back. The descriptor's time on the link is in `fetch`, and
        # in what each takes of it if queued.
        fixed += 2 * latency + IN_CYCLES - descriptor + record
        moving = flow
        occupied = descriptor
    uneven = 0.0
    if lines is not None:
        line_flow = _line_flow(device, link, outward, machine, engine, throttle)
        uneven = (out_cycles if outward else in_cycles)(lines, line_flow) - moving
    return TransferCost(
        latency_cycles=fixed + moving - flow,
        flow_cycles=flow + uneven,
        link_cycles=occupied,
        fetch_cycles=(fetch + FETCH_CYCLES) / engine.transfers,
        limit=limit,
        clock_hz=machine.clock_hz,
    )


def _out_cycles(
    device: Sequence[Bottleneck],
    link: Sequence[Bottleneck],
    stream: float,
    machine: MachineConfig,
    engine: EngineConfig,
) -> float:
    """Cycles from the first data to the last byte on the link.

    A burst is gathered whole, passes into the link's buffer a beat per cycle, and leaves whole. Any
    burst may be the last one that has to wait for its data; as data flow evenly, it is the first
    one, the last whole one, or the last.
    """
    burst = HOST_BURST_BEATS * engine.host_bytes
    count = math.ceil(stream / burst)
    most = 0.0
    for k in {1, max(1, count - 1), count}:
        end = min(k * burst, stream)
        start = (k - 1) * burst
        gathered, _ = slowest(device, end / stream)
        # A line's last beat is as long at the port as a whole one.
        gathered = max(gathered, math.ceil((end - start) / engine.stream_bytes_per_cycle))
        leaves, _ = slowest(link, (stream - start) / stream)
        most = max(most, gathered + math.ceil((end - start) / engine.host_bytes) + leaves)
    return most


def _line_flow(
    device: Sequence[Bottleneck],
    link: Sequence[Bottleneck],
    outward: bool,
    machine: MachineConfig,
    engine: EngineConfig,
    throttle: Throttle,
) -> LineFlow:
    """Collect the figures for `cdma.plan.engine_cost.variable_density`."""
    bottlenecks = {bottleneck.name: bottleneck for bottleneck in [*device, *link]}
    line = engine.codec.line_bytes
    rate = machine.link_out_bytes_per_cycle if outward else machine.link_in_bytes_per_cycle
    cap = bottlenecks.get("throttle")
    latency = machine.link_latency_cycles
    return LineFlow(
        engine=engine,
        line_cycles=line / min(bottlenecks["units"].per_cycle, bottlenecks["dram"].per_cycle),
        cap_cycles=0.0 if cap is None else line / cap.per_cycle,
        cap_lines=0.0 if cap is None else cap.burst_bytes / line,
        byte_cycles=1 / rate,
        burst_cycles=machine.link_overhead_bytes / rate,
        lines_cycles=machine.dram_latency_cycles + LINE_CYCLES,
        read_cycles=2 * latency + READ_CYCLES,
        write_cycles=latency + WRITE_CYCLES,
        write_bursts=min(engine.write_bursts, machine.link_outstanding),
        held_bursts=WRITER_BURSTS + machine.link_buffer_bursts,
    )
