"""Utilization of the link against the size of the DMA buffer.

With arguments, only those sizes are measured: `python -m tests.bench.engine.buffer v100_nvlink2 96
192`. Each size is another RTL, which takes minutes to build when it is not in the cache.
"""

import sys
from typing import Any

from rich.console import Console

from cdma.golden import LINE_BYTES
from tests.bench.engine.data import DENSE, with_stream
from tests.bench.engine.limits import OWN_CYCLES
from tests.bench.engine.rig import Rig
from tests.bench.engine.tables import percent, table

SIZES_KIB = {
    "titanx_gen3": (4, 8, 16, 35, 70, 140),
    "v100_nvlink2": (32, 64, 128),
}
# Dense data, the networks' average, and what 200 GB/s can feed (cDMA, §V-C and D). V100's engine
# drains two lines a cycle, 333 GB/s: more than a ratio of 2.2 cannot fill its link.
RATIOS = {
    "titanx_gen3": (DENSE, 2.6, 12.5),
    "v100_nvlink2": (DENSE, 1.5, 2, 2.6, 12.5),
}
DRAINED_BYTES = 2 * LINE_BYTES
"""At most two lines leave the buffer per cycle."""
STREAM_BYTES = {"titanx_gen3": 128 << 10, "v100_nvlink2": 512 << 10}


def run(console: Console) -> dict[str, Any]:
    """Print the curves and return their figures."""
    return {preset: curve(console, preset, sizes) for preset, sizes in SIZES_KIB.items()}


def curve(console: Console, preset: str, sizes_kib: tuple[int, ...]) -> dict[str, Any]:
    """One preset's curve."""
    ratios = RATIOS[preset]
    names = ("dense", *(f"{ratio:g}x" for ratio in ratios[1:]))
    printed = table(
        f"{preset}: link busy on the way out against buffer size, streams of "
        f"{STREAM_BYTES[preset] >> 10} KiB",
        "buffer",
        *names,
        "reads at 12.5x",
    )
    figures: dict[str, Any] = {}
    for kib in sizes_kib:
        with Rig.of_preset(preset, buffer_bytes=kib << 10) as rig:
            round_trips = [
                rig.out(with_stream(STREAM_BYTES[preset], ratio, "random")) for ratio in ratios
            ]
            needed = [_needed_bytes(rig, ratio) for ratio in ratios]
            clock_hz = rig.machine.config.clock_hz
        sparsest = round_trips[-1]
        reads = sparsest.nbytes / sparsest.link_cycles * clock_hz
        printed.add_row(
            f"{kib} KiB",
            *(percent(round_trip.utilization) for round_trip in round_trips),
            f"{reads / 1e9:.1f} GB/s",
        )
        figures[f"{kib} KiB"] = {
            **{
                name: round_trip.utilization
                for name, round_trip in zip(names, round_trips, strict=True)
            },
            "read_bytes_per_s_at_12.5x": reads,
        }
    printed.add_section()
    printed.add_row("needed", *(f"{nbytes / 1024:.1f} KiB" for nbytes in needed))
    console.print(printed)
    console.print(
        f"Needed: what is read per time, at most what the link takes or the engine gives, times "
        f"the DRAM's latency and {OWN_CYCLES} cycles."
    )
    figures["needed_bytes"] = dict(zip(names, needed, strict=True))
    return figures


def _needed_bytes(rig: Rig, ratio: float) -> float:
    environment = rig.machine.config
    units = rig.machine.units * rig.machine.sector_bytes
    per_cycle = min(ratio * environment.link_out_bytes_per_cycle, units, DRAINED_BYTES)
    return per_cycle * (environment.dram_latency_cycles + OWN_CYCLES)


if __name__ == "__main__":
    curve(Console(), sys.argv[1], tuple(map(int, sys.argv[2:])))
