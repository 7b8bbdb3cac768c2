"""The register block on two simulators, under an AXI4-Lite master that is not ours."""

import re

import pytest

from tests.hw.cocotb import simulate
from tests.hw.cocotb.registers.benches import RegisterScenario


def run(builds, simulator, bench, stall, folder):
    build = builds(simulator)
    (source,) = build.folder.glob("registers.*v")
    header = source.read_text().partition(");")[0]
    names = re.findall(r"^  input wire (?:\[\d+:0\] )?(\w+)", header, re.M)
    inputs = tuple(name for name in names if not re.match(r"(clk|rst|s_axil_\w+)$", name))
    assert "status_idle" in inputs
    scenario = RegisterScenario(inputs=inputs, stall=stall, seed=5)
    simulate.run(build, bench, scenario, folder, module="tests.hw.cocotb.registers.benches")


@pytest.mark.verify
@pytest.mark.parametrize(
    ("bench", "stall"),
    [
        ("software_finds_the_map", 0.0),
        ("software_finds_the_map", 0.5),
        ("addresses_without_a_register_give_slverr", 0.3),
        ("counters_are_read_whole_while_they_overflow", 0.3),
        ("reset_in_the_middle_of_accesses", 0.0),
        ("reset_in_the_middle_of_accesses", 0.5),
    ],
)
def test_registers_on_verilator(register_builds, bench, stall, tmp_path):
    run(register_builds, "verilator", bench, stall, tmp_path)


@pytest.mark.verify
def test_registers_on_icarus(register_builds, tmp_path):
    run(register_builds, "icarus", "software_finds_the_map", 0.3, tmp_path)
