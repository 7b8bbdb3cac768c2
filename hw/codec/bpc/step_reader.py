"""A step of the decoding of BPC: finding the codes of several planes in one cycle."""

from collections.abc import Callable
from itertools import pairwise

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import PLANES
from cdma.hw.codec.bpc.code_readers import PLANE_CODE_BITS, RUN_CODE_BITS, PlaneCodeKind, or_of

_LOW_BITS = 3
"""Of a place, those whose sums are apart from the others'."""

STEP_CODES = 4
"""Planes whose codes are found in a cycle."""
STEPS = -(-PLANES // STEP_CODES)
BLOCK_BITS = STEP_CODES * PLANE_CODE_BITS
"""Bits that the rest of a code moves by: what a step reads at most, so it never moves twice."""
VIEW_BITS = 2 * BLOCK_BITS - 1
"""Bits in which a step's codes are, wherever in a block they start."""


class StepReader(wiring.Component):
    """Finds the codes of the next `STEP_CODES` planes, and the place behind them.

    There is a flag for each place that a code may start at: a plane's flags follow from those of
    the plane before and from the kinds of code that the bits at those places would be, in a few
    gates. The flags tell the kind of each plane's code, and where the last one ends; the codes
    themselves are chosen by their kinds, each from what is behind the one before it.

    What is behind an error is read as well, and means nothing.

    Latency: 0 cycles.

    Members
    -------
    view : `In(255)`
        Bits from the start of a block; the first is the highest.
    place : `In(range(128))`
        Where in it the first code starts.
    not_high : `In(1)`
        The complement of the highest bit of `place`.
    place_again : `In(range(128))`, `not_high_again` : `In(1)`
        The same from other registers.
    run_left : `In(range(33))`
        Planes, from the first on, that the last run still has: they have no codes.
    works : `In(1)`
        The step is done in this cycle.
    codes : `Out(4 * 32)`
        The bits from the start of each code, the first code lowest; of each the first bit is the
        highest.
    in_run : `Out(4)`
        Planes that are inside a run, the first lowest. What there is of their codes is that of the
        next plane that has one.
    next_place : `Out(range(128))`
        Where in its block the next step's first code starts.
    moves : `Out(1)`
        That is in the next block, and the step is done.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "view": In(VIEW_BITS),
                "place": In(range(BLOCK_BITS)),
                "not_high": In(1),
                "place_again": In(range(BLOCK_BITS)),
                "not_high_again": In(1),
                "run_left": In(range(PLANES)),
                "works": In(1),
                "codes": Out(STEP_CODES * PLANE_CODE_BITS),
                "in_run": Out(STEP_CODES),
                "next_place": Out(range(BLOCK_BITS)),
                "moves": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # The first of the multiplexers wait for nothing but what drives them all: of the first,
        # four registers drive a part each, of the second two.
        half = BLOCK_BITS // 2
        kept = VIEW_BITS - half
        nearer, further = self.view[half:], self.view[:kept]
        view = _in_parts(
            Mux(self.not_high, nearer, further),
            Mux(self.place[-1], further, nearer),
            Mux(self.not_high_again, nearer, further),
            Mux(self.place_again[-1], further, nearer),
        )
        quarter = half // 2
        kept -= quarter
        nearer, further = view[quarter:], view[:kept]
        view = _in_parts(
            Mux(self.place[-2], further, nearer), Mux(self.place_again[-2], further, nearer)
        )
        window = aligned(m, view, self.place[:-2], BLOCK_BITS)
        run_left = Signal(STEP_CODES)
        m.d.comb += run_left.eq(Cat(self.run_left == k for k in range(STEP_CODES)))
        kinds, ends = self._walk(m, window, run_left)

        m.d.comb += [
            self.in_run.eq(Cat(~or_of(is_kind.values()) for is_kind in kinds)),
            self.next_place.eq(self._behind(ends)),
        ]

        codes: list[Value] = []
        for k, is_kind in enumerate(kinds):
            codes.append(window[len(window) - PLANE_CODE_BITS :])
            # What is behind the code, as far as the step's other codes may need it.
            width = (STEP_CODES - 1 - k) * PLANE_CODE_BITS
            if width:
                behind = Signal(width, name=f"behind_{k}")
                m.d.comb += behind.eq(behind_code(window, self.in_run[k], is_kind, width))
                window = behind
        m.d.comb += self.codes.eq(Cat(codes))
        return m

    def _walk(
        self, m: Module, window: Value, run_left: Value
    ) -> tuple[list[dict[int, Value]], dict[int, Value]]:
        """Find by length the kind of each code, and the flags of where the last one may end.

        That the rest moves is found without these flags: it is needed first, as it drives all of
        the rest. It follows from where the last code starts, and from whether one there would end
        in the next block.
        """
        kinds: list[dict[int, Value]] = []
        moves: list[Value] = []
        starts: list[dict[int, list[Value]]] = [{} for _ in range(STEP_CODES + 1)]
        for k in range(STEP_CODES):
            starts[k][0] = [run_left[k]]
        starts[STEP_CODES][0] = [~run_left.any()]
        for k in range(STEP_CODES):
            found: dict[int, list[Value]] = {}
            for place, causes in sorted(starts[k].items()):
                starting = Signal(name=f"starts_{k}_at_{place}")
                m.d.comb += starting.eq(or_of(causes))
                by_length = PlaneCodeKind(_bits_at(window, place, 4)).by_length
                if k == STEP_CODES - 1:
                    crosses = Signal(name=f"crosses_from_{place}")
                    m.d.comb += crosses.eq(
                        or_of(
                            is_kind & self._is_beyond(place + length)
                            for length, is_kind in by_length.items()
                        )
                    )
                    moves.append(starting & crosses)
                for length, is_kind in by_length.items():
                    is_here = Signal(name=f"code_{k}_at_{place}_has_{length}")
                    m.d.comb += is_here.eq(starting & is_kind)
                    found.setdefault(length, []).append(is_here)
                    if length != RUN_CODE_BITS:
                        starts[k + 1].setdefault(place + length, []).append(is_here)
                        continue
                    # The next plane with a code is so many further, if that is in this step.
                    number = _bits_at(window, place + 2, 5)
                    for planes in range(2, STEP_CODES - k):
                        starts[k + planes].setdefault(place + length, []).append(
                            is_here & (number == planes - 2)
                        )
                    is_end = is_here & (number >= max(0, STEP_CODES - k - 2))
                    starts[STEP_CODES].setdefault(place + length, []).append(is_end)
                    if k < STEP_CODES - 1:
                        moves.append(is_end & self._is_beyond(place + length))
            kinds.append({length: or_of(flags) for length, flags in found.items()})

        m.d.comb += self.moves.eq(or_of(moves))
        ends = {}
        for place, causes in sorted(starts[STEP_CODES].items()):
            ends[place] = Signal(name=f"ends_at_{place}")
            m.d.comb += ends[place].eq(or_of(causes))
        return kinds, ends

    def _behind(self, ends: dict[int, Value]) -> Value:
        """Find the place behind the step: the sum of its own and the length whose flag is set.

        The flags are last, so sums with all lengths wait for them: those of the low bits and those
        of the high ones, these with and without a carry from the low ones.
        """
        low, high = self.place[:_LOW_BITS], self.place[_LOW_BITS:]
        by_low: dict[int, list[Value]] = {}
        by_high: dict[int, list[Value]] = {}
        for length, flag in ends.items():
            by_low.setdefault(length % (1 << _LOW_BITS), []).append(flag)
            by_high.setdefault(length >> _LOW_BITS, []).append(flag)
        lows = {number: or_of(flags) for number, flags in by_low.items()}
        highs = {number: or_of(flags) for number, flags in by_high.items()}
        sums = _chosen(lows, lambda number: low + number)
        low_sum, carry = sums[:_LOW_BITS], sums[_LOW_BITS]
        still = _chosen(highs, lambda number: (high + number)[: len(high)])
        further = _chosen(highs, lambda number: (high + number + 1)[: len(high)])
        return Cat(low_sum, Mux(carry, further, still))

    def _is_beyond(self, length: int) -> Value:
        """Tell if so many bits from the first code on, the next block has started, in a step that
        is done."""
        return self.works & (self.place >= BLOCK_BITS - length)


def aligned(m: Module, view: Value, place: Value, width: int) -> Value:
    """So many bits of a view from a place on; in both, the first bit is the highest."""
    for power in reversed(range(len(place))):
        kept = width + (1 << power) - 1
        moved = Signal(kept, name=f"from_{1 << power}")
        still = _bits_at(view, 0, kept)
        further = _bits_at(view, 1 << power, kept)
        with m.If(place[power]):
            m.d.comb += moved.eq(further)
        with m.Else():
            m.d.comb += moved.eq(still)
        view = moved
    return view


def behind_code(window: Value, in_run: Value, kinds: dict[int, Value], width: int) -> Value:
    """So many bits behind the code that a window starts with; its first ones if there is none.

    Parameters
    ----------
    kinds
        By length, whether there is a code of it.
    """
    return or_of(
        chosen.replicate(width) & _bits_at(window, length, width)
        for length, chosen in {0: in_run, **kinds}.items()
    )


def _bits_at(bits: Value, place: int, width: int) -> Value:
    """Bits from a place on, the first the highest; zeros behind the end."""
    low = len(bits) - place - width
    if low >= 0:
        return bits[low : low + width]
    return Cat(C(0, min(width, -low)), bits[: max(0, width + low)])


def _in_parts(*values: Value) -> Value:
    """Join parts of equal values, one from each, to that value."""
    width = len(values[0])
    edges = [width * k // len(values) for k in range(len(values) + 1)]
    parts = zip(values, pairwise(edges), strict=True)
    return Cat(value[low:high] for value, (low, high) in parts)


def _chosen(flags: dict[int, Value], value_of: Callable[[int], Value]) -> Value:
    """Choose what belongs to the number whose flag is set."""
    return or_of(
        flag.replicate(len(value)) & value
        for flag, value in ((flag, value_of(number)) for number, flag in flags.items())
    )
