"""Layers that a processor computes beside the engine, on the channels of the same memory."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cdma.hw.dma.control.descriptor import Opcode
from cdma.sim.driver import CopyKind, Engine
from cdma.sim.machine import Machine
from cdma.sim.machine.build.rtl import generated_engine
from tests.sim.machine.engine.bench import NEAR, EngineBench
from tests.sim.machine.engine.cases import SMALL, Shape

OPCODES = (Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN, Opcode.COPY_OUT, Opcode.COPY_IN)
BUDGET = 100_000
KIB = 1 << 10


def machine(**changes) -> Machine:
    around = replace(NEAR, channels=SMALL.units, dram_bytes_per_s=50e9, **changes)
    return Machine(
        generated_engine(SMALL), around, device_bytes=256 * KIB, host_bytes=256 * KIB, seed=1
    )


@pytest.fixture
def idle() -> Iterator[Machine]:
    with machine() as made:
        yield made


def compute(made: Machine, layers: list[tuple[float, float]]) -> float:
    begin = made.cycles
    made.compute(layers)
    end = made.run_computation(BUDGET)
    assert end is not None
    assert end <= made.cycles < end + 2
    return end - begin


@pytest.mark.parametrize(
    ("layers", "cycles"),
    [
        ([], 0),
        ([(0, 0)], 0),
        ([(700, 0)], 700),
        ([(0, 700)], 700),
        ([(700, 300)], 700),
        ([(300, 700)], 700),
        ([(10.25, 3)] * 40, 410),
        ([(100, 0), (0, 250), (30, 30)], 380),
    ],
)
def test_alone_a_layer_takes_the_longer_of_arithmetic_and_memory(idle, layers, cycles):
    assert compute(idle, layers) == pytest.approx(cycles, abs=0.01)


def test_refresh_is_a_part_of_what_the_accesses_take_alone():
    with machine(refresh_interval_ns=400, refresh_ns=40) as made:
        assert compute(made, [(0, 20_000)]) == pytest.approx(20_000, rel=0.02)


def test_accesses_wait_for_copies_and_arithmetic_does_not():
    """Copies read 32 KiB of 50 B per cycle, which is all that memory has."""
    nbytes = 32 * KIB
    took = {}
    for layer in ((0, 4000), (4000, 0), (4000, 1000)):
        with machine() as made:
            engine = Engine(made)
            host, device = engine.host.alloc(2 * nbytes), engine.device.alloc(nbytes)
            copy = engine.submit(host, device, nbytes, CopyKind.DEVICE_TO_HOST, "zvc")
            took[layer] = compute(made, [layer])
            engine.wait(copy)
            assert made.counters().dram_read_bytes.sum() == nbytes
    assert took[0, 4000] == pytest.approx(4000 + nbytes / 50, rel=0.01)
    assert took[4000, 0] == took[4000, 1000] == 4000


def test_copies_wait_for_an_access_at_most():
    """Copies come first where both wait; of the accesses, only the one that is served is in the
    way."""
    nbytes = 32 * KIB
    took = []
    for memory in (0, 20_000):
        with machine() as made:
            engine = Engine(made)
            host, device = engine.host.alloc(nbytes), engine.device.alloc(nbytes)
            device.array[:] = np.random.default_rng(1).integers(0, 256, nbytes)
            made.compute([(0, memory)])
            begin = made.cycles
            engine.wait(engine.submit(host, device, nbytes, CopyKind.DEVICE_TO_HOST, None))
            took.append(made.cycles - begin)
            assert np.array_equal(host.array, device.array)
    assert took[0] < took[1] < 1.5 * took[0]


def test_a_start_that_is_over_counts_for_the_arithmetic(idle):
    idle.run(100)
    begin = idle.cycles
    idle.compute([(300, 0)], start=begin - 60.5)
    assert idle.run_computation(BUDGET) == begin + 239.5


def test_it_goes_on_from_call_to_call(idle):
    begin = idle.cycles
    idle.compute([(100, 0), (0, 100)])
    found = [idle.run_computation(90) for _ in range(3)]
    assert found[:2] == [None, None]
    assert found[2] == pytest.approx(begin + 200, abs=0.01)


def test_a_reset_ends_it(idle):
    idle.compute([(BUDGET, BUDGET)])
    idle.run(50)
    idle.reset()
    assert compute(idle, [(0, 40)]) == pytest.approx(40, abs=0.01)


@pytest.mark.parametrize("layer", [(-1, 0), (0, -1), (float("nan"), 0), (0, float("inf"))])
def test_what_is_no_time_is_refused(idle, layer):
    with pytest.raises(ValueError, match=r"(arithmetic|memory)_cycles must be 0 or more"):
        idle.compute([layer])


def test_one_at_a_time(idle):
    idle.compute([(100, 0)])
    with pytest.raises(ValueError, match="a computation has not ended"):
        idle.compute([(100, 0)])


def test_transfers_are_right_beside_it():
    """Every byte, under stalls; the memory's timing is all that is another."""
    bench = EngineBench(environment=replace(NEAR, dram_bytes_per_s=50e9), stalls=0.3, seed=4)
    try:
        bench.machine.compute([(10.0, 30.0)] * 5000)
        jobs = [
            bench.job(Shape(opcode=opcode, length=900, src=0xFC4, dst=0x34, seed=2), area)
            for area, opcode in enumerate(OPCODES)
        ]
        bench.carry_out(jobs, [job.good() for job in jobs])
        assert bench.machine.run_computation(1) is None
    finally:
        bench.close()
