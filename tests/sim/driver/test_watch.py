"""The watchdog: it takes a change in any register for movement, and nothing else."""

import pytest

from cdma.sim.driver.errors import StuckError
from cdma.sim.driver.watch import MOVEMENT, Watch

PATIENCE = 100


class Still:
    """A machine, with the registers that tell of movement, in which nothing moves by itself."""

    def __init__(self) -> None:
        self.cycles = 1000
        self.values = dict.fromkeys(MOVEMENT, 5)

    def read(self, name):
        return self.values[name]

    def outstanding(self):
        return ""


@pytest.fixture
def still():
    return Still()


@pytest.mark.parametrize("name", MOVEMENT)
def test_movement_of_any_register_starts_it_again(still, name):
    watch = Watch(still, still, PATIENCE)
    for _ in range(5):
        watch.look("a copy has no record")
        still.cycles += PATIENCE - 1
        still.values[name] += 1
    watch.look("a copy has no record")


def test_standstill_is_told_once_it_has_lasted(still):
    watch = Watch(still, still, PATIENCE)
    watch.look("a copy has no record")
    still.cycles += PATIENCE - 1
    watch.look("a copy has no record")
    still.cycles += 1
    message = r"^a copy .* record, and nothing has moved for 100 cycles: nothing is outstanding$"
    with pytest.raises(StuckError, match=message):
        watch.look("a copy has no record")
