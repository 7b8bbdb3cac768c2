"""The lossy lane's two theorems, on the lanes of the RTL, for all values and all bounds.

What comes back of a value is within the bound, and quantizes to the same number: so a stream of
what came back is the same stream.
"""

import pytest
from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.hdl._ast import AnyConst

from cdma.hw.codec.quantize.arithmetic import (
    MANTISSA_BITS,
    half_normal,
    number_of,
    restored,
    scale_of,
)
from cdma.hw.codec.quantize.payloads import K_BITS, NUMBER_BITS
from tests.formal.bench import Bench
from tests.formal.smtbmc import check

pytestmark = pytest.mark.verify


def lane(m: Module, word: Value, k: Value, name: str):
    scale = scale_of(m, word, k, name=name)
    number = number_of(m, word, scale, name=name)
    return number, scale.raw


def any_value(bench: Bench) -> tuple[Signal, Signal]:
    """Any word and any k."""
    word, k = Signal(32), Signal(K_BITS)
    bench.m.d.comb += [word.eq(AnyConst(32)), k.eq(AnyConst(K_BITS))]
    return word, k


def bound_proof() -> Bench:
    """|x - q·2^(k - 127)| is at most 2^(k - 128): in units of the value's last bit, whole numbers.

    With the mantissa m and the shift s of the value, |x| is m · 2^(k - 127 - s) and the bound is
    2^(s - 1) such units: | m - |q| · 2^s | <= 2^(s - 1). Where s is more than the mantissa's bits
    and one, q must be 0 and all of m is within.
    """
    bench = Bench()
    m = bench.m
    word, k = any_value(bench)
    number, raw = lane(m, word, k, "lane")
    field = word[MANTISSA_BITS:-1]
    shift = Signal(signed(K_BITS + 2))
    mantissa = Signal(MANTISSA_BITS + 1)
    size = Signal(NUMBER_BITS)
    distance = Signal(signed(2 * MANTISSA_BITS + 8))
    far = Signal()
    m.d.comb += [
        shift.eq(k + MANTISSA_BITS - Mux(field == 0, 1, field)),
        mantissa.eq(word[:MANTISSA_BITS] + Mux(field == 0, 0, 1 << MANTISSA_BITS)),
        size.eq(Mux(number < 0, -number, number)),
        far.eq(shift > MANTISSA_BITS + 1),
        distance.eq(mantissa - (size << shift[:5])),
    ]
    kept = ~raw
    within = (distance <= (1 << shift[:5]) >> 1) & (-distance <= (1 << shift[:5]) >> 1)
    bench.require(
        ~kept | ((shift >= 1) & (shift <= MANTISSA_BITS + 1) & within) | (far & (number == 0)),
        ~kept | (number == 0) | ((number < 0) == word[-1]),
        ~kept | (size < 1 << NUMBER_BITS - 1),
    )
    bench.cover(kept & (number == 3), kept & far, raw & (field == 200))
    return bench


def fixed_point_proof() -> Bench:
    """What comes back of a value has the same number, is no value to be kept, and is finite."""
    bench = Bench()
    m = bench.m
    word, k = any_value(bench)
    number, raw = lane(m, word, k, "first")
    back, infinite = restored(m, half_normal(m, number, name="half"), k, name="back")
    again, raw_again = lane(m, back, k, "again")
    bench.require(
        raw | ~infinite,
        raw | ~raw_again,
        raw | (again == number),
        raw | (number != 0) | (back == 0),
    )
    bench.cover(~raw & (number == -5), ~raw & (k == 254) & (number == 1))
    return bench


def number_proof() -> Bench:
    """Every number whose value is finite comes back from its value: a decoder needs no rounding."""
    bench = Bench()
    m = bench.m
    number, k = Signal(signed(NUMBER_BITS)), Signal(K_BITS)
    m.d.comb += [number.eq(AnyConst(NUMBER_BITS)), k.eq(AnyConst(K_BITS))]
    bench.assume(number != -(1 << NUMBER_BITS - 1), k != 0, k != 255)
    word, infinite = restored(m, half_normal(m, number, name="half"), k, name="word")
    again, raw = lane(m, word, k, "again")
    bench.require(infinite | (~raw & (again == number)))
    bench.cover(infinite, ~infinite & (number == 7))
    return bench


def test_what_comes_back_is_within_the_bound(tmp_path):
    check(bound_proof(), tmp_path, depth=1, cover_depth=1, timeout_s=1000)


def test_what_comes_back_quantizes_to_the_same_number(tmp_path):
    check(fixed_point_proof(), tmp_path, depth=1, cover_depth=1, timeout_s=1000)


def test_every_number_comes_back_from_its_value(tmp_path):
    check(number_proof(), tmp_path, depth=1, cover_depth=1, timeout_s=1000)
