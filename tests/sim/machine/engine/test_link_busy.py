"""Links of today, and links as fast as the port: busy at every ratio, both ways, by the RTL."""

from dataclasses import replace

import pytest

from cdma.hw.codec.registry import line_codec
from cdma.hw.config import PRESETS
from cdma.plan.engine_cost import Setup
from cdma.plan.engine_cost.transfer import WAYS
from cdma.sim.machine import MACHINES
from tests.bench.engine.data import DENSE, with_stream
from tests.bench.engine.dense_links import normal_bf16, with_xc
from tests.bench.engine.rig import NEAR, Rig

LINKS = {
    "pcie5x16": (DENSE, 1, 1.25, 1.5, 2, 3, 4),
    # Of two and of eight engines side by side, one with its share of the link.
    "pcie6x16": (DENSE, 1, 1.25, 1.5, 2, 3, 4),
    "c2c": (DENSE, 1, 1.25, 1.5, 2, 3, 4),
    # Nine tenths of the port: two lines per cycle are twice the port, and so enough up to here.
    "v100_nvlink2": (DENSE, 1, 1.25, 1.5, 2),
}
"""Ratios up to which nothing but the link limits each preset."""
CASES = [(name, ratio) for name, ratios in LINKS.items() for ratio in ratios]
STREAM_BYTES = 384 << 10
LEAST = 0.97


@pytest.mark.parametrize(("name", "ratio"), CASES)
def test_nothing_but_the_link_limits_a_long_transfer(name, ratio):
    """The closed form says so, which the next test holds to the RTL."""
    setup = Setup.named(name)
    raw = float(1 << 30)
    for way in WAYS:
        cost = setup.cost(raw, raw / ratio, way)
        rate = raw / ratio / (cost.flow_cycles / cost.clock_hz)
        assert rate >= LEAST * setup.machine.link_out_bytes_per_s, way


@pytest.mark.verify
@pytest.mark.parametrize("name", LINKS)
def test_link_is_busy_from_the_first_to_the_last_byte(name):
    with Rig(PRESETS[name], MACHINES[name]) as rig:
        for ratio in LINKS[name]:
            out = rig.out(with_stream(STREAM_BYTES, ratio, "random"))
            back = rig.into(out)
            assert out.utilization >= LEAST, ratio
            assert back.utilization >= LEAST, ratio
        # Beyond, lines are drained two a cycle: 256 B of data, whatever their stream.
        rate = 256 / MACHINES[name].link_out_bytes_per_cycle
        assert rig.out(with_stream(STREAM_BYTES, 5, "random")).utilization == pytest.approx(
            rate / 5, rel=0.02
        )


@pytest.mark.verify
def test_link_is_busy_with_xc_from_dense_numbers_to_hardly_any():
    with Rig(with_xc("titanx_gen3"), MACHINES["titanx_gen3"]) as rig:
        for density in (1, 0.6, 0.3, 0.1):
            array = normal_bf16(64 << 10, density)
            parameters = line_codec("xc").fitted_parameters(array, 2)
            out = rig.out(array, codec="xc", parameters=parameters)
            back = rig.into(out, codec="xc", parameters=parameters)
            assert out.utilization >= 0.99, density
            assert back.utilization >= 0.99, density


@pytest.mark.verify
def test_two_beats_per_cycle_fill_a_link_as_fast_as_the_port():
    engine = replace(PRESETS["titanx_gen3"], drain_beats=2, split_beats=2)
    with Rig(engine, NEAR) as rig:
        # Up to what the six units can read: 192 B per cycle for 32 B.
        for ratio in (DENSE, 1, 1.25, 1.5, 2, 2.6, 3, 4, 5, 6):
            out = rig.out(with_stream(STREAM_BYTES, ratio, "random"))
            back = rig.into(out)
            assert out.utilization >= 0.99, ratio
            assert back.utilization >= 0.99, ratio
