"""BPC, bit by bit."""

import time

import numpy as np
import pytest

from cdma.golden import StreamError, StreamStatus
from cdma.golden.formats.bpc.bpc import Bpc, code_bits, decode_entries, encode_entries, entry_bits
from tests.golden.buddy.entries import KINDS, all_planes_raw, entries_of, mixed_entries
from tests.golden.formats.bpc import slow_bpc

ONES = "00000"
ZERO_PLANE = "00001"


def two(place):
    return "00010" + f"{place:05b}"


def one(place):
    return "00011" + f"{place:05b}"


def raw(dbx):
    return "1" + f"{dbx:031b}"


def run(planes):
    return slow_bpc.code_of_run(planes)


def words(*values):
    """uint8 (128,): these signed words, the last of them again and again."""
    return np.array([*values, *[values[-1]] * (32 - len(values))], "<i4").view(np.uint8)


def code_of(entry):
    """The code in the fast model, as a string of bits."""
    encoded = encode_entries(entry)
    assert not encoded.raw[0]
    bits = "".join(f"{byte:08b}" for byte in encoded.data[0])
    assert "1" not in bits[encoded.bits[0] :]
    return bits[: encoded.bits[0]]


def decode_bits(code, nbytes=None):
    """Status, offset and bits of a code that is not necessarily one."""
    data = slow_bpc.to_bytes(code)[:128]
    row = np.zeros((1, 128), np.uint8)
    row[0, : len(data)] = np.frombuffer(data, np.uint8)
    decoded = decode_entries(row, np.array([len(data) if nbytes is None else nbytes]))
    assert (decoded.status[0] == StreamStatus.OK) or not decoded.data.any()
    return StreamStatus(int(decoded.status[0])), int(decoded.offset[0]), int(decoded.bits[0])


@pytest.mark.parametrize(
    ("base", "code"),
    [
        (0, "000"),
        (1, "001" + "0001"),
        (-8, "001" + "1000"),
        (7, "001" + "0111"),
        (8, "010" + "00001000"),
        (-9, "010" + "11110111"),
        (-128, "010" + "10000000"),
        (128, "011" + "0000000010000000"),
        (-32768, "011" + "1000000000000000"),
        (32767, "011" + "0111111111111111"),
        (32768, "1" + f"{32768:032b}"),
        (-32769, "1" + f"{2**32 - 32769:032b}"),
        (-(2**31), "1" + f"{2**31:032b}"),
    ],
)
def test_base_is_as_short_as_it_can_be(base, code):
    assert code_of(words(base)) == code + run(33)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        # A ramp: plane 0 is ones and nothing else.
        (range(32), "000" + run(32) + ONES),
        # Plane 1 is ones, plane 0 is zeros.
        (range(0, 64, 2), "000" + run(31) + ONES + ZERO_PLANE),
        (range(0, 96, 3), "000" + run(31) + ONES + run(1)),
        # Going down, the signs are ones and all planes are.
        (range(0, -32, -1), "000" + ONES + run(32)),
        # One step: a single one, which the next plane loses again.
        ([0, 2], "000" + run(31) + one(0) + ZERO_PLANE),
        ([0] * 31 + [1], "000" + run(32) + one(30)),
        ([0, 1, 2], "000" + run(32) + two(0)),
        ([0] * 30 + [1, 2], "000" + run(32) + two(29)),
        ([0, 1, 1, 2], "000" + run(32) + raw(0b101)),
        # DBP = 0 goes before all ones, and before one and two.
        (range(0, 128, 4), "000" + run(30) + ONES + ZERO_PLANE + run(1)),
        ([0, 4, 8], "000" + run(30) + two(0) + ZERO_PLANE + run(1)),
    ],
)
def test_codes_of_planes(values, code):
    assert code_of(words(*values)) == code


def test_words_are_signed():
    """The step from −1 to 1 is 2, and between the extremes the delta has 33 bits."""
    assert code_of(words(-1, 1)) == "0011111" + run(31) + one(0) + ZERO_PLANE
    low, high = -(2**31), 2**31 - 1
    # The delta is 0 1111…1: all planes but the signs.
    assert code_of(words(low, high)) == slow_bpc.code_of_base(low) + run(1) + one(0) + run(31)
    # The delta is 1 0000…1.
    expected = slow_bpc.code_of_base(high) + one(0) + ZERO_PLANE + run(30) + one(0)
    assert code_of(words(high, low)) == expected


def test_all_zero_entry_is_10_bits():
    assert code_of(words(0)) == "000" + "01" + "11111"
    assert Bpc().compress(words(0)).tobytes() == bytes([0x01, 0b00001111, 0b11000000])


def test_longest_code_is_1089_bits_and_stays_raw():
    entry = all_planes_raw()
    assert slow_bpc.encode(entry.tobytes()).count("1") > 0
    assert code_bits(entry).tolist() == [1089]
    assert entry_bits(entry).tolist() == [1024]
    encoded = encode_entries(entry)
    assert encoded.raw.tolist() == [True]
    assert encoded.data.tobytes() == entry.tobytes()
    assert Bpc().compress(entry).tobytes() == b"\x80" + entry.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_table(kind):
    entries = entries_of(kind, 400)
    encoded = encode_entries(entries)
    codes = [slow_bpc.encode(entry.tobytes()) for entry in entries]
    lengths = np.array([len(code) for code in codes])
    assert code_bits(entries).tolist() == lengths.tolist()
    assert entry_bits(entries).tolist() == np.minimum(lengths, 1024).tolist()
    assert encoded.bits.tolist() == np.minimum(lengths, 1024).tolist()
    assert encoded.raw.tolist() == (lengths > 1024).tolist()
    for row, entry, code in zip(encoded.data, entries, codes, strict=True):
        expected = entry.tobytes() if len(code) > 1024 else slow_bpc.to_bytes(code)
        assert row.tobytes() == expected.ljust(128, b"\0")


def test_every_code_occurs_in_the_entries():
    codes = "".join(slow_bpc.encode(entry.tobytes())[:600] for entry in entries_of("planes", 50))
    for code in (ONES, ZERO_PLANE, "00010", "00011", "001", "01", "1"):
        assert code in codes


def test_round_trip_of_all_kinds():
    entries = mixed_entries(3000)
    encoded = encode_entries(entries)
    decoded = decode_entries(encoded.data, -(-encoded.bits // 8))
    coded = ~encoded.raw
    assert not decoded.status[coded].any()
    assert decoded.bits[coded].tolist() == encoded.bits[coded].tolist()
    assert decoded.data[coded].tobytes() == entries[coded].tobytes()
    stream = Bpc().compress(entries)
    assert Bpc().decompress(stream, entries.size).tobytes() == entries.tobytes()
    assert Bpc().line_sizes(entries).tolist() == (1 + -(-encoded.bits // 8)).tolist()


def test_no_entries():
    encoded = encode_entries(np.empty(0, np.uint8))
    assert (encoded.bits.shape, encoded.data.shape) == ((0,), (0, 128))
    assert decode_entries(encoded.data, encoded.bits).data.shape == (0, 128)
    assert entry_bits(np.empty(0, np.uint8)).shape == (0,)


def test_decoder_ends_as_the_slow_one_on_damaged_entries():
    generator = np.random.default_rng(1)
    encoded = encode_entries(mixed_entries(2500, seed=1))
    rows = encoded.data[~encoded.raw]
    nbytes = -(-encoded.bits[~encoded.raw] // 8)
    damage = np.arange(len(rows)) % 4
    # A bit flipped; a truncation; both; and nothing but noise.
    flip = np.flatnonzero(damage % 2 == 0)
    bits = generator.integers(0, 8 * nbytes[flip])
    rows[flip, bits // 8] ^= (1 << bits % 8).astype(np.uint8)
    cut = np.flatnonzero((damage == 1) | (damage == 2))
    nbytes[cut] = generator.integers(0, nbytes[cut] + 1)
    noise = np.flatnonzero(damage == 3)
    rows[noise] = generator.integers(0, 256, (noise.size, 128))
    rows[noise, 0] &= 0x1F
    nbytes[noise] = generator.integers(1, 129, noise.size)

    decoded = decode_entries(rows, nbytes)
    seen = set()
    for index, row in enumerate(rows):
        status, offset, used, data = slow_bpc.decode(row[: nbytes[index]].tobytes())
        assert decoded.status[index] == status
        assert (decoded.offset[index], decoded.bits[index]) == (offset, used)
        assert decoded.data[index].tobytes() == data
        seen.add(status)
    assert seen == {
        StreamStatus.OK,
        StreamStatus.PAYLOAD_TRUNCATED,
        StreamStatus.BAD_TOKEN,
        StreamStatus.NONZERO_FILL,
    }


@pytest.mark.parametrize("values", [[0], range(32), [5, 9, -3, 70000, 1, 2], [-(2**31), 77]])
def test_truncation_at_every_byte(values):
    code = code_of(words(*values))
    for nbytes in range(-(-len(code) // 8)):
        status, offset, used = decode_bits(code, nbytes)
        assert status == StreamStatus.PAYLOAD_TRUNCATED
        assert used <= 8 * nbytes
        assert offset == used // 8


@pytest.mark.parametrize("values", [range(32), [5, 9, -3, 70000, 1, 2], [-(2**31), 77]])
def test_truncation_at_every_bit(values):
    """Zeros up to the next byte may make a code of what is left, and even an entry."""
    code = code_of(words(*values))
    seen = set()
    for length in range(len(code)):
        status, offset, used, _ = slow_bpc.decode(slow_bpc.to_bytes(code[:length]))
        assert decode_bits(code[:length]) == (status, offset, used)
        seen.add(status)
    assert StreamStatus.PAYLOAD_TRUNCATED in seen


@pytest.mark.parametrize(
    ("code", "bit"),
    [
        # Bases that are longer than they need to be.
        ("001" + "0000", 0),
        ("010" + "00000111", 0),
        ("010" + "11111000", 0),
        ("011" + "0000000001111111", 0),
        ("1" + f"{32767:032b}", 0),
        ("1" + f"{2**32 - 32768:032b}", 0),
        # Runs that go beyond plane 0, or on from another run.
        ("000" + ONES + run(33), 8),
        ("000" + run(32) + run(2), 10),
        ("000" + run(32) + run(1), 10),
        ("000" + run(1) + run(1), 6),
        ("000" + ONES + run(31) + run(1), 15),
        # Places that there are not.
        ("000" + two(30), 3),
        ("000" + two(31), 3),
        ("000" + one(31), 3),
        # Longer codes than there are for this plane.
        ("000" + raw(0), 3),
        ("000" + raw(2**31 - 1), 3),
        ("000" + raw(1 << 30), 3),
        ("000" + raw(3), 3),
        ("000" + raw(5) + raw(5), 35),
        # What makes a plane of zeros is told so, whatever else it is.
        ("000" + ONES + ONES, 8),
        ("000" + one(4) + one(4), 13),
        ("000" + two(4) + two(4), 13),
        # A plane of zeros under a plane of zeros would be in a run.
        ("000" + ZERO_PLANE, 3),
        ("000" + ONES + ZERO_PLANE + ZERO_PLANE, 13),
        ("000" + run(4) + ZERO_PLANE, 10),
    ],
)
def test_codes_that_are_not_in_the_table(code, bit):
    # Zeros behind it are no code of planes that lacks bits.
    status, offset, used = decode_bits(code + "0" * 64)
    assert (status, offset, used) == (StreamStatus.BAD_TOKEN, bit // 8, bit)


def test_planes_that_no_words_have():
    # Signs of a fall, and a delta of 0 to go with it.
    code = "000" + one(3) + ZERO_PLANE + run(31)
    assert slow_bpc.decode(slow_bpc.to_bytes(code))[0] == StreamStatus.BAD_TOKEN
    assert decode_bits(code) == (StreamStatus.BAD_TOKEN, 0, len(code))


@pytest.mark.parametrize("place", range(10, 16))
def test_bits_behind_the_code(place):
    code = "000" + run(33)
    damaged = code + "0" * (place - 10) + "1"
    assert decode_bits(damaged) == (StreamStatus.NONZERO_FILL, 1, 10)


def stream_of(code):
    data = slow_bpc.to_bytes(code)
    return bytes([len(data) - 1]) + data


GOOD = bytes([0x01, 0b00001111, 0b11000000])
"""An entry of zeros in a stream."""


@pytest.mark.parametrize(
    ("stream", "nbytes", "status", "offset", "valid"),
    [
        (b"", 1, "PAYLOAD_TRUNCATED", 0, 0),
        (GOOD, 129, "PAYLOAD_TRUNCATED", 3, 128),
        (GOOD + GOOD[:2], 256, "PAYLOAD_TRUNCATED", 3, 128),
        (GOOD + b"\x80" + bytes(127), 256, "PAYLOAD_TRUNCATED", 3, 128),
        (GOOD + b"\x81" + bytes(200), 256, "BAD_TOKEN", 3, 128),
        (GOOD + b"\xff", 256, "BAD_TOKEN", 3, 128),
        # Raw, though the code of zeros fits.
        (GOOD + b"\x80" + bytes(128), 256, "BAD_TOKEN", 3, 128),
        (GOOD + bytes([1, 0b00001011, 0xFF]), 256, "LENGTH_MISMATCH", 6, 128),
        (GOOD + bytes([0, 0b00001111]), 256, "LENGTH_MISMATCH", 5, 128),
        (GOOD + bytes([2, 0b00001111, 0b11000000, 0]), 256, "LENGTH_MISMATCH", 6, 128),
        (GOOD + bytes([1, 0b00001111, 0b11000001]), 256, "NONZERO_FILL", 5, 128),
        (GOOD + bytes([1, 0b00100000, 0b00000000]), 256, "BAD_TOKEN", 4, 128),
        (GOOD + b"\x00", 128, "TRAILING_BYTES", 3, 128),
        (GOOD, 0, "TRAILING_BYTES", 0, 0),
        # Planes that no words have.
        (GOOD + stream_of("000" + one(3) + ZERO_PLANE + run(31)), 256, "BAD_TOKEN", 4, 128),
        # What is wrong in an entry comes before what is wrong behind it.
        (bytes([1, 0x0F, 0xC1]) + b"\xff", 256, "NONZERO_FILL", 2, 0),
    ],
)
def test_damaged_streams(stream, nbytes, status, offset, valid):
    with pytest.raises(StreamError) as caught:
        Bpc().decompress(np.frombuffer(stream, np.uint8), nbytes)
    assert caught.value.status == StreamStatus[status]
    assert (caught.value.offset, caught.value.valid_bytes) == (offset, valid)


@pytest.mark.parametrize("entry", [words(*range(1, 33)), all_planes_raw()[0]], ids=["code", "raw"])
def test_bytes_behind_the_true_length(entry):
    stream = Bpc().compress(np.concatenate([words(0), entry]))
    with pytest.raises(StreamError) as caught:
        Bpc().decompress(stream, 128 + 100)
    assert caught.value.status == StreamStatus.NONZERO_FILL
    assert (caught.value.offset, caught.value.valid_bytes) == (3, 128)


@pytest.mark.parametrize(("plane_zero", "bits"), [(False, 1024), (True, 1026)])
def test_code_of_1024_bits_is_the_longest(plane_zero, bits):
    """A base of 19 bits, 31 planes of 32, one of 10, and one of 3 or 5."""
    generator = np.random.default_rng(3)
    planes = generator.integers(0, 2**31, 32)
    planes[10] = planes[11] ^ 1 << 7
    planes[5] = 0 if plane_zero else planes[6]
    deltas = ((planes >> np.arange(31)[:, None] & 1) << np.arange(32)).sum(axis=1)
    entry = np.cumsum([1000, *deltas]).astype(np.uint32)
    assert code_bits(entry).tolist() == [bits]
    stream = Bpc().compress(entry)
    assert (stream.size, stream[0]) == (129, 0x80 if plane_zero else 0x7F)
    assert Bpc().decompress(stream, 128).tobytes() == entry.tobytes()


def test_ratios_of_the_format():
    """BPC is poor on rectified floats, and shines on integers that change slowly."""
    generator = np.random.default_rng(0)
    floats = np.abs(generator.standard_normal(1 << 17, np.float32))
    floats[generator.random(floats.size) < 0.62] = 0
    ramp = np.cumsum(generator.integers(-5, 6, 1 << 17)).astype(np.int32)
    for array, ratio in ((floats, 1.13), (ramp, 6.7)):
        assert 8 * array.nbytes / entry_bits(array).sum() == pytest.approx(ratio, rel=0.01)


@pytest.mark.always
def test_sizes_come_at_50_mb_per_second():
    """Ten times slower than measured, as the machine may be busy."""
    array = np.cumsum(np.random.default_rng(0).integers(-5, 6, 1 << 20)).astype(np.int32)
    start = time.process_time()
    entry_bits(array)
    assert array.nbytes / (time.process_time() - start) > 50e6
