"""Small transfers in the ring: as many per round trip as the engine may have at once."""

import pytest

from cdma.plan.engine_cost.transfer import transfer_cost
from tests.bench.engine.data import with_ratio
from tests.bench.engine.rig import Rig

NBYTES, RATIO = 4 << 10, 13
FEW, MANY = 30, 60
MOST_CYCLES = 30
"""Of each transfer; its stream and record take the link 24."""


@pytest.mark.verify
def test_4_kb_at_13x_end_every_30_cycles() -> None:
    array = with_ratio(NBYTES, RATIO, "random")
    with Rig.of_preset("titanx_gen3", transfers=32, write_bursts=32) as rig:
        stream = rig.out(array)
        costs = {
            way: transfer_cost(
                NBYTES,
                stream.link_bytes,
                way=way,
                machine=rig.machine.config,
                engine=rig.engine,
            )
            for way in ("out", "in")
        }
        for way, cycles_of in (
            ("out", lambda count: rig.queued(array, count).cycles),
            ("in", lambda count: rig.queued_into(stream, count)),
        ):
            each = (cycles_of(MANY) - cycles_of(FEW)) / (MANY - FEW)
            assert each <= MOST_CYCLES, way
            # The first few wait longer than those behind them. `transfer_cost` says how much
            # longer many short ones may take.
            assert 0.85 * costs[way].queued_cycles <= each <= 1.3 * costs[way].queued_cycles, way
