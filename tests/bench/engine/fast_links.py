"""Links that are as fast as the engine's port to them, or half as fast: where its limits show."""

from typing import Any

from rich.console import Console

from cdma.hw.config import PRESETS
from cdma.sim.machine import MACHINES, MachineConfig
from tests.bench.engine.data import DENSE, with_stream
from tests.bench.engine.rig import NEAR, Rig
from tests.bench.engine.tables import percent, table

STREAM_BYTES = 768 << 10
RATIOS = (DENSE, 1, 1.25, 1.5, 2, 2.6, 3, 4)


def run(console: Console) -> dict[str, Any]:
    """Print a table per engine and return their figures."""
    return {
        name: _busy(console, name, environment)
        for name, environment in (
            ("titanx_gen3", NEAR),
            ("v100_nvlink2", MACHINES["v100_nvlink2"]),
            ("pcie5x16", MACHINES["pcie5x16"]),
            ("c2c", MACHINES["c2c"]),
        )
    }


def _busy(console: Console, name: str, environment: MachineConfig) -> dict[str, Any]:
    one_of = f", one of {environment.engines} engines" if environment.engines > 1 else ""
    printed = table(
        f"{name}{one_of}, link of {environment.link_out_bytes_per_cycle:.0f} B/cycle at a port of "
        f"{PRESETS[name].host_bytes} B: link busy",
        "",
        *(f"{ratio:.3g}x" for ratio in RATIOS),
    )
    with Rig(PRESETS[name], environment) as rig:
        round_trips = {}
        for ratio in RATIOS:
            out = rig.out(with_stream(STREAM_BYTES, ratio, "random"))
            round_trips[ratio] = {"out": out, "in": rig.into(out)}
    for way in ("out", "in"):
        printed.add_row(
            way, *(percent(round_trip[way].utilization) for round_trip in round_trips.values())
        )
    console.print(printed)
    console.print(
        f"Streams of {STREAM_BYTES >> 10} KiB, lines of random size. On the way in, what the read "
        "buffer holds at the end counts as gone."
    )
    return {
        way: {
            f"{ratio:.3g}": round_trip[way].utilization for ratio, round_trip in round_trips.items()
        }
        for way in ("out", "in")
    }
