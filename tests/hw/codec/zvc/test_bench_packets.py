"""The packets of the AXI4-Stream tops' benches: which of them are damaged, and how."""

from cdma.golden import StreamStatus
from cdma.hw.codec.zvc.bench import compressor_bench, decompressor_bench
from cdma.hw.config import CodecConfig
from cdma.hw.emit.reset import DEFAULT_RESET, RESETS

GOOD = {StreamStatus.OK}
CUT = {StreamStatus.MASK_TRUNCATED, StreamStatus.PAYLOAD_TRUNCATED}
CONTENTS = 16


def statuses(bench):
    """The packets' statuses in order."""
    made = bench(CodecConfig(), "block", RESETS[DEFAULT_RESET])
    # The status is in the lowest bits of a record.
    return [int(row, 16) & 15 for row in made.vectors["block_status.hex"].split()]


def test_behind_every_fourth_content_is_one_longer_than_announced():
    four = [GOOD] * 4 + [{StreamStatus.LENGTH_MISMATCH}]
    found = statuses(compressor_bench)
    assert len(found) == CONTENTS // 4 * len(four)
    assert all(status in right for status, right in zip(found, four * (CONTENTS // 4), strict=True))


def test_behind_the_others_are_one_cut_one_too_long_and_one_of_another_crc():
    damage = CUT, {StreamStatus.TRAILING_BYTES}, {StreamStatus.CRC_MISMATCH}
    four = [GOOD] + [kind for damaged in damage for kind in (GOOD, damaged)]
    found = statuses(decompressor_bench)
    assert len(found) == CONTENTS // 4 * len(four)
    assert all(status in right for status, right in zip(found, four * (CONTENTS // 4), strict=True))
