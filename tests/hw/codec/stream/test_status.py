"""A transfer's status is put together from those of its parts."""

from itertools import product

import pytest

from cdma.golden import StreamStatus
from cdma.hw.codec.stream.checker import LineError
from cdma.hw.codec.stream.status import ByteMeter, CompressorStatus, DecompressorStatus
from tests.lib.rtl.bench import STALLS, Bench, assert_no_bubble, from_cycle, stalls
from tests.lib.rtl.payloads import beats_of, packets_of

WIDTH = 32
PACKETS = [bytes(range(n % 251)) for n in (0, 1, 32, 33, 250, 64, 0, 7)]


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_meter_counts_the_bytes_of_each_packet(source, sink):
    bench = Bench(ByteMeter(WIDTH))
    beats = [beat for packet in PACKETS for beat in beats_of(packet, WIDTH)]
    bench.source(bench.component.i, beats, willing=stalls(source, 1))
    out = bench.sink(bench.component.o, len(beats), willing=stalls(sink, 2))
    sizes = bench.sink(bench.component.size, len(PACKETS), willing=stalls(sink, 3))
    bench.run()
    assert packets_of(out.payloads, WIDTH) == PACKETS
    assert sizes.payloads == [len(packet) for packet in PACKETS]


def test_meter_passes_beats_at_once_until_a_size_waits():
    bench = Bench(ByteMeter(WIDTH))
    beats = beats_of(bytes(3 * WIDTH), WIDTH) + beats_of(bytes(3 * WIDTH), WIDTH)
    given = bench.source(bench.component.i, beats)
    out = bench.sink(bench.component.o, len(beats))
    sizes = bench.sink(bench.component.size, 2, willing=from_cycle(20))
    bench.run()
    assert out.cycles == given.cycles
    assert_no_bubble(given.cycles[:5])
    # The second packet's last beat waits for the first one's size.
    assert given.cycles[5] == sizes.cycles[0] + 1 == 21


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_compressor_status_joins_its_parts(source, sink):
    bench = Bench(CompressorStatus())
    taken = [{"mismatch": i % 3 == 1, "size": 1000 + i} for i in range(20)]
    bench.source(bench.component.taken, taken, willing=stalls(source, 1))
    bench.source(bench.component.crc32, [7 * i for i in range(20)], willing=stalls(source, 2))
    bench.source(bench.component.out_size, [9 * i for i in range(20)], willing=stalls(source, 3))
    out = bench.sink(bench.component.o, 20, willing=stalls(sink, 4))
    bench.run()
    out.assert_received(
        [
            {
                "status": (StreamStatus.LENGTH_MISMATCH if part["mismatch"] else StreamStatus.OK),
                "offset": part["size"],
                "out_size": 9 * i,
                "crc32": 7 * i,
            }
            for i, part in enumerate(taken)
        ]
    )


def expected_status(line_error, trailing, framing_error, check, crc_right):
    """The first error in the order of the stream; a cut that tore the packet is a mismatch."""
    if line_error in (LineError.MASK_MISSING, LineError.ELEMENT_MISSING) and framing_error:
        return StreamStatus.LENGTH_MISMATCH, "tail"
    kinds = {
        LineError.MASK_MISSING: StreamStatus.MASK_TRUNCATED,
        LineError.ELEMENT_MISSING: StreamStatus.PAYLOAD_TRUNCATED,
        LineError.ELEMENT_ZERO: StreamStatus.ZERO_ELEMENT,
        LineError.FILL_NONZERO: StreamStatus.NONZERO_FILL,
    }
    if line_error in kinds:
        return kinds[line_error], "checked"
    if trailing:
        return StreamStatus.TRAILING_BYTES, "checked"
    if framing_error:
        return StreamStatus.LENGTH_MISMATCH, "tail"
    if check and not crc_right:
        return StreamStatus.CRC_MISMATCH, "checked"
    return StreamStatus.OK, "checked"


def test_decompressor_status_tells_the_first_error():
    cases = list(product(LineError, (0, 1), (0, 1), (0, 1), (True, False)))
    bench = Bench(DecompressorStatus())
    part = bench.component
    offsets = {"checked": 1111, "tail": 2222}
    bench.source(
        part.expectation,
        [{"crc32": 5 if right else 6, "check": check} for *_, check, right in cases],
        willing=stalls(0.2, 1),
    )
    bench.source(
        part.checked,
        [{"line_error": line_error, "offset": 1111, "size": 33} for line_error, *_ in cases],
        willing=stalls(0.2, 2),
    )
    bench.source(
        part.tail,
        [
            {"trailing": trailing, "framing_error": framing_error, "size": 2222}
            for _, trailing, framing_error, *_ in cases
        ],
        willing=stalls(0.2, 3),
    )
    bench.source(part.crc32, [5] * len(cases), willing=stalls(0.2, 4))
    out = bench.sink(part.o, len(cases), willing=stalls(0.2, 5))
    bench.run()
    expected = []
    for case in cases:
        status, place = expected_status(*case)
        expected.append({"status": status, "offset": offsets[place], "out_size": 33, "crc32": 5})
    out.assert_received(expected)
