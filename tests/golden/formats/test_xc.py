"""XC as the format's page tells it: patterns, lines of every kind, parameters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdma import golden
from cdma.golden import LINE_BYTES, CodecError, StreamError, StreamStatus
from cdma.golden.formats.xc.decoder import decode
from cdma.golden.formats.xc.elements import ELEMENT_FORMATS, element_format
from cdma.golden.formats.xc.lines import ESCAPED, Coding
from cdma.golden.formats.xc.patterns import best_parameters, classes, code_bits
from cdma.golden.formats.xc.xc import Xc
from tests.golden.formats.slow_xc import CLASSES, ESCAPE, SlowXc
from tests.golden.formats.xc_data import FORMAT_NAMES, random_coding, random_lines, xc

every_format = pytest.mark.parametrize("elements", ELEMENT_FORMATS, ids=FORMAT_NAMES)


def words_of(elements, values):
    return np.array(values, f"<u{elements.element_bytes}")


def line_of(elements, values):
    """A line of these bit patterns, then zeros."""
    line = np.zeros(elements.line_elements, f"<u{elements.element_bytes}")
    line[: len(values)] = values
    return line


def slow(codec):
    return SlowXc(codec.elements.name, codec.centre, codec.pattern)


# Patterns. -------------------------------------------------------------------------------------


def test_code_and_its_inverse_for_every_exponent_centre_and_pattern():
    """All 2^18 cases: the codes of the slow model, no two exponents with the same, and back."""
    bf16 = element_format("bf16")
    for pattern in range(4):
        for centre in range(256):
            coding = Coding(bf16, centre, pattern)
            model = SlowXc("bf16", centre, pattern)
            codes = [model.code(exponent) for exponent in range(256)]
            assert [(code & 3, code >> 2) for code in coding.codes] == codes
            coded = [exponent for exponent in range(256) if codes[exponent] != ESCAPE]
            assert len({codes[exponent] for exponent in coded}) == len(coded)
            assert len(coded) == sum(map(len, CLASSES[pattern]))
            assert all(coding.exponents[coding.codes[exponent]] == exponent for exponent in coded)


@pytest.mark.parametrize("pattern", range(4))
def test_every_extra_bit_is_used(pattern):
    bits = [len(distances).bit_length() - 1 for distances in classes(pattern)[:3]]
    assert [len(distances) for distances in classes(pattern)] == [*(2**b for b in bits), 15]
    together = [distance for distances in classes(pattern) for distance in distances]
    assert len(set(together)) == len(together)
    assert all(-128 <= distance <= 127 for distance in together)


@pytest.mark.parametrize("pattern", range(4))
def test_no_mutant_of_the_pattern_table_passes(pattern):
    """Two distances that change places, or one that is another, change the streams."""
    bf16 = element_format("bf16")
    centre = 128
    data = words_of(bf16, [exponent << 7 | 1 for exponent in range(1, 256)])
    # Each exponent fills a line, so that none of them is raw.
    data = np.repeat(data, bf16.line_elements)
    reference = xc(bf16, centre, pattern).compress(data).tobytes()
    model = SlowXc("bf16", centre, pattern)
    assert model.encode(data.tobytes()) == reference
    places = [
        (number, index) for number in range(4) for index in range(len(CLASSES[pattern][number]))
    ]
    table = [list(distances) for distances in CLASSES[pattern]]
    spare = 100
    mutants = 0
    for first, (number, index) in enumerate(places):
        for other, at in [*places[first + 1 :], (None, None)]:
            mutant = [distances.copy() for distances in table]
            if other is None:
                mutant[number][index] = spare
            else:
                mutant[number][index] = table[other][at]
                mutant[other][at] = table[number][index]
            model.classes = mutant
            changed = [e for e in range(1, 256) if model.code(e) != model_code(e, centre, table)]
            assert changed
            lines = data.reshape(255, -1)[changed[0] - 1]
            start = sum(xc(bf16, centre, pattern).line_sizes(data)[: changed[0] - 1])
            found = model.encode(lines.tobytes())
            assert reference[start : start + len(found)] != found
            mutants += 1
    assert mutants == len(places) * (len(places) + 1) // 2


def model_code(exponent, centre, table):
    distance = (centre - exponent + 128) % 256 - 128
    for number, distances in enumerate(table):
        if distance in distances:
            return number, distances.index(distance)
    return ESCAPE


# Lines. ----------------------------------------------------------------------------------------


@every_format
def test_random_lines_as_the_slow_model_has_them(elements):
    generator = np.random.default_rng(elements.mantissa_bits)
    kinds = set()
    for _ in range(12):
        codec = random_coding(generator, elements)
        data = random_lines(generator, elements, 12)
        stream = codec.compress(data)
        assert stream.tobytes() == slow(codec).encode(data.tobytes())
        sizes = codec.line_sizes(data)
        assert sizes.sum() == stream.size
        assert sizes.max() <= elements.worst_line_bytes
        assert codec.decompress(stream, data.size).tobytes() == data.tobytes()
        kinds |= set((stream[np.cumsum(sizes) - sizes] >> 6).tolist())
    assert kinds == {0, 1, 2, 3}


@every_format
@pytest.mark.parametrize("nbytes", [0, 1, 2, 3, 5, 127, 128, 129, 1000, 1024 * 128 + 6])
def test_lengths_that_are_no_multiple_of_anything(elements, nbytes):
    codec = xc(elements, 2 ** (elements.exponent_bits - 1) - 1, 0)
    lines = random_lines(np.random.default_rng(nbytes), elements, nbytes // 128 + 1)
    data = lines[:nbytes]
    stream = codec.compress(data)
    filled = np.concatenate([data, np.zeros(-nbytes % LINE_BYTES, np.uint8)])
    np.testing.assert_array_equal(codec.compress(filled), stream)
    np.testing.assert_array_equal(codec.decompress(stream, nbytes), data)
    assert codec.line_sizes(data).sum() == stream.size


@every_format
def test_special_values_are_elements(elements):
    """NaN, infinities, denormals, −0 and the largest numbers come back; only 0 is dropped."""
    top = 2**elements.exponent_bits - 1
    values = []
    for sign in (0, 1):
        for exponent in (0, 1, top - 1, top):
            for mantissa in (0, 1, 2**elements.mantissa_bits - 1):
                values.append(
                    sign << elements.bits - 1 | exponent << elements.mantissa_bits | mantissa
                )
    assert values.pop(0) == 0
    line = line_of(elements, values)
    for pattern in range(4):
        codec = xc(elements, top // 2, pattern)
        stream = codec.compress(line)
        assert stream.tobytes() == slow(codec).encode(line.tobytes())
        assert codec.decompress(stream, 128).tobytes() == line.tobytes()


@every_format
def test_line_of_zeros_is_its_header(elements):
    codec = xc(elements, 7, 0)
    stream = codec.compress(np.zeros(1000, np.uint8))
    assert stream.tobytes() == bytes(8 * elements.header_bytes)


def test_dense_line_of_bf16_takes_81_bytes_at_least():
    line = np.full(64, 0x3F80, "<u2")
    stream = xc(element_format("bf16"), 127, 0).compress(line)
    assert stream.tobytes() == b"\x40" + bytes(16) + bytes(64)


def test_one_zero_makes_a_line_sparse():
    line = np.full(64, 0x3F80, "<u2")
    line[63] = 0
    stream = xc(element_format("bf16"), 127, 0).compress(line)
    assert stream.tobytes() == b"\x80" + b"\xff" * 7 + b"\x7f" + bytes(16) + bytes(63)


@every_format
def test_line_is_raw_from_64_bytes_of_extras_and_escapes_or_129_in_all(elements):
    """Escapes are added to a line one by one: it is raw from where the page says so."""
    exponents = 2**elements.exponent_bits
    codec = xc(elements, 200, 0)
    codes = np.frombuffer(codec.coding.codes, np.uint8)[:exponents]
    assert (codes[1:] == ESCAPED).any()
    far = 1 + int(np.flatnonzero(codes[1:] == ESCAPED)[0])
    seen = set()
    for kept in range(1, elements.line_elements + 1):
        words = [far << elements.mantissa_bits | 1] * kept
        line = line_of(elements, words)
        behind = -(-4 * kept // 8) - (-elements.exponent_bits * kept // 8)
        size = elements.header_bytes + elements.mask_bytes * (kept < elements.line_elements)
        size += -(-2 * kept // 8) - (-(elements.mantissa_bits + 1) * kept // 8) + behind
        raw = behind > 63 or size > 128
        seen.add(raw)
        stream = codec.compress(line)
        assert stream.size == (elements.worst_line_bytes if raw else size)
        assert stream[0] == (0xC0 if raw else (1 + (kept < elements.line_elements)) << 6 | behind)
    assert seen == {False, True}


def test_fp32_that_came_from_bf16_is_trimmed():
    generator = np.random.default_rng(5)
    values = generator.standard_normal(32 * 500).astype("<f4")
    cut = (values.view("<u4") >> 16 << 16).view("<f4")
    codec = Xc(4).fitted(cut)
    stream = codec.compress(cut)
    assert 2.5 < cut.nbytes / stream.size < 2.8
    assert 1.1 < values.nbytes / Xc(4).fitted(values).compress(values).size < 1.2


@every_format
def test_line_sizes_tell_where_lines_start(elements):
    codec = xc(elements, 2 ** (elements.exponent_bits - 1), 0)
    data = random_lines(np.random.default_rng(8), elements, 2100)
    ends = np.cumsum(codec.line_sizes(data))
    for line in (0, 1, 1023, 1024, 2047, 2048, 2099):
        assert codec.compress(data[: (line + 1) * LINE_BYTES]).size == ends[line]


@pytest.mark.parametrize(
    ("size", "values"),
    [
        (64, lambda g: g.standard_normal(64 * 16384)),
        (64, lambda g: g.laplace(size=64 * 16384)),
        (64, lambda g: g.standard_t(3, 64 * 16384)),
    ],
    ids=["gaussian", "laplace", "t3"],
)
def test_no_line_of_independent_numbers_in_bf16_exceeds_97_bytes(size, values):
    """16,384 lines of each distribution, with the best parameters."""
    numbers = values(np.random.default_rng(97)).astype("<f4")
    data = (numbers.view("<u4") >> 16).astype("<u2")
    sizes = Xc(2).fitted(data).line_sizes(data)
    assert sizes.size == 16384
    assert sizes.max() <= 97


# Parameters. -----------------------------------------------------------------------------------


@every_format
def test_best_parameters_are_the_best_of_all(elements):
    generator = np.random.default_rng(3)
    exponents = 2**elements.exponent_bits
    peak = generator.integers(0, exponents)
    weights = np.exp(-np.abs(np.arange(exponents) - peak) / generator.uniform(0.5, 6))
    histogram = generator.poisson(1000 * weights)
    costs = {
        (pattern, centre): sum(
            int(count) * int(code_bits(pattern, elements)[(centre - exponent) % 256])
            for exponent, count in enumerate(histogram)
        )
        for pattern in range(4)
        for centre in range(exponents)
    }
    best = min(costs, key=lambda which: (costs[which], which))
    assert best_parameters(histogram, elements) == best[::-1]


def test_histogram_counts_elements_that_are_not_zero():
    data = np.array([0, 0x8000, 0x3F80, 0x3FFF, 0xBF80, 0], "<u2")
    histogram = Xc(2).histogram(data)
    assert (histogram[0], histogram[127], histogram.sum()) == (1, 3, 4)


def test_histogram_of_another_element_format():
    with pytest.raises(ValueError, match="fp16 has 32 exponents, not 256"):
        best_parameters(np.zeros(256), element_format("fp16"))


def test_parameters_of_nothing():
    assert best_parameters(np.zeros(256), element_format("bf16")) == (0, 0)


@every_format
def test_fitted_is_no_worse_than_any(elements):
    data = random_lines(np.random.default_rng(4), elements, 300)
    best = Xc(elements.element_bytes, exponent_bits=elements.exponent_bits).fitted(data)
    histogram = best.histogram(data)
    assert (best.centre, best.pattern) == best_parameters(histogram, elements)
    assert best.decompress(best.compress(data), data.size).tobytes() == data.tobytes()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"centre": 256}, "the centre of xc must be a whole number from 0 to 255, not 256"),
        ({"centre": -1}, "the centre of xc must be"),
        ({"centre": 1.5}, "the centre of xc must be a whole number from 0 to 255, not 1.5"),
        ({"pattern": 4}, "the pattern of xc must be a whole number from 0 to 3, not 4"),
        ({"exponent_bits": 4}, r"2 bytes with 4 exponent bits; choose from 8 \(bf16\), 5 \(fp16\)"),
        ({"rate": 3}, "xc has no rate; it takes only exponent_bits, centre, pattern"),
    ],
)
def test_parameters_that_there_are_not(parameters, message):
    with pytest.raises(CodecError, match=message):
        golden.codec("xc", 2, **parameters)


def test_unknown_element_format():
    with pytest.raises(CodecError, match="unknown element format 'tf32'; choose from bf16, fp32"):
        element_format("tf32")


@given(st.sampled_from(ELEMENT_FORMATS), st.integers(0, 2**32 - 1))
def test_other_parameters_are_refused_or_show_in_the_data(elements, seed):
    generator = np.random.default_rng(seed)
    data = random_lines(generator, elements, 3)
    one, other = random_coding(generator, elements), random_coding(generator, elements)
    stream = one.compress(data)
    decoded = decode(stream, data.size, other.coding, golden.crc32(data))
    if decoded.status == StreamStatus.OK:
        assert decoded.data.tobytes() == data.tobytes()


def test_decompress_raises_what_the_decoder_found():
    with pytest.raises(StreamError, match="bad token at byte 0 of the stream") as caught:
        Xc(2).decompress(np.array([1], np.uint8), 128)
    assert (caught.value.status, caught.value.valid_bytes) == (StreamStatus.BAD_TOKEN, 0)
