"""A hundred million streams that no compressor wrote, which a release passes: `make volume`."""

import pytest

from cdma.sim.machine import Pipeline
from cdma.sim.machine.build import build
from tests.sim.machine.pipeline.malformed import check_damaged_streams

pytestmark = [pytest.mark.verify, pytest.mark.volume]

PARTS = {32: 27, 64: 7, 128: 2}
"""Parts of each element size, by bytes of a sector; each is known by itself, so that a run goes on
where one ended. Streams take about as many cycles at all widths, and the widest cycles four times
as long."""

STREAMS = 250_000
"""At once. Of each hundred 94 or 95 are malformed: 102 million of 108."""

STALLS = (0.0, 0.0, 0.0, 0.3)
"""The probability that an end waits, in each round of a part."""


@pytest.fixture(scope="module")
def pipelines():
    """Give the decompressor of a shape, compiled for hours of running instead of for seconds."""
    made = {}

    def pipeline(element_bytes, sector_bytes):
        shape = element_bytes, sector_bytes
        if shape not in made:
            made[shape] = Pipeline(
                "zvc-decompressor", element_bytes=element_bytes, sector_bytes=sector_bytes
            )
        return made[shape]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "OPTIMIZE", "-O3")
        yield pipeline
    for each in made.values():
        each.close()


@pytest.mark.parametrize(
    ("element_bytes", "sector_bytes", "part"),
    [
        (element, sector, part)
        for sector, parts in PARTS.items()
        for part in range(parts)
        for element in (4, 2, 1)
    ],
)
def test_damaged_streams_by_the_million(pipelines, element_bytes, sector_bytes, part):
    pipeline = pipelines(element_bytes, sector_bytes)
    malformed = 0
    for number, stalls in enumerate(STALLS):
        seed = [part, number, sector_bytes, element_bytes]
        malformed += check_damaged_streams(
            pipeline, element_bytes, seed, STREAMS, stalls, few_good=True
        )
    assert malformed > 0.935 * len(STALLS) * STREAMS
