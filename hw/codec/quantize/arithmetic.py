"""Quantizing fp32 with a bound of 2^(k - 128), and restoring it: shifts, no multiplier.

The arithmetic is that of `cdma.golden.formats.lossy.power_of_two`. A value's mantissa of 24 bits,
shifted right by k + 23 less its exponent field, and rounded to the nearest or to even, is |q|:

    mantissa  1fffffffffffffffffffffff
    shifted   ...............1fffffff|h|ssssssss        |q| = 1fffffff + (h and (s or f))

Which values must be kept as they are is seen from the word alone. Rounding gives |q| = 2^22 from
(2^22 - 1/2) · 2^(k - 127) on: where the shift is less than two bits, or two bits with all but the
last of the fraction's bits set. And q · 2^(k - 127) is infinite from half a step below 2^128 on:
with an exponent field of 254, if all bits of the fraction that weigh a step's half or more are set.

All of it is combinational.
"""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data

from cdma.hw.codec.quantize.payloads import K_BITS, NUMBER_BITS

MANTISSA_BITS = 23
MAX_SHIFT = MANTISSA_BITS + 2
"""Shifted by so many bits, every mantissa is less than a half."""
SHIFT_BITS = MAX_SHIFT.bit_length()
_INFINITE_FIELD = 255
SIZE_BITS = NUMBER_BITS - 1
"""Of |q|."""
DISTANCES = (SIZE_BITS - 1).bit_length()
"""Of a size from its place as a mantissa: powers of two."""
LARGER_DISTANCES = 2
SMALLER_DISTANCES = DISTANCES - LARGER_DISTANCES


def is_unbounded(k: Value) -> Value:
    """Whether k, 0 or 255, is no bound: then all values are to be kept."""
    return (k == 0) | (k == _INFINITE_FIELD)


class Scale(data.StructLayout):
    """How far a value is to be shifted; `raw`, if it must be kept as it is."""

    def __init__(self) -> None:
        super().__init__({"shift": SHIFT_BITS, "raw": 1})


def scale_of(m: Module, word: Value, k: Value, *, name: str) -> data.View:
    """The `Scale` of an fp32 word."""
    scale = Signal(Scale(), name=f"{name}_scale")
    field, fraction = word[MANTISSA_BITS:-1], word[:MANTISSA_BITS]
    shift = Signal(signed(K_BITS + 2), name=f"{name}_full_shift")
    at_limit, infinite, none = (
        Signal(name=f"{name}_{what}") for what in ("at_limit", "infinite", "none")
    )
    # Bits of the fraction that weigh less than half a step, where the exponent field is 254.
    lower = Cat(k > 254 - MANTISSA_BITS + 1 + j for j in range(MANTISSA_BITS))
    m.d.comb += [
        # Denormals have the exponent of the field 1.
        shift.eq(k + MANTISSA_BITS - Cat(field[0] | (field == 0), field[1:])),
        at_limit.eq((shift == 2) & fraction[1:].all()),
        infinite.eq((field == _INFINITE_FIELD - 1) & (fraction | lower).all()),
        none.eq(is_unbounded(k)),
        scale.shift.eq(Mux(shift > MAX_SHIFT, MAX_SHIFT, shift)),
        scale.raw.eq((field == _INFINITE_FIELD) | (shift < 2) | at_limit | infinite | none),
    ]
    return scale


def number_of(m: Module, word: Value, scale: data.View, *, name: str) -> Signal:
    """The number q of a word; any, if that is to be kept as it is."""
    field, fraction = word[MANTISSA_BITS:-1], word[:MANTISSA_BITS]
    sign = word[-1]
    mantissa = Signal(MANTISSA_BITS + 1, name=f"{name}_mantissa")
    # One bit more below, which becomes the half.
    shifted = Signal(MANTISSA_BITS + 2, name=f"{name}_shifted")
    rest = Signal(name=f"{name}_rest")
    up = Signal(name=f"{name}_up")
    number = Signal(signed(NUMBER_BITS), name=f"{name}_number")
    whole = shifted[1:]
    kept = Cat(whole[: NUMBER_BITS - 1], C(0, 1))
    behind = Cat(scale.shift > j + 1 for j in range(MANTISSA_BITS + 1))
    m.d.comb += [
        mantissa.eq(Cat(fraction, field.any())),
        shifted.eq(Cat(C(0, 1), mantissa) >> scale.shift),
        rest.eq((mantissa & behind).any()),
        up.eq(shifted[0] & (rest | whole[0])),
        # -(a + b) = ~a + (1 - b) for a bit b.
        number.eq((kept ^ sign.replicate(NUMBER_BITS)) + (up ^ sign)),
    ]
    return number


class HalfNormal(data.StructLayout):
    """A number on its way to a value: its size, shifted up by the larger ones of all distances.

    Members
    -------
    sign
    size
        Shifted.
    zeros
        For each larger distance, from the least, whether it was shifted by that.
    """

    def __init__(self) -> None:
        super().__init__({"sign": 1, "size": SIZE_BITS, "zeros": LARGER_DISTANCES})


def half_normal(m: Module, number: Value, *, name: str) -> data.View:
    """The `HalfNormal` of a number.

    Parameters
    ----------
    number
        Signed, of `NUMBER_BITS`; |q| is less than 2^22.
    """
    sign = number[-1]
    size = Signal(SIZE_BITS, name=f"{name}_size")
    half = Signal(HalfNormal(), name=f"{name}_half")
    m.d.comb += size.eq((number[:-1] ^ sign.replicate(SIZE_BITS)) + sign)
    normal, zeros = _shifted_up(m, size, range(SMALLER_DISTANCES, DISTANCES), name=name)
    m.d.comb += [half.sign.eq(sign), half.size.eq(normal), half.zeros.eq(Cat(zeros))]
    return half


def restored(m: Module, half: data.View, k: Value, *, name: str) -> tuple[Signal, Signal]:
    """The fp32 word of q · 2^(k - 127), and whether that is infinite.

    Parameters
    ----------
    half
        Of q.
    k
        1 to 254; with others, any.
    """
    normal, zeros = _shifted_up(m, half.size, range(SMALLER_DISTANCES), name=name)
    field = Signal(unsigned(K_BITS + 1), name=f"{name}_field")
    word = Signal(32, name=f"{name}_word")
    infinite = Signal(name=f"{name}_infinite")
    present = normal[-1]
    fraction = Cat(C(0, MANTISSA_BITS - SIZE_BITS + 1), normal[:-1])
    m.d.comb += [
        # As far as the size was shifted, the exponent is less.
        field.eq(k + (SIZE_BITS - 1) - Cat(*zeros, half.zeros)),
        infinite.eq(present & (field >= _INFINITE_FIELD)),
        word.eq(Mux(present, Cat(fraction, field[:K_BITS], half.sign), 0)),
    ]
    return word, infinite


def _shifted_up(m: Module, size: Value, levels: range, *, name: str) -> tuple[Value, list[Value]]:
    """Shift by each power of two of these, from the largest, if only zeros leave.

    Returns what is shifted, and for each level, from the least, whether it was.
    """
    zeros: list[Value] = []
    for level in reversed(levels):
        distance = 1 << level
        shifted = Signal(SIZE_BITS, name=f"{name}_normal_{distance}")
        none = Signal(name=f"{name}_zeros_{distance}")
        m.d.comb += [
            none.eq(~size[-distance:].any()),
            shifted.eq(Mux(none, size << distance, size)),
        ]
        size = shifted
        zeros.insert(0, none)
    return size, zeros
