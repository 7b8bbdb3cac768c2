"""The quantizer's and the restorer's lanes, against the golden model in integers, for every k."""

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal, signed

from cdma.golden.formats.lossy.fixed_width import NUMBER_LIMIT
from cdma.golden.formats.lossy.power_of_two import quantized, restored
from cdma.hw.codec.quantize import arithmetic
from cdma.hw.codec.quantize.arithmetic import number_of, scale_of
from cdma.hw.codec.quantize.arithmetic import restored as restored_by_rtl
from tests.lib.rtl.kernels import outputs

KS = (1, 2, 24, 127, 231, 232, 233, 234, 240, 253, 254)
"""Ends of the range, and around the k from which on values can round to infinity."""


def words_at(k):
    """uint32: special values, and those around every place where the arithmetic changes."""
    step = np.float64(2.0) ** (k - 127)
    numbers = [0, 1, 2, 3, 2**10, 2**21, 2**22 - 2, 2**22 - 1, 2**22]
    with np.errstate(over="ignore"):
        middles = (step * np.array([n + half for n in numbers for half in (0, 0.5)])).astype("<f4")
    bits = middles.view("<u4").astype(np.int64)
    near = (bits[:, None] + np.arange(-2, 3)).clip(0, 2**31 - 1).ravel()
    least = [0, 1, 2, 0x007FFFFF, 0x00800000, 0x00800001]
    greatest = [0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FFFFFFF]
    random = np.random.default_rng(k).integers(0, 2**31, 30)
    sizes = np.unique(np.concatenate([near, least, greatest, random]))
    return np.concatenate([sizes, sizes | 1 << 31]).astype(np.uint32)


def quantized_by_rtl(ks):
    m = Module()
    word, k = Signal(32), Signal(8)
    scale = scale_of(m, word, k, name="lane")
    number = number_of(m, word, scale, name="lane")
    output = Signal(24)
    m.d.comb += output.eq(Cat(number, scale.raw))
    rows = [(int(w), k_value) for k_value in ks for w in words_at(k_value)]
    found = np.array(outputs(m, output, (word, k), rows))
    numbers = found & 2**23 - 1
    return np.where(numbers >= 2**22, numbers - 2**23, numbers), found >> 23


def assert_quantizes(ks):
    numbers, raw = quantized_by_rtl(ks)
    want = [quantized(words_at(k), k) for k in ks]
    np.testing.assert_array_equal(raw, np.concatenate([exact for _, exact in want]))
    kept = raw == 0
    np.testing.assert_array_equal(
        numbers[kept], np.concatenate([q for q, _ in want])[kept], strict=False
    )
    assert kept.any()
    assert not kept.all()


def test_words_have_the_numbers_of_the_golden_model():
    assert_quantizes(KS)


@pytest.mark.verify
def test_words_have_the_numbers_of_the_golden_model_for_every_k():
    assert_quantizes(range(1, 255))


@pytest.mark.parametrize("k", [0, 255])
def test_without_a_bound_every_value_is_kept(k):
    m = Module()
    word, bound = Signal(32), Signal(8)
    scale = scale_of(m, word, bound, name="lane")
    rows = [(word_value, k) for word_value in (0, 1, 1 << 31, 0x3F800000, 0x7F7FFFFF, 0x7FC00000)]
    assert outputs(m, scale.raw, (word, bound), rows) == [1] * len(rows)


def numbers_at(k):
    places = [2**n + d for n in range(23) for d in (-1, 0, 1)]
    random = np.random.default_rng(k).integers(0, NUMBER_LIMIT, 20).tolist()
    sizes = sorted({n for n in [0, *places, *random] if n < NUMBER_LIMIT})
    return np.array([*sizes, *(-n for n in sizes)], np.int64)


def assert_restores(ks):
    m = Module()
    number, k = Signal(signed(23)), Signal(8)
    half = arithmetic.half_normal(m, number, name="lane")
    word, infinite = restored_by_rtl(m, half, k, name="lane")
    rows = [(int(n), k_value) for k_value in ks for n in numbers_at(k_value)]
    found = np.array(outputs(m, Cat(word, infinite), (number, k), rows))
    with np.errstate(over="ignore"):
        want = np.concatenate([restored(numbers_at(k_value), k_value) for k_value in ks])
    is_infinite = (want & 0x7FFFFFFF) == 0x7F800000
    np.testing.assert_array_equal(found >> 32, is_infinite)
    np.testing.assert_array_equal((found & 2**32 - 1)[~is_infinite], want[~is_infinite])
    assert is_infinite.any()


def test_numbers_have_the_words_of_the_golden_model():
    assert_restores(KS)


@pytest.mark.verify
def test_numbers_have_the_words_of_the_golden_model_for_every_k():
    assert_restores(range(1, 255))


FAULTS = {
    "ties go up": ("up.eq(shifted[0] & (rest | whole[0]))", "up.eq(shifted[0])"),
    "ties go down": ("(rest | whole[0])", "rest"),
    "no hidden bit": ("field.any()", "1"),
    "a step too far": ("scale.shift > j + 1", "scale.shift > j"),
    "negative numbers one less": ("(up ^ sign)", "up"),
    "the limit is not kept": ("fraction[1:].all()", "fraction.all()"),
    "infinity from a step on": ("254 - MANTISSA_BITS + 1 + j", "254 - MANTISSA_BITS + j"),
    "no infinity": ("(shift < 2) | at_limit | infinite", "(shift < 2) | at_limit"),
}
"""Faults that are easily made: what stands in the source, and what might."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, monkeypatch):
    right, wrong = FAULTS[fault]
    with open(arithmetic.__file__) as file:
        source = file.read()
    assert source.count(right) == 1
    planted: dict = {"__name__": "planted"}
    exec(compile(source.replace(right, wrong), "planted", "exec"), planted)
    monkeypatch.setitem(globals(), "scale_of", planted["scale_of"])
    monkeypatch.setitem(globals(), "number_of", planted["number_of"])
    with pytest.raises(AssertionError):
        assert_quantizes((1, 127, 233, 240))
