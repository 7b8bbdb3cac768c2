"""Transfers of an engine with two clocks at places whose bits are each other's contrary."""

import pytest

from tests.sim.machine.engine.bench import EngineBench
from tests.sim.machine.engine.cases import Shape
from tests.sim.machine.engine.rings import OPCODES
from tests.sim.machine.engine.test_host_clock import CONFIG
from tests.sim.machine.engine.test_places import ELSEWHERE, HERE, check_misplaced


@pytest.mark.parametrize("base", [HERE, ELSEWHERE], ids=["here", "elsewhere"])
def test_transfers_from_and_to_where_no_memory_is(base: dict[str, int]) -> None:
    bench = EngineBench(CONFIG, stalls=0.2, seed=4, host_clock_hz=0.7e9, **base)
    try:
        for opcode in OPCODES:
            job = bench.job(Shape(opcode=opcode, length=600, src=0x40, dst=0x80, seed=1))
            bench.source(job)[:] = job.source
            check_misplaced(bench.engine, job)
            bench.recovers()
    finally:
        bench.close()
