"""The engine whose paths' clocks stop does what it does with clocks that run.

The netlists that are simulated have assertions: among them that, whenever a clock may stop, no
edge of it would change any register or memory.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import cdma.hw.dma.path_activity
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.path_activity import LINGER_CYCLES, PathActivity
from cdma.hw.emit.verilog import generate
from cdma.sim.machine import AssertionFailedError
from tests.formal.broken import break_elaborate
from tests.lib.shares import configs, names
from tests.sim.machine.engine import bench as engine_bench
from tests.sim.machine.engine.bench import NEAR, STALLS, EngineBench
from tests.sim.machine.engine.cases import SMALL
from tests.sim.machine.engine.test_sleep import FAULTS, story

SETTLE_CYCLES = 1
"""The least linger with which no change is missed: here, what a reset leaves takes a cycle."""

SHAPES = {
    "small": SMALL,
    "three rings, ecc": replace(SMALL, rings=3, stream_id_bits=2, ecc=True, transfers=12),
    "two clocks": replace(SMALL, host_clock=True),
    "fast, two beats": replace(
        SMALL,
        codec=CodecConfig(sector_bytes=64, latency="fast"),
        host_bytes=64,
        drain_beats=2,
        split_beats=2,
    ),
}

GATED = replace(SMALL, clock_gates=True)


def observed(config: EngineConfig, stalls: float, faults) -> tuple[list[object], bytes, bytes]:
    """All that `story` tells of an engine, and its memories in the end."""
    bench = EngineBench(config, NEAR, stalls=stalls, seed=5, sleep=False)
    try:
        told = list(story(bench, faults))
        return told, bench.machine.device.tobytes(), bench.machine.host.tobytes()
    finally:
        bench.close()


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize("faults", FAULTS, ids=["none", "read-error", "write-hangs", "read-hangs"])
@pytest.mark.parametrize("config", configs(SHAPES, quick=["small"]))
def test_everything_is_the_same_with_clocks_that_stop(config, faults, stalls):
    free = observed(config, stalls, faults)
    gated = observed(replace(config, clock_gates=True), stalls, faults)
    for step, (one, other) in enumerate(zip(free[0], gated[0], strict=True)):
        assert one == other, f"step {step}"
    assert free[1:] == gated[1:]


@pytest.fixture
def planted(monkeypatch) -> Iterator[pytest.MonkeyPatch]:
    """For changes of the RTL of `GATED`, which is generated anew."""
    monkeypatch.setattr(
        engine_bench,
        "generated_engine",
        lambda config: generate("engine", config, assertions=True, style="netlist"),
    )
    return monkeypatch


def run_planted() -> None:
    observed(GATED, 0.0, ())


@pytest.mark.parametrize(
    "reason",
    names(["self.job_valid", "self.job_valid | (jobs > 1)"], quick=["self.job_valid | (jobs > 1)"]),
)
def test_a_clock_that_stops_amid_a_job_is_found(planted, reason):
    with planted.context() as patch:
        break_elaborate(patch, PathActivity, "self.job_valid | (jobs != 0)", reason)
        with pytest.raises(AssertionFailedError):
            run_planted()


def test_a_clock_that_stops_too_soon_is_found(planted):
    planted.setattr(cdma.hw.dma.path_activity, "LINGER_CYCLES", SETTLE_CYCLES - 1)
    with pytest.raises(AssertionFailedError):
        run_planted()


@pytest.mark.verify
def test_clocks_go_on_for_longer_than_registers_take_to_settle(planted):
    planted.setattr(cdma.hw.dma.path_activity, "LINGER_CYCLES", SETTLE_CYCLES)
    run_planted()
    assert LINGER_CYCLES >= 2 * SETTLE_CYCLES
