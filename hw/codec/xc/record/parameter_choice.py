"""The choice of centre and pattern from counts of exponents."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.patterns import CLASS_BITS, PATTERNS, code_bits
from cdma.golden.formats.xc.recorded import CANDIDATES, COUNT_BITS, WINDOW
from cdma.hw.codec.xc.classes import CENTRE_BITS, PATTERN_BITS
from cdma.hw.codec.xc.payloads import BF16
from cdma.hw.codec.xc.record.exponent_counter import PLACE_BITS, ExponentCounts

OFFSETS = (0, -1, 1)
"""Of the centres that are tried, from the most frequent exponent."""

SCAN_CYCLES = WINDOW + 3
"""One for the first weights, and then one for each exponent and for those beside the window."""
CHOICE_CYCLES = SCAN_CYCLES + len(CANDIDATES)
"""From the cycle behind the counts to the parameters."""

_WEIGHT_BITS = 4
"""Of the bits that an exponent takes beside its class: 4 extras, and an escape of 8, are most."""
_COST_BITS = COUNT_BITS + _WEIGHT_BITS


def _weight_tables(elements: ElementFormat) -> list[IntArray]:
    """By pattern, the bits that an exponent takes beside its class, by its distance modulo 256."""
    tables = [code_bits(pattern, elements) - CLASS_BITS for pattern in PATTERNS]
    # A bit of an even place and one of an odd place, at most, are set: a product is a sum of two.
    assert all(
        int(weight) < 1 << _WEIGHT_BITS
        and all((int(weight) & mask).bit_count() <= 1 for mask in (0b0101, 0b1010))
        for table in tables
        for weight in table
    ), "weights must be sums of two powers of two"
    return tables


class RecordedParameters(data.StructLayout):
    """The parameters that a record recommends.

    Members
    -------
    centre, pattern
        As in a descriptor; 0 if not valid.
    valid
        There were elements to choose them by.
    """

    def __init__(self) -> None:
        super().__init__({"centre": CENTRE_BITS, "pattern": PATTERN_BITS, "valid": 1})


class ParameterChoice(wiring.Component):
    """Finds the cheapest of twelve pairs of centre and pattern, as the golden counter's `best`.

    The counts pass three taps, which are those of the centres one above the peak, at it and one
    below: the distance, and so the bits that an exponent takes in each pattern, is the same for all
    three. Then the twelve sums are compared one after the other.

        counts --> next --> here --> past
                    x4       x4       x4     weights of the distance, by pattern
                     v        v        v
                   sums, centre + 1, + 0, - 1

    Latency: `CHOICE_CYCLES` cycles from the one behind `begins`.

    Resources: a copy of the counts, twelve accumulators.

    Parameters
    ----------
    elements : ElementFormat

    Members
    -------
    begins : `In(1)`
        `counts` are whole; a former choice that has not been made is dropped.
    counts : `In(ExponentCounts())`
    busy : `Out(1)`
        `o` is not yet that of the counts of the last `begins`.
    o : `Out(RecordedParameters())`
    """

    def __init__(self, elements: ElementFormat = BF16) -> None:
        self.elements = elements
        super().__init__(
            {
                "begins": In(1),
                "counts": In(ExponentCounts()),
                "busy": Out(1),
                "o": Out(RecordedParameters()),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        row = [Signal(COUNT_BITS, name=f"row_{i}") for i in range(WINDOW)]
        here, past = Signal(COUNT_BITS), Signal(COUNT_BITS)
        peak, valid = Signal(CENTRE_BITS), Signal()
        distance = Signal(signed(PLACE_BITS + 2))
        cycle = Signal(range(CHOICE_CYCLES + 1))
        sums = [
            Signal(_COST_BITS, name=f"sum_{self._name(offset)}_{pattern}")
            for offset, pattern in CANDIDATES
        ]
        scans, compares = Signal(), Signal()
        m.d.comb += [
            self.busy.eq(cycle != 0),
            scans.eq(cycle > len(CANDIDATES)),
            compares.eq(self.busy & ~scans),
        ]
        weights = self._weights(m, distance)
        taps = {1: row[0], 0: here, -1: past}
        with m.If(self.busy):
            m.d.sync += [cycle.eq(cycle - 1), distance.eq(distance - 1)]
        with m.If(scans & (cycle != CHOICE_CYCLES)):
            m.d.sync += [Cat(*row).eq(Cat(*row[1:])), here.eq(row[0]), past.eq(here)]
            for total, (offset, pattern) in zip(sums, CANDIDATES, strict=True):
                m.d.sync += total.eq(total + self._product(taps[offset], weights[pattern]))
        self._compare(m, sums, compares, peak, valid)
        with m.If(self.begins):
            counts, start = self.counts.counts, self.counts.start
            half = WINDOW // 2
            m.d.sync += [
                *(
                    # From the window's start on.
                    row[i].eq(Mux(start[0], counts[(i + half) % WINDOW], counts[i]))
                    for i in range(WINDOW)
                ),
                *(total.eq(0) for total in sums),
                here.eq(0),
                past.eq(0),
                peak.eq(self.counts.peak),
                valid.eq(self.counts.most != 0),
                # The place of the peak in the window, and one for the exponent before it.
                distance.eq(
                    Cat(
                        self.counts.peak[: PLACE_BITS - 1],
                        self.counts.peak[PLACE_BITS - 1] ^ start[0],
                    )
                    + 1
                ),
                cycle.eq(CHOICE_CYCLES),
            ]
        return m

    @staticmethod
    def _name(offset: int) -> str:
        return {0: "here", -1: "below", 1: "above"}[offset]

    def _weights(self, m: Module, distance: Signal) -> list[Signal]:
        """Bits of an exponent at this distance beside its class, by pattern, a cycle later."""
        weights = []
        for pattern, table in enumerate(_weight_tables(self.elements)):
            found = Signal(_WEIGHT_BITS, name=f"found_{pattern}")
            weight = Signal(_WEIGHT_BITS, name=f"weight_{pattern}")
            with m.Switch(distance):
                for value in range(-WINDOW, WINDOW + 1):
                    with m.Case(value):
                        m.d.comb += found.eq(int(table[value % 256]))
            m.d.sync += weight.eq(found)
            weights.append(weight)
        return weights

    @staticmethod
    def _product(count: Signal, weight: Signal) -> Value:
        even = Mux(weight[2], count << 2, Mux(weight[0], count, 0))
        odd = Mux(weight[3], count << 3, Mux(weight[1], count << 1, 0))
        return even + odd

    def _compare(
        self, m: Module, sums: list[Signal], compares: Signal, peak: Signal, valid: Signal
    ) -> None:
        """Keep the first of the least sums, one in a cycle, and give its parameters."""
        number = Signal(range(len(CANDIDATES)))
        best, least = Signal.like(number, name="best"), Signal(_COST_BITS)
        cost = Signal(_COST_BITS)
        m.d.comb += cost.eq(Array(sums)[number])
        with m.If(~compares):
            m.d.sync += [number.eq(0), least.eq((1 << _COST_BITS) - 1)]
        with m.Else():
            m.d.sync += number.eq(number + 1)
            with m.If(cost < least):
                m.d.sync += [least.eq(cost), best.eq(number)]
        offset = Array(OFFSETS)[best[PATTERN_BITS:]]
        with m.If(valid):
            m.d.comb += [
                self.o.centre.eq(peak + offset),
                self.o.pattern.eq(best[:PATTERN_BITS]),
                self.o.valid.eq(1),
            ]
