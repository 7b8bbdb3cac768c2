"""The whole buddy controller on two simulators, between managers and memories that are not ours."""

import dataclasses

import pytest

from cdma.hw.config import METADATA_CACHES, BuddyConfig, EntryConfig, buddy_preset
from tests.hw.cocotb import simulate
from tests.hw.cocotb.buddy.bench import BuddyScenario, Run

TINY = buddy_preset("tiny")
OTHERS = {
    "wide": dataclasses.replace(TINY, entry=EntryConfig(sector_bytes=128), reads=32, writes=16),
    "bpc": dataclasses.replace(TINY, entry=EntryConfig(sector_bytes=64, mode="bpc")),
    "three": dataclasses.replace(TINY, entry=EntryConfig(mode="best-of-three")),
    "halves": dataclasses.replace(
        TINY,
        entry=EntryConfig(element_bytes=2),
        cache=METADATA_CACHES["slice"],
        page_bytes=16384,
        reads=5,
        writes=3,
    ),
    "slices": dataclasses.replace(
        TINY,
        cache=dataclasses.replace(
            METADATA_CACHES["paper_table2"], capacity_bytes=4096, slices=4, ways=2
        ),
    ),
}


def run(buddy_builds, simulator, bench, runs, folder, *, config: BuddyConfig = TINY, **more):
    build = buddy_builds(simulator, config, initial_values=not more.get("unknown"))
    scenario = BuddyScenario(config=dataclasses.asdict(config), runs=tuple(runs), **more)
    simulate.run(build, bench, scenario, folder, module="tests.hw.cocotb.buddy.benches")


MIXED = [
    Run(count=250, seed=1),
    Run(count=250, seed=2, stall=0.3),
    # Four entries of each page: accesses wait for each other all the time.
    Run(count=250, seed=3, entries=4, partial=0.7, stall=0.2),
    Run(count=150, seed=4, stall=0.7),
]


@pytest.mark.verify
def test_memories_are_the_golden_models_after_random_accesses(buddy_builds, tmp_path):
    run(buddy_builds, "verilator", "random_accesses", MIXED, tmp_path)


FAULTS = ["refused_accesses", "memory_errors", "metadata_errors", "dead_memories"]


@pytest.mark.verify
@pytest.mark.parametrize("bench", FAULTS)
def test_faults_end_in_a_status_and_leave_the_rest_alone(buddy_builds, bench, tmp_path):
    runs = [Run(count=0, seed=5)]
    run(buddy_builds, "verilator", bench, runs, tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("bench", ["flush_under_traffic", "manager_that_takes_nothing"])
def test_controller_goes_on(buddy_builds, bench, tmp_path):
    run(buddy_builds, "verilator", bench, [Run(count=200, seed=6, stall=0.1)], tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("config", OTHERS.values(), ids=OTHERS)
def test_other_controllers(buddy_builds, config, tmp_path):
    runs = [Run(count=400, seed=7), Run(count=400, seed=8, stall=0.4), *MIXED[2:]]
    run(buddy_builds, "verilator", "random_accesses", runs, tmp_path, config=config)


@pytest.mark.verify
@pytest.mark.parametrize("bench", FAULTS)
def test_faults_with_stalls(buddy_builds, bench, tmp_path):
    # Of dead memories, stalls would make live ones.
    stalls = (0.0,) if bench == "dead_memories" else (0.2, 0.5)
    runs = [Run(count=0, seed=9 + k, stall=stall) for k, stall in enumerate(stalls)]
    run(buddy_builds, "verilator", bench, runs, tmp_path)


@pytest.mark.verify
def test_what_registers_power_up_to_does_not_matter(buddy_builds, tmp_path):
    runs = [Run(count=60, seed=10, stall=0.2)]
    run(buddy_builds, "icarus", "random_accesses", runs, tmp_path, unknown=True)
