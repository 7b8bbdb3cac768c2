"""The closed form against the RTL over densities, patterns, sizes and environments.

docs/guide/swap/estimate.md has the worst errors of this grid; `tests.bench estimate_errors` prints
them.
"""

from dataclasses import replace

import pytest

from cdma.plan.engine_cost import Setup
from tests.plan.engine_cost.cases import SETUPS, Rig, grid

LARGE = 64 << 10
SHORT_LIMIT = 0.05
LIMIT = 0.01

# A link as fast as the engine's port is never quite full: lines of several sizes share chunks, and
# each burst waits for its own. Runs of dense and empty lines in turn are the worst.
FAST_LIMITS = {
    "32 GB/s": {"density": 0.015, "lines": 0.03},
    # Two line beats per cycle: no line waits for what it is beside, but two lines are the limit.
    "v100_nvlink2": {"density": 0.02, "lines": LIMIT},
    # A port that is narrower than sectors, and as fast as the link.
    "pcie5x16, 64 B port": {"density": 0.015, "lines": 0.03},
}


def _with_port(name: str, host_bytes: int) -> Setup:
    setup = Setup.named(name)
    return replace(setup, engine=replace(setup.engine, host_bytes=host_bytes))


GRID = (
    SETUPS
    | {name: Setup.named(name) for name in ("pcie5x16", "v100_nvlink2")}
    | {f"{name}, 64 B port": _with_port(name, 64) for name in ("titanx_gen3", "pcie5x16")}
)

pytestmark = pytest.mark.verify


@pytest.mark.parametrize("name", GRID)
def test_the_estimate_is_as_near_as_the_documents_say(name):
    rig = Rig(GRID[name])
    for case in grid():
        large = case.array.size >= LARGE
        for (way, knows), error in rig.errors(case).items():
            if knows == "density" and case.pattern.startswith("clustered"):
                # The density alone does not say where the zeros are.
                continue
            limit = FAST_LIMITS.get(name, {}).get(knows, LIMIT)
            assert abs(error) <= (limit if large else SHORT_LIMIT), (
                f"{case.pattern}, density {case.density:g}, {case.array.size} B, {way}, "
                f"by {knows}: {100 * error:+.2f} %"
            )
    rig.close()
