"""Plain streams to lines: bits, rate, and packets that hold less, more or worse than announced."""

import random

import pytest

from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.raw.unpacker import RawUnpacker
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, stalls
from tests.lib.rtl.payloads import CONFIGS, beats_of, config_id

LINE_BYTES = 128


@pytest.fixture(scope="module", params=CONFIGS, ids=config_id)
def bench(request):
    return Bench(RawUnpacker(request.param))


def line_beats(config, packet, nbytes):
    """`LineBeat`s of the first `nbytes` of a packet, or of what is there of them."""
    width, size = config.sector_bytes, config.element_bytes
    found = []
    for start in range(0, nbytes, width):
        in_line = start % LINE_BYTES
        due = packet[start : min(start + width, nbytes)]
        is_short = len(due) < min(width, nbytes - start)
        # An element of which bytes are missing does not count; the data's last one may be shorter.
        count = len(due) // size if is_short else -(-len(due) // size)
        found.append(
            {
                "elements": [
                    int.from_bytes(due[i * size : (i + 1) * size], "little") for i in range(count)
                ],
                "count": count,
                "sol": in_line == 0,
                "eol": is_short or start + width >= nbytes or in_line + width == LINE_BYTES,
                "last": is_short or start + width >= nbytes,
                "truncation": Truncation.PAYLOAD if is_short else Truncation.NONE,
            }
        )
        if in_line == 0:
            found[-1]["mask"] = (1 << -(-min(nbytes - start, LINE_BYTES) // size)) - 1
        if is_short:
            break
    return found


def unpack(bench, cases, *, source=always, sink=always):
    """Run packets of (announced bytes, beats, bytes before the first hole, tail)."""
    component = bench.component
    expected = [
        beat for nbytes, _, seen, _ in cases for beat in line_beats(component.config, seen, nbytes)
    ]
    bench.source(component.command, [nbytes for nbytes, _, _, _ in cases])
    given = bench.source(
        component.i, [beat for _, beats, _, _ in cases for beat in beats], willing=source
    )
    taken = bench.sink(component.o, len(expected), willing=sink)
    tails = bench.sink(component.tail, len(cases))
    bench.run()
    taken.assert_received(expected)
    for index, (got, (_, _, _, tail)) in enumerate(zip(tails.payloads, cases, strict=True)):
        assert {name: got[name] for name in tail} == tail, f"tail of packet {index}"
    return given, taken


def case(config, packet, nbytes):
    """A packet without holes, for which so many bytes are announced."""
    tail = {"framing_error": 0, "size": len(packet)}
    if len(packet) >= nbytes:
        tail["trailing"] = len(packet) > nbytes
    return nbytes, beats_of(packet, config.sector_bytes), packet, tail


def sizes(config):
    """Around an element, a beat, a line and two."""
    width = config.sector_bytes
    around = {1, config.element_bytes, width, LINE_BYTES, LINE_BYTES + width, 2 * LINE_BYTES}
    return sorted({size + more for size in around for more in (-1, 0, 1) if size + more > 0})


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_lines_are_the_stream_cut_up(bench, source, sink):
    config, rng = bench.component.config, random.Random(1)
    cases = [case(config, rng.randbytes(size), size) for size in sizes(config)]
    unpack(bench, cases, source=stalls(source, 2), sink=stalls(sink, 3))


def test_takes_a_beat_per_cycle(bench):
    config = bench.component.config
    given, taken = unpack(bench, [case(config, random.Random(2).randbytes(1000), 1000)])
    assert_no_bubble(given.cycles)
    assert taken.cycles == given.cycles


def test_packets_that_are_cut_end_in_damage(bench):
    config, rng = bench.component.config, random.Random(3)
    cases = []
    for size in sizes(config):
        for kept in {0, 1, size // 2, size - config.sector_bytes, size - 1}:
            if 0 <= kept < size:
                cases.append(case(config, rng.randbytes(kept), size))
        # Behind it, as if nothing had happened.
        cases.append(case(config, rng.randbytes(size), size))
    unpack(bench, cases, source=stalls(0.2, 4), sink=stalls(0.2, 5))


def test_bytes_behind_the_lines_are_trailing_and_drained(bench):
    config, rng = bench.component.config, random.Random(6)
    cases = [
        case(config, rng.randbytes(size + more), size)
        for size in sizes(config)
        for more in (0, 1, config.sector_bytes, 3 * LINE_BYTES)
    ]
    unpack(bench, cases, sink=stalls(0.2, 7))


def test_packets_with_a_hole_are_cut_there(bench):
    config, rng = bench.component.config, random.Random(8)
    width = config.sector_bytes
    cases = []
    for number in range(30):
        packet = rng.randbytes(rng.randint(1, 3 * LINE_BYTES))
        beats = beats_of(packet, width)
        hole = rng.randrange(len(beats))
        kept = rng.randrange(beats[hole]["size"])
        beats[hole] |= {"size": kept, "framing_error": 1}
        seen = packet[: hole * width + kept]
        tail = {"framing_error": 1, "size": len(seen)}
        cases.append((len(packet), beats, seen, tail))
        cases.append(case(config, packet, len(packet) if number % 2 else max(1, len(packet) // 2)))
    unpack(bench, cases, source=stalls(0.3, 9))
