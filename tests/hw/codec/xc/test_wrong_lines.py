"""Lines of which a bit, the extras' count or the kind is wrong, through the decompressor of every
element format."""

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.golden.formats.xc.decoder import decode
from tests.hw.codec.xc.lines import beats_of_line, expanded, golden
from tests.hw.codec.xc.test_widths import (
    coding_of,
    decompressor,
    elements,
    some_lines,
    streams_of,
    with_parameters,
)
from tests.lib.rtl.bench import stalls

__all__ = ["decompressor", "elements"]


def damaged_lines(form, stream, rng):
    """Lines of the same head, or of one that tells of another size, which they have."""
    header = form.header_bytes
    if stream[0] >> 6 == 3:
        # Kept as they are, though all zero or even, they were not worth it.
        return [stream[:header] + bytes(128), stream[:header] + bytes([0, 1] * 64)]
    head = header + (form.mask_bytes if stream[0] >> 6 == 2 else 0)
    found = [bytes([stream[0] + 1]) + stream[1:] + b"\0"] if stream[0] & 0x3F < 0x3F else []
    if stream[0] & 0x3F:
        found.append(bytes([stream[0] - 1]) + stream[1:-1])
    if len(stream) > head:
        # Behind the last field of some.
        found += [stream[:-1] + bytes([stream[-1] ^ bit]) for bit in (0x80, 0x40, 0x10)]
    for flips in (1, 1, 1, 2, 3):
        bits = np.unpackbits(np.frombuffer(stream[head:], np.uint8))
        if bits.size:
            bits[rng.integers(0, bits.size, flips)] ^= 1
            found.append(stream[:head] + np.packbits(bits).tobytes())
    return found


@pytest.mark.parametrize("number", [0, 3])
def test_wrong_lines_are_answered_as_golden_answers_them(decompressor, number):
    component = decompressor.component
    form, config = component.elements, component.config
    rng = np.random.default_rng([9, number])
    coding = coding_of(decompressor, number)
    lines = some_lines(decompressor, [9, number], 12)
    streams = streams_of(decompressor, lines, coding)
    beats, sectors = [], []
    statuses = set()
    for stream in [made for one in streams for made in damaged_lines(form, one, rng)]:
        want = decode(np.frombuffer(stream, np.uint8), 128, golden(*coding, elements=form).coding)
        statuses.add(want.status)
        if want.status == StreamStatus.OK:
            sectors += expanded(config, want.data, len(stream), last=1)
        else:
            assert (want.status, want.offset) == (StreamStatus.BAD_TOKEN, 0)
            sectors.append({"sol": 1, "last": 1, "status": StreamStatus.BAD_TOKEN})
        beats += beats_of_line(config, stream)
        beats[-1]["last"] = 1
    assert statuses == {StreamStatus.OK, StreamStatus.BAD_TOKEN}
    decompressor.source(component.i, with_parameters(beats, coding), willing=stalls(0.2, 1))
    taken = decompressor.sink(component.o, len(sectors), willing=stalls(0.2, 2))
    decompressor.run()
    taken.assert_received(sectors)
