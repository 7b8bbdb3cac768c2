"""Effect of a faster clock, more units or a throttle on the ratio up to which the link is full."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console

from cdma.plan.platform.throttles import WINDOW_S
from cdma.sim.driver import THROTTLES
from tests.bench.engine.data import with_stream
from tests.bench.engine.rig import Rig
from tests.bench.engine.tables import percent, table

RATIOS = (10, 12, 12.5, 13, 14, 16)
STREAM_BYTES = 192 << 10
TOLERANCE = 0.01

OWN_CYCLES = 12
"""What the engine adds to the time from a line's reservation to its arrival in the buffer."""


@dataclass(frozen=True)
class Shape:
    """An engine, and what it has to reach.

    Attributes
    ----------
    units, buffer_kib, clock_hz
    throttle
        Name of a policy.
    """

    units: int
    buffer_kib: int
    clock_hz: float
    throttle: str = "none"

    def __str__(self) -> str:
        return f"{self.units}, {self.buffer_kib} KiB, {self.clock_hz / 1e9:g} GHz"


SHAPES = (
    Shape(6, 70, 1.0e9),
    Shape(6, 70, 1.2e9),
    Shape(6, 140, 1.2e9),
    Shape(8, 96, 1.0e9),
    Shape(8, 96, 1.0e9, "performance-optimal"),
)


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures."""
    figures = {}
    met = True
    columns = []
    for shape in SHAPES:
        policy = THROTTLES[shape.throttle]
        with Rig.of_preset(
            "titanx_gen3",
            throttle=policy,
            clock_hz=shape.clock_hz,
            units=shape.units,
            buffer_bytes=shape.buffer_kib << 10,
        ) as rig:
            environment = rig.machine.config
            round_trips = {
                ratio: rig.out(with_stream(STREAM_BYTES, ratio), throttled=True) for ratio in RATIOS
            }
        link = environment.link_out_bytes_per_s
        units = shape.units * rig.machine.sector_bytes * shape.clock_hz
        round_trip_s = environment.dram_latency_ns * 1e-9 + OWN_CYCLES / shape.clock_hz
        buffer = (shape.buffer_kib << 10) / round_trip_s
        cap = policy.bytes_per_s or float("inf")
        limit = min(units, buffer, cap)
        highest = round_trips[RATIOS[-1]]
        measured = highest.nbytes / highest.link_cycles * shape.clock_hz
        most = highest.most_read_bytes / WINDOW_S
        utilization = {
            f"{ratio:g}": round_trip.utilization for ratio, round_trip in round_trips.items()
        }
        met &= most <= cap and all(
            round_trip.utilization >= min(1, limit / link / ratio) - TOLERANCE
            for ratio, round_trip in round_trips.items()
        )
        columns.append(
            (
                str(shape),
                f"{cap / 1e9:.0f}" if policy.bytes_per_s else "none",
                f"{units / 1e9:.1f}",
                f"{buffer / 1e9:.1f}",
                f"{limit / link:.2f}x",
                f"{measured / 1e9:.1f}",
                f"{most / 1e9:.1f}",
                *(percent(round_trip.utilization) for round_trip in round_trips.values()),
            )
        )
        figures[f"{shape}, {shape.throttle}"] = {
            "arithmetic_bytes_per_s": limit,
            "measured_bytes_per_s": measured,
            "most_bytes_per_s_in_10_us": most,
            "utilization": utilization,
        }
    headings = (
        "cap, GB/s",
        "units give",
        "buffer gives",
        "link full up to",
        f"reads at {RATIOS[-1]}x",
        "most in 10 µs",
        *(f"busy at {ratio:g}x" for ratio in RATIOS),
    )
    printed = table(
        "titanx_gen3, other engines, by units, buffer and clock: the way out, streams of "
        f"{STREAM_BYTES >> 10} KiB",
        "",
        *(column[0] for column in columns),
    )
    for k, heading in enumerate(headings, 1):
        printed.add_row(heading, *(column[k] for column in columns))
    console.print(printed)
    console.print(
        f"The buffer gives its size per 350 ns and {OWN_CYCLES} cycles. The link is full up to the "
        "least of cap, units and buffer, over its 16 GB/s."
    )
    console.print(f"as the arithmetic says, to {TOLERANCE:.0%}: {'met' if met else 'MISSED'}")
    return {**figures, "goal_met": met}
