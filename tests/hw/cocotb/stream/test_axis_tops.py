"""The AXI4-Stream tops on two simulators, between sources and sinks that are not ours."""

import pytest

from tests.hw.cocotb import simulate
from tests.hw.cocotb.stream.benches import Scenario
from tests.lib.rtl.payloads import CONFIGS, config_id
from tests.lib.shares import configs

COMPONENTS = ("zvc-compressor", "zvc-decompressor")
SHAPES = {config_id(config): config for config in CONFIGS}
SOME_CONFIGS = configs({name: SHAPES[name] for name in ("E4-S32", "E1-S32")}, quick=["E4-S32"])
ALL_CONFIGS = configs(SHAPES, quick=["E4-S32"])

components = pytest.mark.parametrize("component", COMPONENTS)
some_configs = pytest.mark.parametrize("config", SOME_CONFIGS)


def scenario(component, config, **more):
    return Scenario(
        component=component,
        element_bytes=config.element_bytes,
        sector_bytes=config.sector_bytes,
        **more,
    )


@components
@pytest.mark.parametrize("config", ALL_CONFIGS)
def test_good_and_malformed_packets_on_verilator(builds, component, config, tmp_path):
    build = builds("verilator", component, config)
    chosen = scenario(component, config, stalls=((0.0, 0.0), (0.3, 0.4)))
    simulate.run(build, "good_and_malformed_packets", chosen, tmp_path)


@pytest.mark.verify
@components
@some_configs
def test_good_and_malformed_packets_on_icarus_in_the_same_cycles(
    builds, component, config, tmp_path
):
    logs = []
    for simulator in ("verilator", "icarus"):
        log = tmp_path / f"{simulator}.log"
        chosen = scenario(component, config, stalls=((0.3, 0.3),), seed=3, log=str(log))
        build = builds(simulator, component, config)
        simulate.run(build, "good_and_malformed_packets", chosen, tmp_path / simulator)
        logs.append(log.read_text().splitlines())
    verilator, icarus = logs
    assert len(verilator) > 200
    assert verilator == icarus


@pytest.mark.verify
@components
@some_configs
def test_no_output_is_unknown_after_reset(builds, component, config, tmp_path):
    build = builds("icarus", component, config, initial_values=False)
    chosen = scenario(component, config, stalls=((0.2, 0.2),))
    simulate.run(build, "outputs_are_known_after_reset", chosen, tmp_path)


@pytest.mark.verify
@components
@some_configs
def test_reset_in_the_middle_of_a_packet_leaves_nothing_behind(builds, component, config, tmp_path):
    build = builds("icarus", component, config)
    chosen = scenario(component, config, stalls=((0.0, 0.2),))
    simulate.run(build, "reset_in_the_middle_of_a_packet", chosen, tmp_path)
