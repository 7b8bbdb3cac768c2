"""Cost of throttling the reads of device memory (cDMA, §V-D)."""

from typing import Any

from rich.console import Console

from cdma.plan.platform.throttles import WINDOW_S
from cdma.sim.driver import THROTTLES
from tests.bench.engine.data import with_ratio
from tests.bench.engine.rig import Rig
from tests.bench.engine.tables import percent, table

RATIOS = (1, 2, 2.6, 3, 4, 6, 8, 12.5, 16)
NBYTES = 2 << 20
MOST_SPEED_UP = 3.0


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures, with the goals as booleans."""
    policy = THROTTLES["bandwidth-aware"]
    with Rig.of_preset("titanx_gen3", throttle=policy) as rig:
        raw = rig.out(with_ratio(NBYTES, 1), codec=None, throttled=True)
        round_trips = {
            ratio: rig.out(with_ratio(NBYTES, ratio, "random"), throttled=True) for ratio in RATIOS
        }
        clock_hz = rig.machine.config.clock_hz
    printed = table(
        f"titanx_gen3, {policy.name}, {policy.bytes_per_s / 1e9:.0f} GB/s: transfers of "
        f"{NBYTES >> 20} MiB",
        "ratio",
        "reads, mean",
        "most in 10 µs",
        "link busy",
        "over raw",
    )
    figures = {}
    for ratio, round_trip in round_trips.items():
        mean = round_trip.nbytes / round_trip.link_cycles * clock_hz
        most = round_trip.most_read_bytes / WINDOW_S
        speed_up = raw.cycles / round_trip.cycles
        printed.add_row(
            f"{ratio:g}x",
            f"{mean / 1e9:.1f} GB/s",
            f"{most / 1e9:.1f} GB/s",
            percent(round_trip.utilization),
            f"{speed_up:.2f}x",
        )
        figures[f"{ratio:g}"] = {
            "mean_read_bytes_per_s": mean,
            "most_read_bytes_per_s": most,
            "utilization": round_trip.utilization,
            "speed_up": speed_up,
        }
    console.print(printed)
    most = max(round_trip.most_read_bytes for round_trip in round_trips.values()) / WINDOW_S
    best = max(row["speed_up"] for row in figures.values())
    goals = {
        f"at most {policy.bytes_per_s / 1e9:g} GB/s in any 10 µs": most <= policy.bytes_per_s,
        f"at most {MOST_SPEED_UP:g}x faster than raw": best <= MOST_SPEED_UP,
    }
    for goal, met in goals.items():
        console.print(f"{goal}: {'met' if met else 'MISSED'}")
    return {"ratio": figures, "goals_met": goals}
