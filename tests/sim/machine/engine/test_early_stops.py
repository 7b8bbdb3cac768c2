"""Transfers that fail among others: each stops soon, and nothing else is concerned.

A cell has a transfer fail at one of four places, with others of its ring before and behind it, and
those of other rings beside it. Looked at are its record, the bytes that it calls right, the bytes
that are asked of the buses behind its error (`cdma.hw.dma.reach`), the records and bytes of all
others, every other byte of both memories, and that the buses come to rest.
"""

from collections.abc import Iterator

import pytest

from cdma.hw.config import PRESETS
from cdma.hw.dma.reach import reach
from tests.lib.paths import ROOT
from tests.sim.machine.engine.stops import CONFIGS, Cell, StopsBench, cells

STALLS = (0.0, 0.3)
LENGTHS = (1700, 40_000)
"""A transfer that is outstanding as a whole, and one that is longer than most bounds."""

OFFSETS = ((0, 0), (0x1C, 0xFE4))

MANY = {name: tuple(cells(name, LENGTHS, OFFSETS)) for name in CONFIGS}
FEW = {name: MANY[name][5::11] for name in ("two units", "two rings")}

Made = tuple[StopsBench, str, float]


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Made]:
    name, stalls = request.param
    made = StopsBench(name, stalls=stalls, seed=1)
    yield made, name, stalls
    made.close()


def each(names: Iterator[str] | list[str]) -> pytest.MarkDecorator:
    """Parametrizes a test with engines, each once without stalls and once with."""
    return pytest.mark.parametrize(
        "bench",
        [
            pytest.param((name, stalls), id=f"{name}, {stalls}")
            for name in names
            for stalls in STALLS
        ],
        indirect=True,
    )


def carry_out(made: StopsBench, table: tuple[Cell, ...], stalls: float) -> None:
    """Each half of a table's cells is quick, the other half has stalls."""
    for cell in table[STALLS.index(stalls) :: len(STALLS)]:
        made.carry_out(cell)


@each(list(FEW))
def test_a_transfer_stops_at_its_first_error(bench):
    made, name, stalls = bench
    carry_out(made, FEW[name], stalls)


@pytest.mark.verify
@each(list(CONFIGS))
def test_a_transfer_stops_at_its_first_error_wherever_that_is(bench):
    made, name, _ = bench
    for cell in MANY[name]:
        made.carry_out(cell)


def test_there_are_enough_cells():
    assert sum(map(len, FEW.values())) >= 100
    assert len(STALLS) * sum(map(len, MANY.values())) >= 5_000


@pytest.mark.parametrize("name", ["titanx_gen3", "v100_nvlink2"])
def test_the_page_tells_the_bounds(name):
    text = (ROOT / "docs/reference/engine.md").read_text(encoding="utf-8")
    section = text.split("### After the first error")[1].split("\n## ")[0]
    table = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")]
    column = [cell.strip(" `") for cell in table[0]].index(name)
    told = [int(row[column].replace(",", "")) for row in table[2:]]
    assert told == list(vars(reach(PRESETS[name])).values())
