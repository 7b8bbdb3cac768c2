"""Entries of bf16 around the limit of XC's 96 B, and XC's form of an entry told bit by bit."""

import numpy as np

from cdma.golden import StreamStatus
from cdma.golden.formats.bf16 import rounded_to_bf16
from tests.golden.formats.slow_xc import ESCAPE, SlowXc

CENTRE, PATTERN = 126, 1
ODD = np.array([0x8000, 0x0001, 0x807F, 0x7F80, 0xFF80, 0x7FC1, 0xFFFF, 0x0080], np.uint16)
"""−0.0, denormals, infinities, NaNs and the least normal number: far from any centre in use."""


def xc(centre=CENTRE, pattern=PATTERN):
    """The ten bits of a page."""
    return centre | pattern << 8


def entry_of(words):
    """uint8 (1, 128), the last element repeated up to the end."""
    padded = [*words, *[words[-1]] * (64 - len(words))]
    return np.array(padded, "<u2").view(np.uint8).reshape(1, 128)


def bf16_entries(count, seed=0, spread=1.0):
    """Dense and sparse entries, and some with odd values; uint8 (count, 128)."""
    generator = np.random.default_rng([seed, count])
    scale = np.exp2(spread * generator.standard_normal((count, 1)))
    values = (scale * generator.standard_normal((count, 64))).astype(np.float32)
    values[generator.random((count, 64)) < generator.choice([0, 0, 0.02, 0.2], (count, 1))] = 0
    words = rounded_to_bf16(values)
    odd = generator.random((count, 64)) < generator.choice([0, 0, 0, 0.02, 0.05], (count, 1))
    words[odd] = generator.choice(ODD, odd.sum())
    return words.view(np.uint8).reshape(count, 128)


def slow_entry(data, centre, pattern):
    """The 96 bytes of an entry, bytes of 128; None if it does not fit, or is all zeros."""
    codec = SlowXc("bf16", centre, pattern)
    words = np.frombuffer(data, "<u2").tolist()
    kept = [word for word in words if word]
    fields = codec.encode_line(words)[1:]
    codes = [codec.code(word >> 7 & 255) for word in kept]
    extra_bits = sum(codec.extra_bits[number] for number, _ in codes)
    last_bit_in_use = ESCAPE in codes or extra_bits % 8 == 0
    if not kept or len(fields) > 96 or (len(fields) == 96 and last_bit_in_use):
        return None
    row = bytearray(fields.ljust(96, b"\0"))
    row[95] |= 128 * (len(kept) < 64)
    return bytes(row)


def slow_restore(row, centre, pattern):
    """Status, offset and data of 96 bytes that XC's metadata stand for.

    The header's number of bytes, which an entry has not, is found by trying them all.
    """
    bad = StreamStatus.BAD_TOKEN, 0, bytes(128)
    codec = SlowXc("bf16", centre, pattern)
    kind = 2 if row[95] & 128 else 1
    fields = bytes([*row[:95], row[95] & 127])
    for behind in range(64):
        found = codec.decode_line(bytes([kind << 6 | behind]) + fields + bytes(64), 0)
        if not isinstance(found, tuple):
            continue
        data, length = found
        again = slow_entry(data, centre, pattern)
        if again is None:
            return bad
        for place in range(length - 1, 96):
            if fields[place]:
                return StreamStatus.NONZERO_FILL, place, bytes(128)
        assert again == row
        return StreamStatus.OK, 0, data
    return bad
