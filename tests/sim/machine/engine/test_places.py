"""Transfers at places of which every address bit above a page is the other one.

Where all tests have their memories, a bit that is always the same would not be missed.
"""

from random import Random

import pytest

from tests.sim.machine.engine.bench import OTHER_DEVICE_BASE, OTHER_HOST_BASE, EngineBench
from tests.sim.machine.engine.rings import RingsBench

ELSEWHERE = {"device_base": OTHER_DEVICE_BASE, "host_base": OTHER_HOST_BASE}


@pytest.mark.parametrize("stalls", [0.0, 0.4])
def test_transfers_of_two_units_elsewhere(stalls: float) -> None:
    bench = EngineBench(stalls=stalls, seed=3, **ELSEWHERE)
    try:
        for _ in range(3):
            bench.recovers()
    finally:
        bench.close()


def test_transfers_of_four_rings_elsewhere() -> None:
    rng = Random(5)
    bench = RingsBench(4, stalls=0.2, seed=5, **ELSEWHERE)
    try:
        for _ in range(3):
            loads = [(owner, *bench.load(owner, rng.randint(1, 8))) for owner in bench.owners]
            for load in loads:
                bench.check(*load)
            bench.check_memory()
    finally:
        bench.close()
