"""Error-correcting codes: what one flipped bit cannot spoil, and two cannot spoil unnoticed.

The codes are Hsiao's: a codeword is the data, and above it check bits, each the parity of some data
bits. A data bit's *column* is the set of check bits that it is part of. Columns have odd weight, at
least 3, and are all different; so one flip makes a syndrome of odd weight that tells which bit it
was, and two flips make one of even weight. The lightest columns are taken, such that the check bits
are parities of about equally many bits: in (72, 64), of 26 each.

Source: M. Y. Hsiao, "A Class of Optimal Minimum Odd-weight-column SEC-DED Codes", IBM Journal of
Research and Development 14(4), 1970.
"""

from functools import cache
from itertools import combinations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


@cache
def check_bits(data_bits: int) -> int:
    """Check bits of a codeword with these many data bits."""
    bits = 4
    while (1 << (bits - 1)) - bits < data_bits:
        bits += 1
    return bits


def codeword_bits(data_bits: int) -> int:
    """Bits of a codeword: the data's and the check bits."""
    return data_bits + check_bits(data_bits)


@cache
def columns(data_bits: int) -> tuple[int, ...]:
    """For each data bit, the check bits that it is part of, as a mask."""
    rows = range(check_bits(data_bits))
    load = dict.fromkeys(rows, 0)
    chosen: list[int] = []
    weight = 3
    left: set[tuple[int, ...]] = set()
    while len(chosen) < data_bits:
        if not left:
            left = set(combinations(rows, weight))
            weight += 2
        # The one that keeps the check bits' loads most even; the first of several.
        best = min(left, key=lambda column: (sum(load[row] for row in column), column))
        left.remove(best)
        for row in best:
            load[row] += 1
        chosen.append(sum(1 << row for row in best))
    return tuple(chosen)


@cache
def parity_masks(data_bits: int) -> tuple[int, ...]:
    """For each check bit, the data bits that it is the parity of, as a mask."""
    return tuple(
        sum(1 << bit for bit, column in enumerate(columns(data_bits)) if column >> row & 1)
        for row in range(check_bits(data_bits))
    )


def encode(data: int, data_bits: int) -> int:
    """The codeword of a number."""
    checks = (
        (data & mask).bit_count() % 2 << row for row, mask in enumerate(parity_masks(data_bits))
    )
    return data | sum(checks) << data_bits


class EccEncoder(wiring.Component):
    """Makes a codeword that survives a flipped bit.

    Latency: 0 cycles. Cost: an XOR tree for each check bit; of 26 inputs for 64 data bits.

    Parameters
    ----------
    data_bits

    Members
    -------
    i : `In(data_bits)`
    o : `Out(codeword_bits(data_bits))`
        The data, and above it the check bits.
    """

    def __init__(self, data_bits: int) -> None:
        self.data_bits = data_bits
        super().__init__({"i": In(data_bits), "o": Out(codeword_bits(data_bits))})

    def elaborate(self, platform) -> Module:
        m = Module()
        checks = Signal(check_bits(self.data_bits))
        m.d.comb += [
            checks.eq(Cat((self.i & mask).xor() for mask in parity_masks(self.data_bits))),
            self.o.eq(Cat(self.i, checks)),
        ]
        return m


class EccDecoder(wiring.Component):
    """Reads a codeword in which bits may have flipped: one is corrected, two are found.

    Latency: 0 cycles. Cost: an XOR tree for each check bit, a comparison for each data bit.

    Parameters
    ----------
    data_bits

    Members
    -------
    i : `In(codeword_bits(data_bits))`
    o : `Out(data_bits)`
        Worthless if uncorrectable.
    corrected : `Out(1)`
        One bit had flipped, of the data or of the check bits.
    uncorrectable : `Out(1)`
        More than one bit has: any two, and most sets of more.
    """

    def __init__(self, data_bits: int) -> None:
        self.data_bits = data_bits
        super().__init__(
            {
                "i": In(codeword_bits(data_bits)),
                "o": Out(data_bits),
                "corrected": Out(1),
                "uncorrectable": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.data_bits
        checks = check_bits(width)
        word = Signal(width)
        syndrome = Signal(checks)
        flipped = Signal(width)
        flipped_check = Signal(checks)
        m.d.comb += [
            word.eq(self.i[:width]),
            syndrome.eq(Cat((word & mask).xor() for mask in parity_masks(width)) ^ self.i[width:]),
            flipped.eq(Cat(syndrome == column for column in columns(width))),
            flipped_check.eq(Cat(syndrome == 1 << row for row in range(checks))),
            self.o.eq(word ^ flipped),
            self.corrected.eq(flipped.any() | flipped_check.any()),
            self.uncorrectable.eq(syndrome.any() & ~self.corrected),
        ]
        return m
