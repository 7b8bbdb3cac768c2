"""The number of fault cells, and a few of each kind on a shipped shape."""

import pytest

from cdma.hw.config import PRESETS
from tests.sim.machine.engine import test_aborts as test_engine_aborts
from tests.sim.machine.engine import test_bad_descriptors as test_engine_bad_descriptors
from tests.sim.machine.engine import test_bus_errors as test_engine_bus_errors
from tests.sim.machine.engine import test_overflow as test_engine_overflow
from tests.sim.machine.engine import test_ring_errors as test_engine_ring_errors
from tests.sim.machine.engine import test_streams as test_engine_streams
from tests.sim.machine.engine import test_timeouts as test_engine_timeouts
from tests.sim.machine.engine import test_verification as test_engine_verification
from tests.sim.machine.engine.bench import EngineBench

TABLES = (
    test_engine_aborts,
    test_engine_bad_descriptors,
    test_engine_bus_errors,
    test_engine_overflow,
    test_engine_ring_errors,
    test_engine_streams,
    test_engine_timeouts,
    test_engine_verification,
)


def test_there_are_enough_of_them():
    assert sum(len(table.FEW) for table in TABLES) >= 5_000
    assert sum(len(table.MANY) for table in TABLES) >= 15_000


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__.rsplit("_", 2)[-1])
def test_a_few_on_a_shipped_shape(table):
    few = list(table.batches(table.FEW) if hasattr(table, "batches") else table.FEW)
    if table is test_engine_timeouts:
        # Of many memory ports, not all are used by a short transfer.
        few = [cell for cell in few if cell.port < 0]
    bench = EngineBench(PRESETS["titanx_gen3"], stalls=0.1, seed=2)
    try:
        for cell in few[:: max(1, len(few) // 25)]:
            table.carry_out(bench, cell)
    finally:
        bench.close()
