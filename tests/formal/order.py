"""Nothing lost, added, changed or reordered: the solver picks one item and follows it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from amaranth.hdl import Const, Signal, Value
from amaranth.hdl._ast import AnyConst

from tests.formal.bench import Bench


@dataclass(frozen=True)
class Run:
    """Items that stand side by side.

    Attributes
    ----------
    count : Value
        How many there are, from place `start` on.
    items : Sequence[Value]
        What is in each place.
    """

    count: Value
    items: Sequence[Value]
    start: Value | int = 0


def one(there: Value, item: Value) -> Run:
    """An item that may be there."""
    return Run(there, [item])


def _total(runs: Sequence[Run]) -> Value:
    return sum((run.count for run in runs), Const(0))


class Order:
    """Compares what comes in with what goes out, item by item.

    Both sides count items, modulo a power of two that exceeds what can be on the way. The solver
    picks a number; each item of that number is remembered when it comes in. Since any number may
    have been picked, what holds for it holds for all items.

    Parameters
    ----------
    item_bits
        Width of an item.
    count_bits
        Of the counters: fewer than `2**count_bits` items are on the way at any time.
    """

    def __init__(self, bench: Bench, item_bits: int, *, count_bits: int) -> None:
        self.bench = bench
        self.count_bits = count_bits
        self.came = Signal(count_bits, name="order_came")
        self.left = Signal(count_bits, name="order_left")
        self.picked = Signal(count_bits, name="order_picked")
        self.item = Signal(item_bits, name="order_item", reset_less=True)
        bench.m.d.comb += self.picked.eq(AnyConst(count_bits))

    def comes(self, *runs: Run) -> None:
        """Add the items that come in during a cycle, in order."""
        m = self.bench.m
        for is_picked, item in self._picks(self.came, runs):
            with m.If(is_picked):
                m.d.sync += self.item.eq(item)
        m.d.sync += self.came.eq(self.came + _total(runs))

    def leaves(self, *runs: Run) -> None:
        """Add the items that go out during a cycle, in order; they must be those that came in."""
        self.on_the_way(*runs, whole=False)
        self.bench.m.d.sync += self.left.eq(self.left + _total(runs))

    def on_the_way(self, *runs: Run, whole: bool = True) -> None:
        """The invariant: where items are between the two sides, the oldest first."""
        for is_picked, item in self._picks(self.left, runs):
            self.bench.implies(is_picked, Value.cast(item) == self.item)
        if whole:
            number = Signal(self.count_bits, name="order_number")
            self.bench.m.d.comb += number.eq(self.left + _total(runs))
            self.bench.require(number == self.came)

    def restart(self, when: Value) -> None:
        """Forget what is on the way, and count from zero again. To be called last."""
        with self.bench.m.If(when):
            self.bench.m.d.sync += [self.came.eq(0), self.left.eq(0)]

    def _picks(self, number: Value, runs: Sequence[Run]) -> Iterator[tuple[Value, Value]]:
        """Yield which item is the picked one, if the first has that number."""
        for run in runs:
            ahead = Signal(self.count_bits, name="order_ahead")
            place = Signal(self.count_bits + 1, name="order_place")
            self.bench.m.d.comb += [ahead.eq(self.picked - number), place.eq(ahead + run.start)]
            for p, item in enumerate(run.items):
                yield (ahead < run.count) & (place == p), item
            number = number + run.count
