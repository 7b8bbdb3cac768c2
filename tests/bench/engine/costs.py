"""Costs of dense data and of verification, and the speed of the simulated machine itself."""

import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from cdma.sim.driver import CopyKind
from tests.bench.engine.data import DENSE, with_ratio
from tests.bench.engine.rig import Rig
from tests.bench.engine.tables import table

NBYTES = 1 << 20
RATIO = 2.6
MOST_DENSE_COST = 1 / DENSE - 1
"""A mask of 4 B per line of 128 B."""
SPEED_GOAL = 100_000
ROUNDS = 3
IDLE_CYCLES = 200_000


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures."""
    with Rig.of_preset("titanx_gen3") as rig, Rig.of_preset("titanx_gen3", sleep=False) as plain:
        return {
            "dense": _dense(console, rig),
            "verify": _verify(console, rig),
            "simulation": _simulation(console, rig, plain),
        }


def _dense(console: Console, rig: Rig) -> dict[str, Any]:
    array = with_ratio(NBYTES, DENSE)
    printed = table(
        f"titanx_gen3: {NBYTES >> 20} MiB without a zero, cycles from the doorbell to the record",
        "",
        "plain copy",
        "compressed",
        "costs",
    )
    copied_out = rig.out(array, codec=None)
    copied_in = rig.into(copied_out, codec=None)
    compressed_out = rig.out(array)
    compressed_in = rig.into(compressed_out)
    figures = {}
    for way, plain, compressed in (
        ("out", copied_out, compressed_out),
        ("in", copied_in, compressed_in),
    ):
        cost = compressed.cycles / plain.cycles - 1
        printed.add_row(way, f"{plain.cycles:,}", f"{compressed.cycles:,}", f"{cost:.2%}")
        figures[way] = {
            "copy_cycles": plain.cycles,
            "compressed_cycles": compressed.cycles,
            "cost": cost,
        }
    met = all(row["cost"] <= MOST_DENSE_COST for row in figures.values())
    console.print(printed)
    console.print(f"at most the masks' {MOST_DENSE_COST:.3%}: {'met' if met else 'MISSED'}")
    return {**figures, "goal_met": met}


def _verify(console: Console, rig: Rig) -> dict[str, Any]:
    printed = table(
        f"titanx_gen3: verifying what was written, ratio {RATIO}, cycles from the doorbell to the "
        "last record",
        "transfers",
        "without",
        "with",
        "takes",
    )
    figures = {}
    for count in (1, 16):
        array = with_ratio(NBYTES // count, RATIO, "random")
        plain, verified = (
            rig.queued(array, count, verify=verify).cycles for verify in (False, True)
        )
        name = f"{count} of {array.size >> 10} KiB"
        printed.add_row(name, f"{plain:,}", f"{verified:,}", f"{verified / plain:.2f}x")
        figures[name] = {"cycles": plain, "verified_cycles": verified, "factor": verified / plain}
    console.print(printed)
    return figures


def _simulation(console: Console, rig: Rig, plain: Rig) -> dict[str, Any]:
    printed = table(
        f"The simulated machine: titanx_gen3, {rig.machine.units} units, one thread, on "
        f"{_processor()}",
        "",
        "cycles/s",
        "one clock",
        "sleep gains",
    )
    figures, plain_figures = _speeds(rig), _speeds(plain)
    for name, speed in figures.items():
        with_one_clock = plain_figures[name]
        gain = speed / with_one_clock
        printed.add_row(name, f"{speed:,.0f}", f"{with_one_clock:,.0f}", f"{gain:.2f}x")
    console.print(printed)
    met = min(figures.values()) >= SPEED_GOAL
    console.print(
        f"The best of {ROUNDS} rounds, in processor time, the RTL's assertions on; the load "
        f"average is {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors. "
        f"At least {SPEED_GOAL:,}: {'met' if met else 'MISSED'}"
    )
    return {
        "cycles_per_s": figures,
        "one_clock_cycles_per_s": plain_figures,
        "processor": _processor(),
        "goal_met": met,
    }


def _speeds(rig: Rig) -> dict[str, float]:
    """The best of several rounds of each kind of work."""
    figures = {
        f"{name}, {ratio}x": max(_transfers(rig, ratio, *ways) for _ in range(ROUNDS))
        for ratio in (RATIO, 12)
        for name, ways in (
            ("out", (True, False)),
            ("in", (False, True)),
            ("out and in at once", (True, True)),
        )
    }
    figures["nothing to do"] = max(
        _speed(rig, lambda: rig.machine.run(IDLE_CYCLES)) for _ in range(ROUNDS)
    )
    return figures


def _transfers(rig: Rig, ratio: float, out: bool, back: bool) -> float:
    """The speed during a transfer out, one in, or both at once."""
    driver = rig.driver
    round_trip = rig.out(with_ratio(NBYTES, ratio, "random"))
    other = driver.host.alloc(NBYTES)
    if out:
        driver.submit(other, rig.source, NBYTES, CopyKind.DEVICE_TO_HOST, doorbell=False)
    if back:
        stream = rig.stream.span(0, round_trip.link_bytes)
        driver.submit(rig.back, stream, NBYTES, CopyKind.HOST_TO_DEVICE, doorbell=False)
    speed = _speed(rig, driver.wait_all)
    driver.host.free(other)
    return speed


def _speed(rig: Rig, work: Callable[[], object]) -> float:
    """Cycles per second that this thread has computed."""
    before, start = rig.machine.cycles, time.thread_time()
    work()
    return (rig.machine.cycles - before) / (time.thread_time() - start)


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
