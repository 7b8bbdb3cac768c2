"""A million streams that were never written by a compressor, through the decompressor's RTL.

Each is answered as the golden decoder answers it: status, offset, size, checksum and every byte;
and the good streams between them are decompressed as if nothing had happened. A hundred million
are in `test_zvc_malformed_volume.py`.
"""

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.golden.formats.zvc import Zvc
from cdma.sim.machine import Packets, Pipeline
from tests.sim.machine.pipeline.malformed import (
    NEVER,
    Corruption,
    Streams,
    assert_answered,
    check_damaged_streams,
    damaged_streams,
    golden_answers,
)
from tests.sim.machine.pipeline.zvc_cases import CONFIGS, checksums, elements, random_faults

# Per shape. 76 % are damaged, the others good: 1,029,000 malformed ones in all.
STREAMS = 150_000


@pytest.fixture(scope="module", params=CONFIGS)
def decompressor(request):
    element_bytes, sector_bytes = request.param
    with Pipeline(
        "zvc-decompressor", element_bytes=element_bytes, sector_bytes=sector_bytes
    ) as pipeline:
        yield pipeline, element_bytes


@pytest.mark.parametrize(("stalls", "share"), [(0.0, 0.7), (0.3, 0.2), (0.7, 0.1)])
def test_damaged_streams(decompressor, stalls, share):
    pipeline, element_bytes = decompressor
    seed = [int(10 * share), pipeline.sector_bytes]
    check_damaged_streams(pipeline, element_bytes, seed, int(STREAMS * share), stalls)


@pytest.mark.parametrize("stalls", [0.0, 0.4])
def test_truncated_streams(decompressor, stalls):
    """Partial beats in mid-packet, holes in tkeep, and null beats, in good streams and bad."""
    pipeline, element_bytes = decompressor
    rng = np.random.default_rng([5, pipeline.sector_bytes])
    streams = damaged_streams(rng, STREAMS // 16, element_bytes)
    sizes = streams.packets.sizes
    chosen = np.flatnonzero(rng.random(len(streams)) < 0.5)
    faults, cut_chosen = random_faults(rng, chosen, sizes[chosen], pipeline.sector_bytes)
    cut = np.full(len(streams), NEVER)
    cut[chosen] = cut_chosen
    answers = golden_answers(streams, element_bytes, cut)
    assert (answers.status == StreamStatus.LENGTH_MISMATCH).sum() > len(chosen) // 4
    batch = pipeline.run(
        streams.packets,
        streams.lengths,
        crc32=streams.crcs,
        check_crc=streams.check_crc,
        faults=faults,
        stalls=stalls,
        seed=2,
    )
    assert_answered(batch, answers, streams)


def test_every_cut_and_every_flipped_bit_of_a_stream(decompressor):
    pipeline, element_bytes = decompressor
    rng = np.random.default_rng(7)
    data = elements(rng, 300 // element_bytes, element_bytes, 0.4).view(np.uint8)
    stream = Zvc(element_bytes).compress(data)
    bits = np.unpackbits(np.broadcast_to(stream, (8 * stream.size, stream.size)), axis=1)
    np.fill_diagonal(bits, 1 - np.diagonal(bits))
    packets = Packets.of(
        [*(stream[:n] for n in range(stream.size + 1)), *np.packbits(bits, axis=1)]
    )
    count = len(packets.offsets) - 1
    streams = Streams(
        packets,
        np.full(count, data.size),
        np.repeat(checksums(Packets.of([data])), count),
        np.ones(count, np.bool_),
        np.repeat([Corruption.CUT, Corruption.FLIPPED_BITS], [stream.size + 1, 8 * stream.size]),
    )
    answers = golden_answers(streams, element_bytes, np.full(count, NEVER))
    # The whole stream is the only one that passes: the checksum sees what structure hides.
    assert np.flatnonzero(answers.status == StreamStatus.OK).tolist() == [stream.size]
    batch = pipeline.run(packets, streams.lengths, crc32=streams.crcs, stalls=0.1, seed=3)
    assert_answered(batch, answers, streams)
