"""The links of presets of today: busy at every ratio up to four, both ways, by the engine's RTL."""

import pytest

from cdma.hw.config import PRESETS
from cdma.plan.engine_cost import Setup
from cdma.plan.engine_cost.transfer import WAYS
from cdma.sim.machine import MACHINES
from tests.bench.engine.data import DENSE, with_stream
from tests.bench.engine.rig import Rig

NAMES = ("pcie5x16",)
RATIOS = (DENSE, 1, 1.25, 1.5, 2, 3, 4)
STREAM_BYTES = 384 << 10
LEAST = 0.97


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ratio", RATIOS)
def test_nothing_but_the_link_limits_a_long_transfer(name, ratio):
    """The closed form says so, which the next test holds to the RTL."""
    setup = Setup.named(name)
    raw = float(1 << 30)
    for way in WAYS:
        cost = setup.cost(raw, raw / ratio, way)
        rate = raw / ratio / (cost.flow_cycles / cost.clock_hz)
        assert rate >= LEAST * setup.machine.link_out_bytes_per_s, way


@pytest.mark.verify
@pytest.mark.parametrize("name", NAMES)
def test_link_is_busy_from_the_first_to_the_last_byte(name):
    with Rig(PRESETS[name], MACHINES[name]) as rig:
        for ratio in RATIOS:
            out = rig.out(with_stream(STREAM_BYTES, ratio, "random"))
            back = rig.into(out)
            assert out.utilization >= LEAST, ratio
            assert back.utilization >= LEAST, ratio
        # Beyond, lines are drained two a cycle: 5 times the ratio fills four fifths of the link.
        assert 0.78 < rig.out(with_stream(STREAM_BYTES, 5, "random")).utilization < 0.82
