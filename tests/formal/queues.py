"""Queues whose insides a proof can see."""

from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq

from cdma.hw.lib.count import total
from cdma.hw.lib.fifo import Fifo
from tests.formal.bench import Bench, Inside
from tests.formal.order import Run, one


class OpenFifo(Fifo):
    """A `Fifo` that shows what its memory holds.

    Attributes
    ----------
    rows : list[Signal]
        What is in each place.
    first, free : Signal
        The place of the oldest one that is stored there, and that of the next one to come.
    """

    def __init__(self, shape: Any, depth: int) -> None:
        super().__init__(shape, depth)
        bits = len(Value.cast(self.o.payload))
        self.rows = [Signal(bits, name=f"row_{i}") for i in range(depth)]
        self.first = Signal(range(depth))
        self.free = Signal(range(depth))

    def elaborate(self, platform) -> Module:
        m = super().elaborate(platform)
        storage, src_loc = m._named_submodules["storage"]
        # Its own elaboration, to which ports are added that a memory has not.
        opened = storage.elaborate(platform)
        storage._MustUse__used = True
        m._named_submodules["storage"] = (opened, src_loc)
        words, _src_loc = opened._named_submodules["words"]
        m.d.comb += [
            self.first.eq(storage.read_address),
            self.free.eq(storage.write_address),
        ]
        for address, row in enumerate(self.rows):
            port = words.read_port(domain="comb")
            m.d.comb += [port.addr.eq(address), row.eq(port.data)]
        return m


class _ModeledFifo(Fifo):
    """A `Fifo` whose items are kept in another way than in a memory."""

    def _handshakes(self, m: Module) -> tuple[Signal, Signal, Signal, Signal, Any]:
        """Drive the ports; returns `stored`, `holds`, `writes`, `reads` and the output's register.

        The latter is to be loaded with `reads`.
        """
        stored = Signal(range(self.depth + 1))
        holds = Signal()
        writes = Signal()
        reads = Signal()
        output = Signal.like(self.o.payload, name="output", reset_less=True)
        m.d.comb += [
            self.i.ready.eq(stored != self.depth),
            writes.eq(self.i.valid & self.i.ready),
            reads.eq((stored != 0) & (self.o.ready | ~holds)),
            self.o.valid.eq(holds),
            self.o.payload.eq(output),
        ]
        m.d.sync += stored.eq(stored + writes - reads)
        with m.If(reads):
            m.d.sync += holds.eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += holds.eq(0)
        return stored, holds, writes, reads, output


class StraightFifo(_ModeledFifo):
    """A `Fifo`'s behavior, cycle by cycle, with its items always at the same positions.

    It serves proofs with many properties of a queue's items, which are hard to state while items
    wrap around.

    Attributes
    ----------
    rows : list[Signal]
        The stored items, the oldest first.
    """

    def __init__(self, shape: Any, depth: int) -> None:
        super().__init__(shape, depth)
        bits = len(Value.cast(self.o.payload))
        self.rows = [Signal(bits, name=f"row_{i}", reset_less=True) for i in range(depth)]

    def elaborate(self, platform) -> Module:
        m = Module()
        stored, _holds, writes, reads, output = self._handshakes(m)
        with m.If(reads):
            m.d.sync += Value.cast(output).eq(self.rows[0])
        for place, row in enumerate(self.rows):
            with m.If(writes & (stored - reads == place)):
                m.d.sync += row.eq(Value.cast(self.i.payload))
            with m.Elif(reads):
                m.d.sync += row.eq(self.rows[place + 1] if place + 1 < self.depth else 0)
        return m


def open_fifos(monkeypatch: pytest.MonkeyPatch, *modules: str, fifo: type[Fifo] = OpenFifo) -> None:
    """Components of these modules get their queues opened."""
    for module in modules:
        monkeypatch.setattr(f"{module}.Fifo", fifo)


class Queue:
    """Contents of an opened queue.

    Attributes
    ----------
    count : Value
        The number of items.
    runs : list[Run]
        The items as runs, the oldest first.
    items : list[tuple[Value, Value]]
        The items one by one: whether the queue has so many, and the item.
    numbered : list[Value]
        The items, the oldest first, whether one is at the output or not.
    """

    def __init__(
        self, bench: Bench, fifo: OpenFifo | StraightFifo, inside: Inside, prefix: str = ""
    ) -> None:
        stored, holds = inside[f"{prefix}stored"], inside[f"{prefix}holds"]
        self.count = stored + holds
        if isinstance(fifo, StraightFifo):
            oldest = Value.cast(fifo.o.payload)
            self.runs = [one(holds, oldest), Run(stored, fifo.rows)]
            self.items = [
                (holds, oldest),
                *((stored > ahead, row) for ahead, row in enumerate(fifo.rows)),
            ]
            bench.require(stored <= fifo.depth)
            return
        self.runs = [
            one(holds, Value.cast(fifo.o.payload)),
            Run(stored, [*fifo.rows, *fifo.rows], fifo.first),
        ]
        self.items = [(holds, Value.cast(fifo.o.payload))]
        for ahead in range(fifo.depth):
            item = Signal(len(fifo.rows[0]), name=f"queued_{ahead}")
            for start in range(fifo.depth):
                with bench.m.If(fifo.first == start):
                    bench.m.d.comb += item.eq(fifo.rows[(start + ahead) % fifo.depth])
            self.items.append((stored > ahead, item))
        bench.require(stored <= fifo.depth, fifo.first < fifo.depth, fifo.free < fifo.depth)
        end = fifo.first + stored
        bench.require((fifo.free == end) | (fifo.free + fifo.depth == end))

    @property
    def numbered(self) -> list[Value]:
        (holds, oldest), *stored = self.items
        rows = [row for _, row in stored]
        return [*(Mux(holds, *pair) for pair in zip([oldest, *rows], rows, strict=False)), rows[-1]]

    @classmethod
    def inside(cls, bench: Bench, inside: Inside, path: str) -> "Queue":
        """That of a component inside another one."""
        return cls(bench, inside.component(path), inside, f"{path}.")


def sampled(bits: Value, word: int) -> Value:
    """Return three bits of each word: the first one, the last one, and one between.

    All bits of a word go through copies of the same multiplexers, as they are moved whole.
    """
    return Cat(
        bits[start + place]
        for start in range(0, len(bits), word)
        for place in (0, word // 4 - 1, word - 1)
    )


class FollowedFifo(_ModeledFifo):
    """A `Fifo`'s behavior, cycle by cycle, of which one item is known, and all others are free.

    It serves proofs with queues that are too long to be seen as a whole. What holds for the item
    that is followed, whichever it is, holds for all.

    Parameters
    ----------
    seen : Callable
        Gives the bits of an item that are known, from all of them; the others are free, too.

    Attributes
    ----------
    follows : Signal
        To be driven: the item that comes in now is to be followed, instead of any before it.
    followed : Signal
        One is followed, and it is in the queue.
    ahead : Signal
        Items that are before it.
    item : Signal
        What is known of it.
    """

    def __init__(
        self, shape: Any, depth: int, *, seen: Callable[[Value], Value] | None = None
    ) -> None:
        super().__init__(shape, depth)
        self._seen = seen
        self.follows = Signal()
        self.followed = Signal()
        self.ahead = Signal(range(depth + 2))
        self.item = Signal(len(self.seen(self.o.payload)), reset_less=True)

    def seen(self, item: Any) -> Value:
        """The bits of an item that are known."""
        bits = Value.cast(item)
        return bits if self._seen is None else self._seen(bits)

    def elaborate(self, platform) -> Module:
        m = Module()
        stored, holds, writes, reads, output = self._handshakes(m)
        leaves = Signal()
        m.d.comb += leaves.eq(self.o.valid & self.o.ready)
        shows = self.followed & (self.ahead == holds)
        if self._seen is None:
            with m.If(reads):
                m.d.sync += Value.cast(output).eq(Mux(shows, self.item, self._free_item(m)))
        else:
            with m.If(reads):
                m.d.sync += Value.cast(output).eq(self._free_item(m))
            with m.If(reads & shows):
                m.d.sync += self.seen(output).eq(self.item)
        with m.If(leaves):
            m.d.sync += [
                self.followed.eq(self.followed & (self.ahead != 0)),
                self.ahead.eq(self.ahead - 1),
            ]
        with m.If(writes & self.follows):
            m.d.sync += [
                self.followed.eq(1),
                self.ahead.eq(stored + holds - leaves),
                self.item.eq(self.seen(self.i.payload)),
            ]
        is_stored = self.followed & (self.ahead >= holds)
        self._count(m, stored, holds, writes, reads & ~shows, is_stored & ~(reads & shows))
        return m

    def _free_item(self, m: Module) -> Value:
        """The item that is read, unless it is the one that is followed."""
        return AnySeq(len(Value.cast(self.o.payload)))

    def _count(
        self,
        m: Module,
        stored: Value,
        holds: Value,
        writes: Value,
        reads_free: Value,
        stays: Value,
    ) -> None:
        """Count items: whether one that is not followed is read, and the followed one stays."""

    def require(self, bench: Bench, inside: Inside, prefix: str) -> Value:
        """State what holds of it; returns the number of its items."""
        stored, holds = inside[f"{prefix}stored"], inside[f"{prefix}holds"]
        bench.require(stored <= self.depth)
        bench.implies(self.followed, self.ahead < stored + holds)
        bench.implies(
            self.followed & holds & (self.ahead == 0), self.seen(self.o.payload) == self.item
        )
        return stored + holds


class CountedFifo(FollowedFifo):
    """A `FollowedFifo` that also knows how many of its items have each ID.

    Its items are layouts that begin with an `id`.

    Attributes
    ----------
    free : Signal
        The item that is read now, unless it is the one that is followed.
    others : list[Signal]
        For each ID: the stored items that have it, but for the one that is followed.
    possible : Signal
        An item of the ID of the one that is read now is stored. To be assumed.
    """

    def __init__(self, shape: Any, depth: int) -> None:
        super().__init__(shape, depth)
        self.id_bits = shape["id"].width
        self.free = Signal(len(self.item))
        self.others = [
            Signal(range(depth + 1), name=f"others_{k}") for k in range(1 << self.id_bits)
        ]
        self.possible = Signal()

    def _free_item(self, m: Module) -> Value:
        m.d.comb += self.free.eq(AnySeq(len(self.free)))
        return self.free

    def _count(
        self,
        m: Module,
        stored: Value,
        holds: Value,
        writes: Value,
        reads_free: Value,
        stays: Value,
    ) -> None:
        id_in, id_out, id_followed = (
            item[: self.id_bits] for item in (Value.cast(self.i.payload), self.free, self.item)
        )
        m.d.comb += self.possible.eq(1)
        for k, others in enumerate(self.others):
            # One that was followed before is one of the others then.
            comes = writes & Mux(self.follows, stays & (id_followed == k), id_in == k)
            goes = reads_free & (id_out == k)
            m.d.sync += others.eq(others + comes - goes)
            with m.If(goes):
                m.d.comb += self.possible.eq(others != 0)

    def counts(self, bench: Bench, inside: Inside, prefix: str) -> list[Value]:
        """State what holds of `others`; returns the number of all its items of each ID."""
        stored, holds = inside[f"{prefix}stored"], inside[f"{prefix}holds"]
        is_stored = self.followed & (self.ahead >= holds)
        bench.require(total(self.others) + is_stored == stored)
        bench.require(*(others <= stored for others in self.others))
        ids = self.item[: self.id_bits], Value.cast(self.o.payload)[: self.id_bits]
        return [
            others + (is_stored & (ids[0] == k)) + (holds & (ids[1] == k))
            for k, others in enumerate(self.others)
        ]


class WeighedFifo(FollowedFifo):
    """A `FollowedFifo` that also knows the sum of its items' weights, and of those before the one
    that is followed.

    The weight of an item may be a flag: then the sum is how many have it.

    Parameters
    ----------
    weight_of : Callable
        Gives the weight of an item, from its bits.
    most : int
        The greatest one.

    Attributes
    ----------
    free : Signal
        The item that is read now, unless it is the one that is followed.
    before, behind : Signal
        Of the stored items that are before the followed one, or of all if that one is not stored,
        and of those behind it.
    possible : Signal
        Items may be stored that have the weights that these sums tell, of which the one that is
        read now is the first. To be assumed.
    """

    def __init__(
        self,
        shape: Any,
        depth: int,
        weight_of: Callable[[Value], Value],
        *,
        most: int = 1,
        seen: Callable[[Value], Value] | None = None,
    ) -> None:
        super().__init__(shape, depth, seen=seen)
        self.weight_of = weight_of
        self.most = most
        self.free = Signal(len(Value.cast(self.o.payload)))
        # Of the one that is followed; what it follows from need not be seen.
        self.own_weight = Signal(range(most + 1), reset_less=True)
        self.before = Signal(range(most * depth + 1))
        self.behind = Signal(range(most * depth + 1))
        self.possible = Signal()

    def _free_item(self, m: Module) -> Value:
        m.d.comb += self.free.eq(AnySeq(len(self.free)))
        return self.free

    def _count(
        self,
        m: Module,
        stored: Value,
        holds: Value,
        writes: Value,
        reads_free: Value,
        stays: Value,
    ) -> None:
        came, goes = self._weight(self.i.payload), self._weight(self.free)
        with m.If(writes & self.follows):
            m.d.sync += self.own_weight.eq(came)
        left = Signal.like(self.before, name="left")
        places = Signal(range(self.depth + 1), name="places")
        m.d.comb += [
            places.eq(Mux(stays, self.ahead - holds, stored)),
            self.possible.eq(
                ~reads_free
                | ((self.before >= goes) & (self.before - goes <= self.most * (places - 1)))
            ),
            left.eq(self.before + Mux(stays, 0, self.behind) - Mux(reads_free, goes, 0)),
        ]
        with m.If(stays & ~(writes & self.follows)):
            m.d.sync += [
                self.before.eq(left),
                self.behind.eq(self.behind + Mux(writes, came, 0)),
            ]
        with m.Elif(stays):
            # One that was followed before is one of the others then.
            m.d.sync += [
                self.before.eq(left + self.own_weight + self.behind),
                self.behind.eq(0),
            ]
        with m.Else():
            m.d.sync += [
                self.before.eq(left + Mux(writes & ~self.follows, came, 0)),
                self.behind.eq(0),
            ]

    def _weight(self, item: Any) -> Value:
        return self.weight_of(Value.cast(item))

    def weights(self, bench: Bench, inside: Inside, prefix: str) -> tuple[Value, Value]:
        """State what holds of the sums.

        Returns
        -------
        That of all its items, and that of those before the followed one, if that one is in the
        queue.
        """
        stored, holds = inside[f"{prefix}stored"], inside[f"{prefix}holds"]
        is_stored = self.followed & (self.ahead >= holds)
        places = Signal(range(self.depth + 2), name="places_before")
        bench.m.d.comb += places.eq(self.ahead - holds)
        bench.implies(
            is_stored,
            self.before <= self.most * places,
            self.behind <= self.most * (stored - places - 1),
            places < stored,
        )
        bench.implies(~is_stored, self.before <= self.most * stored, self.behind == 0)
        shown = Mux(holds, self._weight(self.o.payload), 0)
        bench.implies(self.followed & holds & (self.ahead == 0), shown == self.own_weight)
        bench.require(self.own_weight <= self.most)
        if self._seen is None:
            bench.implies(self.followed, self.own_weight == self._weight(self.item))
        followed = Mux(is_stored, self.own_weight, 0)
        return self.before + self.behind + followed + shown, Mux(is_stored, self.before + shown, 0)


def follow(
    bench: Bench, inside: Inside, path: str, comes: Value, ahead: Value, item: Any
) -> Signal:
    """Follow the item of a number that the solver picks through a queue of a component.

    Parameters
    ----------
    path
        The queue, a `FollowedFifo`.
    comes
        The next item to come is the picked one.
    ahead
        Its number, less that of the oldest item in the queue; modulo what numbers are counted.
    item
        What came.

    Returns
    -------
    How many items the queue has.
    """
    queue = inside.component(path)
    held = Signal(len(ahead), name=f"held_{path}")
    bench.m.d.comb += [
        queue.follows.eq(comes),
        held.eq(queue.require(bench, inside, f"{path}.")),
    ]
    bench.require(queue.followed == (ahead < held))
    bench.implies(queue.followed, queue.ahead == ahead, queue.item == queue.seen(item))
    if isinstance(queue, WeighedFifo):
        bench.implies(queue.followed, queue.own_weight == queue.weight_of(Value.cast(item)))
    return held
