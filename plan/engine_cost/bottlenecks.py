"""The bottlenecks that all bytes of a transfer pass, and the rate of each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cdma.golden import LINE_BYTES
from cdma.hw.config import EngineConfig
from cdma.hw.dma.limits import HOST_BURST_BEATS, RATE_FRACTION_BITS
from cdma.plan.engine_cost.packing import LineSizes, line_cycles
from cdma.plan.platform.environment import MachineConfig
from cdma.plan.platform.throttles import Throttle

# What the engine adds to the round trip of each window, in cycles.
LINE_CYCLES = 12
WRITE_CYCLES = 22
READ_CYCLES = 6


@dataclass(frozen=True)
class Bottleneck:
    """A bottleneck that `nbytes` bytes pass at `per_cycle` bytes per cycle.

    Attributes
    ----------
    name : str
    nbytes : float
    per_cycle : float
    held : float
        Of a window: the bytes that may be outstanding; they are free again together, a round trip
        later. 0 for a plain rate.
    burst_bytes : float
        Of a token bucket: the bytes that may pass at once, without waiting for the rate.
    """

    name: str
    nbytes: float
    per_cycle: float
    held: float = 0.0
    burst_bytes: float = 0.0

    def cycles(self, part: float = 1.0, free: float = 0.0) -> float:
        """Cycles until a part of the bytes has passed; `free` is what all take elsewhere."""
        nbytes = part * self.nbytes
        if self.held:
            round_trip_cycles, byte = self.held / self.per_cycle, free / self.nbytes
            if self.held * byte >= round_trip_cycles:
                return 0.0
            round_trips, rest = divmod(nbytes, self.held)
            return round_trips * round_trip_cycles + rest * byte
        return max(0.0, nbytes - self.burst_bytes) / self.per_cycle


def slowest(bottlenecks: Sequence[Bottleneck], part: float = 1.0) -> tuple[float, str]:
    """The most cycles that any of them takes for a part of the bytes, and its name."""
    free = max(
        (bottleneck.cycles() for bottleneck in bottlenecks if not bottleneck.held), default=0.0
    )
    cycles = {bottleneck.name: bottleneck.cycles(part, free) for bottleneck in bottlenecks}
    limit = max(cycles, key=lambda name: cycles[name])
    return cycles[limit], limit


def bottlenecks_of(
    raw: float,
    stream: float,
    outward: bool,
    machine: MachineConfig,
    engine: EngineConfig,
    throttle: Throttle,
    compressed: bool,
    sizes: LineSizes | None = None,
) -> tuple[list[Bottleneck], list[Bottleneck]]:
    """Bottlenecks on the device's side, which count raw bytes, and on the link's, which count the
    stream.

    Arguments are those of `cdma.plan.engine_cost.transfer_cost`.
    """
    rate = machine.link_out_bytes_per_cycle if outward else machine.link_in_bytes_per_cycle
    burst = HOST_BURST_BEATS * engine.host_bytes
    overhead = math.ceil(stream / burst) * machine.link_overhead_bytes
    latency = machine.link_latency_cycles
    lines_held = engine.unit_lines * engine.units * LINE_BYTES
    device = [
        Bottleneck("port", *_port(raw, stream, outward, engine, compressed, sizes)),
        Bottleneck("units", raw, engine.units * engine.codec.sector_bytes),
        Bottleneck("dram", raw, machine.channel_bytes_per_cycle * machine.channels),
        Bottleneck(
            "lines", raw, lines_held / (machine.dram_latency_cycles + LINE_CYCLES), lines_held
        ),
    ]
    link = [Bottleneck("link", stream + overhead, rate)]
    gather = burst / rate
    if outward:
        held = min(engine.write_bursts, machine.link_outstanding) * burst
        link.append(Bottleneck("writes", stream, held / (latency + gather + WRITE_CYCLES), held))
        if value := throttle.rate(machine.clock_hz):
            per_cycle = value / 2**RATE_FRACTION_BITS
            device.append(Bottleneck("throttle", raw, per_cycle, burst_bytes=throttle.burst_bytes))
    else:
        held = min(engine.read_buffer_bytes, machine.link_outstanding * burst)
        link.append(Bottleneck("reads", stream, held / (2 * latency + gather + READ_CYCLES), held))
    return device, link


def _port(
    raw: float,
    stream: float,
    outward: bool,
    engine: EngineConfig,
    compressed: bool,
    sizes: LineSizes | None,
) -> tuple[float, float]:
    """Bytes at the port, and how many of them pass in a cycle."""
    if not compressed:
        return stream, engine.stream_bytes_per_cycle
    entry = engine.codec.entries[0]
    if sizes is None:
        density = entry.density(stream, raw, engine.codec)
        sizes = LineSizes.at_density(density, engine.codec)
    if outward:
        # The drain finds lines by their ends, and puts two together that have heads.
        at_once = 2 if entry.head_bytes(engine.codec) else 1
        chunk_beats = engine.drain_beats
    else:
        at_once = min(engine.split_lines, entry.lines_per_cycle)
        chunk_beats = engine.split_beats
    return raw, engine.codec.line_bytes / line_cycles(sizes, engine, at_once, chunk_beats)
