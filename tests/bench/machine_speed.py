"""Speed of the Verilated library beside cocotb on the same simulator and the same design."""

import json
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cocotb_tools.runner import get_runner
from rich.console import Console
from rich.table import Table

from cdma.golden.formats.zvc import Zvc
from cdma.hw.config import CodecConfig
from cdma.hw.emit.verilog import generate
from cdma.sim.machine import Packets, Pipeline
from tests.hw.cocotb.simulate import TIMESCALE, Build, build_verilator
from tests.hw.cocotb.stream.benches import Scenario
from tests.lib.paths import ROOT

COMPONENTS = ("zvc-compressor", "zvc-decompressor")
ELEMENT_BYTES = 4
SECTOR_BYTES = 32
ARRAY_BYTES = 16 << 20
ZERO_FRACTION = 0.62
ROUNDS = 5
GOAL = 50
COCOTB_BENCHES = {
    "cocotb, drivers of the tests": "with_the_drivers_of_the_tests",
    "cocotb, one coroutine": "with_one_coroutine",
}


@dataclass(frozen=True)
class Speed:
    """Cycles of the RTL, and bytes of uncompressed data, per second."""

    cycles_per_s: float
    mb_per_s: float


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures.

    The library's time is the least of several rounds, from the call to the return of `run`;
    cocotb's is of one packet of 64 KiB, without starting the simulator. MB are 10^6 bytes.
    """
    table = Table(
        title=f"Verilated library and cocotb, fp32, {SECTOR_BYTES} B sectors, "
        f"{ZERO_FRACTION:.0%} zeros"
    )
    for heading in ("", "", "cycles/s", "MB/s", "library over it"):
        table.add_column(heading, justify="right" if heading else "left")
    figures: dict[str, Any] = {}
    for component in COMPONENTS:
        speeds = {"library": library_speed(component)}
        speeds |= cocotb_speeds(component)
        fastest = speeds["library"].cycles_per_s
        for name, speed in speeds.items():
            over = fastest / speed.cycles_per_s
            table.add_row(
                component,
                name,
                f"{speed.cycles_per_s:,.0f}",
                f"{speed.mb_per_s:,.2f}",
                "" if name == "library" else f"{over:,.0f}x",
            )
        figures[component] = {
            name: {
                "cycles_per_s": speed.cycles_per_s,
                "mb_per_s": speed.mb_per_s,
                "library_over_it": fastest / speed.cycles_per_s,
            }
            for name, speed in speeds.items()
        }
    console.print(table)
    least = min(
        figures[component]["cocotb, drivers of the tests"]["library_over_it"]
        for component in COMPONENTS
    )
    console.print(f"library over the cocotb bench: at least {least:.0f}x (goal: {GOAL}x)")
    return {**figures, "goal_met": least >= GOAL}


def library_speed(component: str) -> Speed:
    """Measure the library on a batch of one packet."""
    rng = np.random.default_rng(0)
    array = rng.standard_normal(ARRAY_BYTES // ELEMENT_BYTES, dtype=np.float32)
    array[rng.random(array.size) < ZERO_FRACTION] = 0
    packets = Packets.of([array])
    if component == "zvc-decompressor":
        packets = Packets.of([Zvc(ELEMENT_BYTES).compress(array)])
    with Pipeline(component, element_bytes=ELEMENT_BYTES, sector_bytes=SECTOR_BYTES) as pipeline:
        seconds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            batch = pipeline.run(packets, [array.nbytes])
            seconds.append(time.perf_counter() - start)
    return Speed(batch.cycles / min(seconds), array.nbytes / min(seconds) / 1e6)


def cocotb_speeds(component: str) -> dict[str, Speed]:
    """Measure the benches of `tests.bench.cocotb_stream` on an optimized build."""
    # The text that the library is built of.
    config = CodecConfig(element_bytes=ELEMENT_BYTES, sector_bytes=SECTOR_BYTES)
    rtl = generate(component, config, style="netlist")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = build_verilator(rtl, folder / "build", optimize=True)
        return {
            label: _cocotb_speed(build, bench, component, folder / bench)
            for label, bench in COCOTB_BENCHES.items()
        }


def _cocotb_speed(build: Build, bench: str, component: str, folder: Path) -> Speed:
    folder.mkdir()
    report = folder / "speed.json"
    scenario = Scenario(
        component=component,
        element_bytes=ELEMENT_BYTES,
        sector_bytes=SECTOR_BYTES,
        log=str(report),
    )
    # The runner tells of a failure by exiting; then there is no report.
    with suppress(SystemExit, RuntimeError):
        get_runner(build.simulator).test(
            test_module="tests.bench.cocotb_stream",
            hdl_toplevel=build.name,
            hdl_toplevel_lang="verilog",
            build_dir=build.folder,
            test_dir=folder,
            test_filter=rf"{bench}$",
            results_xml=str(folder / "results.xml"),
            log_file=str(folder / "log"),
            timescale=TIMESCALE,
            extra_env={**scenario.to_env(), "PYTHONPATH": str(ROOT)},
        )
    if not report.exists():
        raise AssertionError((folder / "log").read_text()[-4000:])
    told = json.loads(report.read_text())
    seconds = told["seconds"]
    return Speed(told["cycles"] / seconds, told["nbytes"] / seconds / 1e6)
