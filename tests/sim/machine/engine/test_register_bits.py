"""The registers of engines of one ring and of four, by the simulated engine."""

from random import Random

import pytest

from cdma.hw.dma.control.registers import register_map
from tests.sim.machine.engine.rings import rings_config, rings_machine
from tests.sim.machine.register_bits import check_bits, check_gaps

PAGE = 4096


@pytest.mark.parametrize("rings", [1, 4], ids=["one", "four"])
def test_bits_are_stored_where_software_writes_them_and_nowhere_else(rings: int) -> None:
    config = rings_config(rings)
    with rings_machine(config) as machine:
        bits = check_bits(machine, list(register_map(config).values()), Random(rings))
        # Nothing that software does where no register is changes one.
        assert check_gaps(machine, register_map(config).values(), rings * PAGE) > rings * 800
    # Of each ring the ends of four windows, and where its descriptors lie.
    assert bits > rings * 500
