"""Classification of an entry's bit planes for BPC: each plane's symbol, and the runs of zeros.

The planes, their order and the code table are those of `cdma.golden.formats.bpc.bpc`. A column is a
delta's place in a plane; a slice is the columns that one sector brings.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.hw.config import EntryConfig


class PlaneSymbol(data.StructLayout):
    """A plane as the code table sees it. Of the lines of the table, the first that holds counts.

    Members
    -------
    dbx
        Its DBX, bit i of delta i.
    place
        Of the lowest one in DBX; meant where there is one, or two side by side.
    zero, plane_zero, ones, two, one
        DBX = 0; DBP = 0; DBX is all ones; two ones side by side in DBX; a single one.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "dbx": DELTAS,
                "place": range(DELTAS),
                "zero": 1,
                "plane_zero": 1,
                "ones": 1,
                "two": 1,
                "one": 1,
            }
        )


def columns_of(config: EntryConfig) -> int:
    """Columns in a slice.

    A sector's first word makes a delta with the last word before it. The entry's first word has
    none before it: where there are several slices, column 0 of the first is void.
    """
    return min(config.sector_bytes // 4, DELTAS)


class PlaneClassifier(wiring.Component):
    """Makes a plane's symbol while its slices come in.

    Latency: 0 cycles; the symbol stands while the last slice does. Throughput: a slice per cycle.

    Resources: some 15 gates per column; where there are several slices, registers for all columns
    but the last slice's.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    plane, above : `In(columns)`
        A slice of DBP, and of that of the plane above; zeros above the first. A void column is 0.
    index : `In(range(slices))`
        Which slice it is.
    take : `In(1)`
        It is a slice, and the next cycle brings another one.
    symbol : `Out(PlaneSymbol())`
    """

    def __init__(self, config: EntryConfig) -> None:
        self.columns = columns_of(config)
        self.slices = config.sectors
        slicing = {"index": In(range(self.slices)), "take": In(1)} if self.slices > 1 else {}
        super().__init__(
            {
                "plane": In(self.columns),
                "above": In(self.columns),
                **slicing,
                "symbol": Out(PlaneSymbol()),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        columns = self.columns

        dbx = Signal(columns)
        # The lower end of each group of ones side by side.
        starts = Signal(columns)
        m.d.comb += [dbx.eq(self.plane ^ self.above), starts.eq(dbx & ~(dbx << 1))]

        # The place of a group, as the OR of all groups' places. There is more than one group if a
        # bit of the place is set in one of them and clear in another.
        places = [(k if self.slices == 1 else (k - 1) % columns) for k in range(columns)]
        place = Signal((columns - 1).bit_length())
        clear = Signal.like(place)
        for bit in range(len(place)):
            mask = sum(1 << k for k in range(columns) if places[k] >> bit & 1)
            others = (1 << columns) - 1 - mask
            m.d.comb += [
                place[bit].eq((starts & mask).any()),
                clear[bit].eq((starts & others).any()),
            ]
        some = Signal()
        group = Signal()
        pair = Signal()
        triple = Signal()
        one = Signal()
        two = Signal()
        m.d.comb += [
            some.eq(dbx.any()),
            group.eq(some & ~(place & clear).any()),
            pair.eq((dbx & (dbx >> 1)).any()),
            triple.eq((dbx & (dbx >> 1) & (dbx >> 2)).any()),
            one.eq(group & ~pair),
            two.eq(group & pair & ~triple),
        ]
        if self.slices == 1:
            m.d.comb += [
                self.symbol.dbx.eq(dbx),
                self.symbol.place.eq(place),
                self.symbol.zero.eq(~some),
                self.symbol.plane_zero.eq(~self.plane.any()),
                self.symbol.ones.eq(dbx.all()),
                self.symbol.two.eq(two),
                self.symbol.one.eq(one),
            ]
        else:
            self._gather(m, dbx, place, starts[0], some, one, two)
        return m

    def _gather(
        self,
        m: Module,
        dbx: Signal,
        low_place: Signal,
        lowest: Value,
        some: Signal,
        one: Signal,
        two: Signal,
    ) -> None:
        """Add a slice to those before it."""
        columns = self.columns
        # What the slices up to now are, and were before this one.
        gathered = Signal((self.slices - 1) * columns, reset_less=True)
        had_some = Signal(reset_less=True)
        had_one = Signal(reset_less=True)
        had_two = Signal(reset_less=True)
        had_ones = Signal(reset_less=True)
        had_plane = Signal(reset_less=True)
        had_place = Signal(range(DELTAS), reset_less=True)

        first = Signal()
        follows = Signal()
        meets = Signal()
        now_one = Signal()
        now_two = Signal()
        now_ones = Signal()
        now_plane = Signal()
        now_place = Signal(range(DELTAS))
        m.d.comb += [
            first.eq(self.index == 0),
            follows.eq(had_some & ~first),
            # A single one in the lowest column beside one in the highest before it.
            meets.eq(had_one & gathered[-1] & one & lowest),
            now_one.eq(Mux(follows, had_one & ~some, one)),
            now_two.eq(Mux(follows, (had_two & ~some) | meets, two)),
            now_ones.eq((had_ones | first) & dbx[1:].all() & (dbx[0] | first)),
            now_plane.eq((had_plane & ~first) | self.plane.any()),
            # The lowest column belongs to the last delta of what the slice before would have.
            now_place.eq(Mux(follows, had_place, Cat(low_place, (self.index - lowest)[:-1]))),
            self.symbol.dbx.eq(Cat(gathered, dbx)[1:]),
            self.symbol.place.eq(now_place),
            self.symbol.zero.eq(~(follows | some)),
            self.symbol.plane_zero.eq(~now_plane),
            self.symbol.ones.eq(now_ones),
            self.symbol.two.eq(now_two),
            self.symbol.one.eq(now_one),
        ]
        with m.If(self.take):
            m.d.sync += [
                gathered.eq(Cat(gathered, dbx)[columns:]),
                had_some.eq(follows | some),
                had_one.eq(now_one),
                had_two.eq(now_two),
                had_ones.eq(now_ones),
                had_plane.eq(now_plane),
                had_place.eq(now_place),
            ]


class RunFinder(wiring.Component):
    """Tells where the runs of zeros begin.

    Codes have numbers: 0 is the base, and 1 to 33 are planes 32 to 0.

    Latency: 0 cycles. Resources: a prefix of log2(33) multiplexers per plane.

    Members
    -------
    zero : `In(33)`
        Bit k: the DBX of code k + 1 is zero.
    last : `Out(range(33)).array(33)`
        Number k: the last code before code k + 1 with a DBX that is not zero, or the base.
    """

    def __init__(self) -> None:
        super().__init__({"zero": In(PLANES), "last": Out(range(PLANES)).array(PLANES)})

    def elaborate(self, platform) -> Module:
        m = Module()
        # Sklansky's prefix; the base ends every search.
        found: list[Value | None] = [None, *(~self.zero[k] for k in range(PLANES - 1))]
        places: list[Value | int] = list(range(PLANES))
        span = 1
        while span < PLANES:
            for i in range(PLANES):
                if i & span:
                    below = (i & ~(2 * span - 1)) + span - 1
                    own = found[i]
                    assert own is not None, "only what was joined with the base has it"
                    place = Signal(range(PLANES), name=f"place_{2 * span}_{i}")
                    m.d.comb += place.eq(Mux(own, places[i], places[below]))
                    places[i] = place
                    other = found[below]
                    if other is None:
                        found[i] = None
                    else:
                        either = Signal(name=f"found_{2 * span}_{i}")
                        m.d.comb += either.eq(own | other)
                        found[i] = either
            span *= 2
        m.d.comb += [self.last[k].eq(place) for k, place in enumerate(places)]
        return m
