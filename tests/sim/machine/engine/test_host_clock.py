"""An engine whose bus to the host has a clock of its own: all is as with one clock, but later."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cdma.hw.config import ConfigError, preset
from cdma.hw.dma.control.descriptor import Status
from cdma.plan.platform.environment import MACHINES
from cdma.sim.driver import CopyKind, Engine
from cdma.sim.machine import BusFault, Machine
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.machine.bus.bus import HOST
from tests.lib.shares import configs
from tests.sim.machine.engine.bench import NEAR, STALLS, EngineBench
from tests.sim.machine.engine.cases import EACH_WAY, SMALL
from tests.sim.machine.pipeline.zvc_cases import sparse

CONFIG = replace(SMALL, host_clock=True)
HOST_CLOCKS_HZ = {"slow": 0.313e9, "nearly-alike": 0.983e9, "alike": 1e9, "fast": 2.741e9}
"""Of the host; the engine's is 1 GHz. The phase follows from the seed."""

CLOCKS = configs(HOST_CLOCKS_HZ, quick=["slow", "fast"])
NBYTES = 1 << 19
RESETS_AFTER = (37, 113, 191, 262, 350)
"""Cycles after a doorbell."""


@pytest.fixture(params=STALLS)
def stalls(request) -> float:
    return float(request.param)


def benches(
    stalls: float, hz: float, *, seed: int = 11, sleep: bool = True
) -> Iterator[EngineBench]:
    bench = EngineBench(CONFIG, stalls=stalls, seed=seed, sleep=sleep, host_clock_hz=hz)
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture(params=CLOCKS)
def bench(request, stalls) -> Iterator[EngineBench]:
    yield from benches(stalls, request.param)


def carry_out(bench: EngineBench) -> None:
    jobs = [bench.job(shape, area) for area, shape in enumerate(EACH_WAY)]
    bench.carry_out(jobs, [job.good() for job in jobs])


def test_transfers_of_all_ways_are_right_to_the_byte(bench):
    for _ in range(3):
        carry_out(bench)
    bench.recovers()


def test_a_reset_amid_transfers_leaves_nothing_behind(bench):
    jobs = [bench.job(shape, area) for area, shape in enumerate(EACH_WAY)]
    for cycles in RESETS_AFTER:
        transfers = bench.submit(jobs)
        bench.engine.doorbell()
        bench.machine.run(cycles)
        assert any(transfer.record is None for transfer in transfers)
        bench.machine.reset()
        bench.engine.reset()
        carry_out(bench)


def test_a_read_error_and_a_write_error_end_their_transfers_alone(bench):
    jobs = [bench.job(shape, area) for area, shape in enumerate(EACH_WAY[3:])]
    transfers = bench.submit(jobs)
    bench.machine.set_faults(
        [
            BusFault(HOST, "b", "slverr", addresses=(jobs[0].dst, jobs[0].dst + jobs[0].capacity)),
            BusFault(HOST, "r", "slverr", addresses=(jobs[1].src, jobs[1].src + 4)),
        ]
    )
    bench.engine.doorbell()
    bench.engine.wait_all()
    statuses = [transfer.result().status for transfer in transfers]
    assert statuses == [Status.WRITE_ERROR, Status.READ_ERROR]
    bench.machine.set_faults([])
    assert bench.engine.first_error() is not None
    bench.engine.registers.write("IRQ_STATUS", done=1, error=1)
    bench.settle()
    bench.recovers()


@pytest.mark.parametrize("channel", ["r", "w", "b"])
def test_a_host_that_hangs_ends_with_a_time_out_and_lives_again(bench, channel):
    shape = EACH_WAY[4 if channel == "r" else 3]
    transfers = bench.submit([bench.job(shape)])
    # A descriptor is two beats.
    bench.machine.set_faults([BusFault(HOST, channel, "hang", nth=6 if channel != "b" else 0)])
    bench.engine.doorbell()
    for _ in range(400):
        if transfers[0].record is not None or bench.engine.registers.read("STATUS")["ring_error"]:
            break
        bench.machine.run(20)
    if channel == "r":
        bench.engine.wait_all()
        assert transfers[0].result().status == Status.TIMEOUT
    else:
        # Its record cannot be written either.
        assert bench.engine.first_error().status == Status.TIMEOUT
    bench.machine.set_faults([])
    bench.engine.reset()
    bench.recovers()


def test_everything_is_the_same_asleep_and_awake(stalls):
    found = []
    for sleep in (True, False):
        for bench in benches(stalls, HOST_CLOCKS_HZ["fast"], sleep=sleep):
            carry_out(bench)
            machine = bench.machine
            found.append((machine.cycles, machine.device.tobytes(), machine.host.tobytes()))
    assert found[0] == found[1]


def test_a_slower_host_takes_longer():
    cycles = []
    for hz in HOST_CLOCKS_HZ.values():
        for bench in benches(0.0, hz):
            before = bench.machine.cycles
            carry_out(bench)
            cycles.append(bench.machine.cycles - before)
    assert cycles[0] == max(cycles)
    assert cycles[-1] <= min(cycles) + 100


@pytest.mark.verify
def test_a_host_of_the_same_clock_costs_few_cycles():
    """A link as fast as the port is as busy as with one clock, but for round trips."""
    found = {}
    for has_host_clock in (False, True):
        config = replace(preset("titanx_gen3"), host_clock=has_host_clock)
        environment = replace(
            MACHINES["titanx_gen3"], link_out_bytes_per_s=32e9, link_in_bytes_per_s=32e9
        )
        sizes = {"device_bytes": 1 << 21, "host_bytes": 1 << 21}
        with Machine(generated_engine(config), environment, **sizes) as machine:
            engine = Engine(machine)
            data = sparse(np.random.default_rng(3), NBYTES, 4, 0.5)
            source, back = (engine.device.alloc(NBYTES) for _ in range(2))
            stream = engine.host.alloc(engine.shape.worst_stream_bytes(NBYTES))
            source.array[:] = data
            begin = machine.cycles
            out = engine.memcpy_compressed(stream, source, NBYTES, CopyKind.DEVICE_TO_HOST, "zvc")
            middle = machine.cycles
            engine.memcpy_compressed(
                back,
                stream,
                NBYTES,
                CopyKind.HOST_TO_DEVICE,
                "zvc",
                stream_bytes=out.out_size,
            )
            np.testing.assert_array_equal(back.array, data)
            found[has_host_clock] = middle - begin, machine.cycles - middle
    for one_clock, two_clocks in zip(found[False], found[True], strict=True):
        assert one_clock < two_clocks < 1.02 * one_clock


@pytest.mark.parametrize(
    ("config", "hz", "message"),
    [
        (SMALL, 1e9, "host_clock_hz must not be given: cdma_engine has one clock; set host_clock"),
        (CONFIG, 1e6, "host_clock_hz must be within 100 times of clock_hz, 1e+09, not 1000000.0"),
    ],
)
def test_a_clock_that_cannot_be_is_refused(config, hz, message):
    with pytest.raises(ConfigError) as error:
        Machine(
            generated_engine(config),
            replace(NEAR, channels=config.units),
            device_bytes=4096,
            host_bytes=4096,
            host_clock_hz=hz,
        )
    assert str(error.value).startswith(message)
