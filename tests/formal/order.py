"""Nothing lost, added, changed or reordered: the solver picks one item and follows it."""

from amaranth.hdl import Signal, Value
from amaranth.hdl._ast import AnyConst

from tests.formal.bench import Bench


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

    def comes(self, *items: tuple[Value, Value]) -> None:
        """What comes in during a cycle, in order: (it does, the item)."""
        m = self.bench.m
        number: Value = self.came
        for comes, item in items:
            with m.If(comes & (number == self.picked)):
                m.d.sync += self.item.eq(item)
            number = self._after(number, comes)
        m.d.sync += self.came.eq(number)

    def leaves(self, *items: tuple[Value, Value]) -> None:
        """What goes out during a cycle, in order. It must be what came in."""
        number: Value = self.left
        for leaves, item in items:
            self.bench.implies(leaves & (number == self.picked), Value.cast(item) == self.item)
            number = self._after(number, leaves)
        self.bench.m.d.sync += self.left.eq(number)

    def on_the_way(self, *slots: tuple[Value, Value]) -> None:
        """The invariant: where items are between the two sides, the oldest first."""
        number: Value = self.left
        for holds, item in slots:
            self.bench.implies(holds & (number == self.picked), Value.cast(item) == self.item)
            number = self._after(number, holds)
        self.bench.require(number == self.came)

    def restart(self, when: Value) -> None:
        """Forget what is on the way, and count from zero again. To be called last."""
        with self.bench.m.If(when):
            self.bench.m.d.sync += [self.came.eq(0), self.left.eq(0)]

    def _after(self, number: Value, counts: Value) -> Signal:
        after = Signal(self.count_bits, name="order_number")
        self.bench.m.d.comb += after.eq(number + counts)
        return after
