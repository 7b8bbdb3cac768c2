"""Latency of a transfer from the doorbell on, beside what other engines publish."""

from typing import Any

import numpy as np
from rich.console import Console

from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import PRESETS
from cdma.hw.dma.limits import ENTRY_BYTES
from tests.bench.engine.data import with_ratio
from tests.bench.engine.rig import NEAR, Rig
from tests.bench.engine.tables import percent, table

SIZES = (64, 256, 1 << 10, 4 << 10, 10_000, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
RATIO = 2.6
QUEUED_BYTES = 1 << 20
QUEUED = 32

SMALL_BYTES, SMALL_RATIO = 4 << 10, 13
SMALL_COUNTS = (30, 60)
TRANSFERS = (4, 8, 16, 32)

# In cycles of theirs. AXI DMA of AMD, PG021; iDMA's back end, which has no descriptors.
AXI_DMA_FETCH = 10
AXI_DMA_READ = 28
AXI_DMA_BYTES, AXI_DMA_BUSY = 10_000, 0.9976
IDMA_READ = 2
IDMA_FULL_BYTES = 16


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures."""
    with Rig(PRESETS["titanx_gen3"], NEAR) as near, Rig.of_preset("titanx_gen3") as far:
        figures = {"launch": _launch(console, near, far), "sizes": _sizes(console, near, far)}
    return {**figures, "small": _small(console)}


def _launch(console: Console, near: Rig, far: Rig) -> dict[str, Any]:
    figures = {name: _launch_of(rig) for name, rig in {"near": near, "far": far}.items()}
    published = {
        "doorbell_to_descriptor_read": f"AXI DMA {AXI_DMA_FETCH}",
        "descriptor_to_data_read": f"AXI DMA {AXI_DMA_READ}; iDMA {IDMA_READ}, no descriptor",
    }
    printed = table("Launch, in cycles", "", "near memories", "titanx_gen3", "published")
    for name, cycles in figures["near"].items():
        printed.add_row(
            name.replace("_", " "), str(cycles), str(figures["far"][name]), published.get(name, "")
        )
    console.print(printed)
    return figures


def _launch_of(rig: Rig) -> dict[str, int]:
    round_trip = rig.out(_plain(64), codec=None)
    environment = rig.machine.config
    # When the last beat of the descriptor is offered.
    arrival = round_trip.fetch_cycles + 2 * environment.link_latency_cycles
    arrival += round(ENTRY_BYTES / environment.link_in_bytes_per_cycle)
    return {
        "doorbell_to_descriptor_read": round_trip.fetch_cycles,
        "descriptor_to_data_read": round_trip.read_cycles - arrival,
        "doorbell_to_data_read": round_trip.read_cycles,
        "doorbell_to_record_of_64_bytes": round_trip.cycles,
    }


def _sizes(console: Console, near: Rig, far: Rig) -> dict[str, Any]:
    figures = {}
    for name, rig, codec in (
        ("copy, near memories", near, None),
        ("copy, titanx_gen3", far, None),
        (f"compressed, {RATIO}x, titanx_gen3", far, "zvc"),
    ):
        figures[name] = {str(nbytes): _size(rig, nbytes, codec) for nbytes in SIZES}
        printed = table(
            f"{name}: to the host by size",
            "bytes",
            "cycles",
            "link busy, whole",
            "first to last byte",
            "queued",
            "queued, with records",
        )
        for nbytes, row in figures[name].items():
            printed.add_row(
                f"{int(nbytes):,}",
                f"{row['cycles']:,}",
                *(percent(part) for key, part in row.items() if key != "cycles"),
            )
        console.print(printed)
    console.print(
        "Cycles, whole: from the doorbell to the record. Near memories: DRAM and link answer in "
        f"the next cycle, at the ports' width. Queued: {QUEUED} transfers at once, or as many as "
        f"{QUEUED_BYTES >> 20} MiB has, from the first to the last byte; their records are on the "
        f"same link. Published: AXI DMA {AXI_DMA_BUSY:.2%} for {AXI_DMA_BYTES:,} bytes; iDMA "
        f"nearly full from {IDMA_FULL_BYTES} bytes on, without descriptors and records."
    )
    return figures


def _size(rig: Rig, nbytes: int, codec: str | None) -> dict[str, float]:
    array = _plain(nbytes) if codec is None else with_ratio(nbytes, RATIO, "random")
    count = max(2, min(QUEUED, QUEUED_BYTES // nbytes))
    round_trip = rig.out(array, codec=codec)
    queued = rig.queued(array, count, codec=codec)
    return {
        "cycles": round_trip.cycles,
        "overall_utilization": round_trip.overall_utilization,
        "utilization": round_trip.utilization,
        "queued_utilization": queued.data_utilization,
        "queued_utilization_with_records": queued.utilization,
    }


def _small(console: Console) -> dict[str, dict[str, float]]:
    """Cycles that each of many small transfers takes, by how many the engine has at once."""
    figures = {}
    printed = table(
        f"titanx_gen3: queued transfers of {SMALL_BYTES:,} bytes at {SMALL_RATIO}x, cycles each",
        "transfers",
        "to the host",
        "to the device",
        "the link alone, with records",
    )
    array = with_ratio(SMALL_BYTES, SMALL_RATIO, "random")
    for count in TRANSFERS:
        with Rig.of_preset("titanx_gen3", transfers=count, write_bursts=max(16, count)) as rig:
            stream = rig.out(array)
            few, many = (
                [rig.queued(array, n).cycles, rig.queued_into(stream, n)] for n in SMALL_COUNTS
            )
            each = SMALL_COUNTS[1] - SMALL_COUNTS[0]
            out, into = ((after - before) / each for before, after in zip(few, many, strict=True))
            link = (stream.link_bytes + ENTRY_BYTES) / stream.link_rate
        figures[str(count)] = {"out": out, "in": into, "link": link}
        printed.add_row(str(count), f"{out:.1f}", f"{into:.1f}", f"{link:.1f}")
    console.print(printed)
    console.print(
        f"{SMALL_COUNTS[1]} transfers less {SMALL_COUNTS[0]}, from the doorbell to the last "
        "record; write_bursts as many as transfers, at least the preset's 16."
    )
    return figures


def _plain(nbytes: int) -> ByteArray:
    return np.random.default_rng(nbytes).integers(1, 256, nbytes, np.uint8)
