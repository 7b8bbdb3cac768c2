"""A million errors in ZVC streams, through the decompressor's RTL: none passes unnoticed."""

import numpy as np
import pytest

from cdma.golden.formats.zvc import Zvc
from cdma.sim.machine import Packets
from tests.lib.shares import configs
from tests.sim.machine.pipeline.injection import BURST_BITS, found_in, injected
from tests.sim.machine.pipeline.malformed import good_streams
from tests.sim.machine.pipeline.test_zvc_malformed import decompressor

__all__ = ["decompressor"]

STREAMS = configs({"many": 160_000, "few": 10_000}, quick=["few"])
"""Per shape; a fourth is empty. More than a million errors in all nine."""


def originals(streams, element_bytes):
    """The data that was compressed."""
    codec = Zvc(element_bytes)
    lengths = streams.lengths.tolist()
    return Packets.of(
        codec.decompress(streams.packets.packet(i), length) for i, length in enumerate(lengths)
    )


@pytest.mark.parametrize("count", STREAMS)
def test_no_error_is_silent(decompressor, count):
    pipeline, element_bytes = decompressor
    rng = np.random.default_rng([17, pipeline.sector_bytes, element_bytes])
    streams = good_streams(rng, count, element_bytes)
    damaged = injected(rng, streams.packets)
    batch = pipeline.run(damaged, streams.lengths, crc32=streams.crcs)
    found = found_in(batch, originals(streams, element_bytes), damaged)
    assert found.injected > 0.7 * count
    assert found.silent == 0
    # A line has one stream.
    assert found.harmless == 0
    # Most change values only, which the checksum alone can tell.
    assert 0.3 < found.by_checksum / found.injected < 0.9


def test_without_the_checksum_some_are(decompressor):
    pipeline, element_bytes = decompressor
    rng = np.random.default_rng([18, pipeline.sector_bytes, element_bytes])
    streams = good_streams(rng, 2000, element_bytes)
    damaged = injected(rng, streams.packets)
    found = found_in(
        pipeline.run(damaged, streams.lengths), originals(streams, element_bytes), damaged
    )
    assert found.by_checksum == 0
    assert found.silent > 0.3 * found.injected


def test_injections_are_few_bits_or_short_bursts():
    rng = np.random.default_rng(19)
    packets = good_streams(rng, 4000, 4).packets
    damaged = injected(rng, packets)
    single = bursts = 0
    for i in range(len(packets.sizes)):
        flips = np.flatnonzero(np.unpackbits(packets.packet(i) ^ damaged.packet(i)))
        if packets.sizes[i] == 0:
            assert not flips.size
        elif flips.size <= 3:
            single += 1
        else:
            bursts += 1
            assert flips[-1] - flips[0] < BURST_BITS
    assert single > 1000
    assert bursts > 1000
