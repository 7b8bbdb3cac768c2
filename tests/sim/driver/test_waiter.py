"""Waits: they ring the doorbell for what the engine does not know of, and for nothing else."""

import pytest

from cdma.sim.driver import Engine
from tests.sim.machine.engine.model import ModelMachine


class Watched(ModelMachine):
    """A machine that counts the writes of the ring's tail."""

    def __init__(self):
        super().__init__()
        self.rung = 0

    def write_register(self, address, value):
        self.rung += address == self._map["RING_TAIL"].offset
        return super().write_register(address, value)


@pytest.mark.parametrize("interrupts", [False, True])
@pytest.mark.parametrize("doorbell", [False, True])
def test_doorbell_rings_once_for_a_descriptor_whether_its_submission_or_a_wait_does_it(
    interrupts, doorbell
):
    machine = Watched()
    engine = Engine(machine, interrupts=interrupts)
    before = machine.rung
    fence = engine.fence(doorbell=doorbell)
    assert machine.rung == before + doorbell
    assert engine.wait(fence).ok
    assert engine.wait_all() == []
    assert machine.rung == before + 1
