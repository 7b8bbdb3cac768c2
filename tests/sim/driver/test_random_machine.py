"""Random programs on driver and engine, of which every step is compared with numpy."""

import pytest

from tests.hw.codec.xc.test_engine import ONE_UNIT
from tests.sim.driver.random_machine.program import run_seed
from tests.sim.machine.engine.cases import SMALL

CONFIGS = {"two-units": SMALL, "xc": ONE_UNIT}
"""Both are built by other tests, too, but XC's only for `make verify`."""

KEPT_SEEDS = (
    # Numbers of numpy overflow in sums of addresses.
    ("two-units", 0),
    ("two-units", 15),
    # A refused descriptor waits for a slot of the full ring first.
    ("two-units", 93),
    ("two-units", 553),
    # Half of a record, whose write was given up, is taken for all of it.
    ("two-units", 798),
    # The record of a transfer that a reset ends cannot be written: it is no transfer that was not
    # begun.
    ("two-units", 975),
    # Data that was on a bus that hangs arrives when that goes on, after the record.
    ("two-units", 2250),
    # A response was an error although the faults had been lifted before it arrived.
    ("two-units", 1_000_685),
    # A fence that the engine refuses is no fence, but the driver took it for one.
    ("xc", 642),
    # XC: bytes of a line with NONZERO_FILL count as right.
    ("xc", 0),
    ("xc", 11),
)
"""What found something once."""

RUNS_PER_PART = 25
PARTS = [("two-units", part) for part in range(12)]
MORE_PARTS = 78
MORE_RUNS_PER_PART = 125


@pytest.mark.parametrize(
    ("config", "seed"),
    [
        pytest.param(config, seed, marks=pytest.mark.verify if config == "xc" else ())
        for config, seed in KEPT_SEEDS
    ],
)
def test_program_that_found_something(config: str, seed: int) -> None:
    run_seed(CONFIGS[config], seed)


@pytest.mark.parametrize(("config", "part"), PARTS)
def test_random_programs(config: str, part: int) -> None:
    for seed in range(RUNS_PER_PART * part, RUNS_PER_PART * (part + 1)):
        run_seed(CONFIGS[config], seed)


@pytest.mark.verify
@pytest.mark.parametrize("part", range(MORE_PARTS))
def test_more_random_programs(part: int) -> None:
    """With those above, 10,050 runs."""
    for number in range(MORE_RUNS_PER_PART):
        run_seed(SMALL, 1_000_000 + MORE_RUNS_PER_PART * part + number)
