"""Wide additions that take few gates one behind the other.

Written as `a + b`, a sum becomes whatever the synthesis tool makes of it: with Yosys, carries in
two sweeps, up and down (Brent and Kung). Here they take one (Sklansky), for some more area.
"""

from amaranth.hdl import C, Cat, Module, Signal, Value


def add(m: Module, a: Value, b: Value, *, name: str) -> Signal:
    """Add two unsigned numbers.

    Parameters
    ----------
    a, b
        Of any widths.
    name
        Of the signals that it is made of.

    Returns
    -------
    Signal
        The sum, a bit wider than the wider of the two; log2 of that many levels deep.
    """
    width = max(len(a), len(b))
    a_bits, b_bits = (Cat(value, C(0, width))[:width] for value in (a, b))
    differ = Signal(width, name=f"{name}_differ")
    carries = Signal(width, name=f"{name}_carries_1")
    m.d.comb += [differ.eq(a_bits ^ b_bits), carries.eq(a_bits & b_bits)]
    # Of the bits from a multiple of `span` up to bit i: whether they carry, and whether they would
    # pass a carry on.
    passes = differ
    span = 1
    while span < width:
        # What ends below bit i, if bit i is in the upper half of its 2 * span.
        below = {i: (i & ~(2 * span - 1)) + span - 1 for i in range(width) if i & span}
        below_carries = Cat(carries[below[i]] if i in below else C(0, 1) for i in range(width))
        below_passes = Cat(passes[below[i]] if i in below else C(1, 1) for i in range(width))
        next_carries = Signal(width, name=f"{name}_carries_{2 * span}")
        next_passes = Signal(width, name=f"{name}_passes_{2 * span}")
        m.d.comb += [
            next_carries.eq(carries | (passes & below_carries)),
            next_passes.eq(passes & below_passes),
        ]
        carries, passes = next_carries, next_passes
        span *= 2
    result = Signal(width + 1, name=f"{name}_sum")
    m.d.comb += result.eq(Cat(differ, C(0, 1)) ^ (carries << 1))
    return result
