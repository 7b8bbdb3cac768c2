"""A hundred million streams that no compressor wrote, which a release passes: `make volume`."""

import pytest

from tests.sim.machine.pipeline.malformed import check_damaged_streams
from tests.sim.machine.pipeline.test_zvc_malformed import decompressor

__all__ = ["decompressor"]

pytestmark = [pytest.mark.verify, pytest.mark.volume]

PARTS = 16
"""Of each of the nine shapes; each is known by itself, so that a run goes on where one ended."""

ROUNDS = 4
STREAMS = 250_000
"""At once. Of each hundred 74 are malformed: 106 million of 144."""

STALLS = (0.0, 0.0, 0.0, 0.3, 0.7)
"""The probability that an end waits, in turn."""


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_streams_by_the_million(decompressor, part):
    pipeline, element_bytes = decompressor
    malformed = 0
    for number in range(ROUNDS):
        seed = [part, number, pipeline.sector_bytes, element_bytes]
        stalls = STALLS[part % len(STALLS)]
        malformed += check_damaged_streams(pipeline, element_bytes, seed, STREAMS, stalls)
    assert malformed > 0.73 * ROUNDS * STREAMS
