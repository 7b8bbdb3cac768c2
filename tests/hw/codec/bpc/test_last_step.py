"""The last planes of a code: runs that go beyond them, and codes that end with each kind."""

import numpy as np
import pytest

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.golden.formats.bpc.decoder import decode_entries
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc.decompressor import BpcDecompressor
from cdma.hw.config import EntryConfig
from tests.golden.formats.bpc import slow_bpc
from tests.hw.codec.bpc.code_cases import ONES, ZERO_PLANE, one, raw, run, two
from tests.hw.codec.bpc.test_decompressor import codes_of, sectors_of
from tests.lib.rtl.bench import Bench

BASE = "000"
LAST = 9
"""So many planes from the last one on: those of the last step, and of the one before."""


def singles(planes):
    """Codes of so many planes, none as the one before."""
    return "".join(one(plane % DELTAS) for plane in range(planes))


def as_rows(codes):
    """Rows, uint8 (n, 128), with zeros behind the codes, and the sizes of these."""
    rows = np.zeros((len(codes), 128), np.uint8)
    sizes = np.empty(len(codes), np.int64)
    for index, code in enumerate(codes):
        data = slow_bpc.to_bytes(code)
        rows[index, : len(data)] = np.frombuffer(data, np.uint8)
        sizes[index] = len(data)
    return rows, sizes


@pytest.fixture(scope="module")
def bench():
    return Bench(BpcDecompressor(EntryConfig()))


def verdicts(bench, codes):
    """Verdicts of the golden model, once the RTL has given the same."""
    rows, sizes = as_rows(codes)
    decoded = decode_entries(rows, sizes)
    bench.source(bench.component.i, codes_of(rows, sizes))
    taken = bench.sink(bench.component.o, len(rows) * bench.component.config.sectors)
    bench.run()
    taken.assert_received(sectors_of(bench.component.config, decoded))
    return decoded


def test_runs_beyond_the_last_plane(bench):
    codes = [
        BASE + singles(PLANES - left) + run(length)
        for left in range(1, LAST + 1)
        for length in range(left + 1, left + 3)
    ]
    assert verdicts(bench, codes).status.tolist() == [StreamStatus.BAD_TOKEN] * len(codes)


def test_runs_up_to_the_last_plane(bench):
    """They are read to their ends, though no words have such planes but those of the last code."""
    codes = [BASE + singles(PLANES - left) + run(left) for left in range(1, LAST + 1)]
    codes.append(BASE + ONES + run(PLANES - 1))
    found = verdicts(bench, codes)
    assert found.bits.tolist() == [len(code) for code in codes]
    assert found.status[-1] == StreamStatus.OK


@pytest.mark.parametrize("before", range(LAST))
def test_every_code_in_the_last_planes(bench, before):
    """One of each, and then codes up to the last plane; also cut off there."""
    codes = []
    for code in (ONES, ZERO_PLANE, two(3), two(30), one(7), one(31), raw(5), raw(1), run(2)):
        planes = 2 if code == run(2) else 1
        front = BASE + singles(PLANES - LAST + before)
        behind = LAST - before - planes
        if behind >= 0:
            codes += [front + code + singles(behind), front + code]
    assert StreamStatus.BAD_TOKEN in verdicts(bench, codes).status
