"""Small components, each with a kind of thing that written Verilog has.

Beside them, in `expected`, is the text that each is to have. A change of the writer that alters one
is looked at, and the text written anew:

    python -m tests.hw.emit.writer.specimens
"""

import re
from pathlib import Path

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, signed
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cdma.hw.emit.netlist import shared_modules, written_modules

EXPECTED = Path(__file__).with_name("expected")


class Color(enum.Enum, shape=2):  # type: ignore[call-arg]
    RED = 0
    GREEN = 1
    BLUE = 2


class Machine(wiring.Component):
    """A machine with states, and a register whose values have names."""

    go: In(1)
    stop: In(1)
    limit: In(4)
    is_busy: Out(1)
    count: Out(4)
    is_blue: Out(1)

    def elaborate(self, platform):
        m = Module()
        color = Signal(Color)
        m.d.comb += self.is_blue.eq(color == Color.BLUE)
        with m.If(self.stop):
            m.d.sync += color.eq(Color.RED)
        with m.Else():
            with m.Switch(color):
                with m.Case(Color.RED):
                    m.d.sync += color.eq(Color.GREEN)
                with m.Case(Color.GREEN):
                    m.d.sync += color.eq(Color.BLUE)
                with m.Default():
                    m.d.sync += color.eq(Color.RED)
        with m.FSM():
            with m.State("Idle"):
                with m.If(self.go):
                    m.d.sync += self.count.eq(0)
                    m.next = "Counting"
            with m.State("Counting"):
                m.d.comb += self.is_busy.eq(1)
                m.d.sync += self.count.eq(self.count + 1)
                with m.If(self.stop):
                    m.next = "Idle"
                with m.Elif(self.count == self.limit):
                    m.next = "Ending"
            with m.State("Ending"):
                m.d.comb += self.is_busy.eq(~self.stop)
                m.next = "Idle"
        return m


class Decisions(wiring.Component):
    """Registers whose decisions come one after the other, beside and inside each other."""

    kind: In(2)
    go: In(1)
    clear: In(1)
    value: In(4)
    other: In(4)
    first: Out(4)
    second: Out(4)
    third: Out(4, init=5)
    kept: Out(4)
    few: Out(4)
    many: Out(4)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.go):
            m.d.sync += self.second.eq(self.value)
        with m.Switch(self.kind):
            with m.Case(1):
                m.d.sync += self.first.eq(self.value)
            with m.Case(2):
                m.d.sync += self.third.eq(self.other)
        with m.If(self.value == 3):
            m.d.sync += self.first.eq(self.first + 1)
            m.d.sync += self.second.eq(self.second - 1)
        # Alone and last, as a reset would be.
        with m.If(self.clear):
            m.d.sync += self.third.eq(0)
        kept = Signal(4, reset_less=True)
        m.d.comb += self.kept.eq(kept)
        with m.If(self.go):
            m.d.sync += kept.eq(self.other)
        with m.If(self.clear):
            m.d.sync += kept.eq(0)
        with m.If(self.go):
            m.d.comb += self.few.eq(self.value)
        with m.Elif(self.clear):
            m.d.comb += self.few.eq(self.other)
        with m.If(self.go):
            m.d.comb += self.many.eq(self.value)
            with m.If(self.clear):
                m.d.comb += self.many.eq(self.other)
            with m.Elif(self.value == self.other):
                m.d.comb += self.many.eq(self.first)
        with m.Elif(self.kind == 3):
            m.d.comb += self.many.eq(self.second)
            with m.If(self.clear):
                m.d.comb += self.many.eq(self.third)
        return m


class Widths(wiring.Component):
    """Operators whose result is narrower, or wider, than what is around them."""

    bit: In(1)
    pair: In(2)
    a: In(4)
    b: In(4)
    wide: In(7)
    wider: In(16)
    amount: In(2)
    is_pair: Out(1)
    is_moved: Out(1)
    product: Out(16)
    area: Out(6)
    difference: Out(8)
    inverse: Out(8)
    chosen: Out(8)
    moved: Out(8)
    all_ones: Out(1)

    def elaborate(self, platform):
        m = Module()
        either = Signal(4)
        m.d.comb += [
            self.is_pair.eq(self.bit == self.pair),
            self.is_moved.eq((self.a << self.amount) == self.b),
            self.product.eq((self.pair * self.amount) ^ self.wider),
            self.area.eq((self.pair + self.amount) * self.amount - self.pair),
            self.difference.eq((self.bit - self.pair[0]).as_unsigned() ^ self.wide),
            self.inverse.eq(Cat(~self.a) + self.wide),
            self.moved.eq((self.a < self.b) << self.amount),
            self.all_ones.eq((self.a + self.b).all()),
        ]
        with m.If(self.bit):
            m.d.comb += either.eq(~self.a)
        with m.Else():
            m.d.comb += either.eq(self.b)
        m.d.comb += self.chosen.eq(Mux(self.pair[0], ~self.b, self.a) + (either ^ self.wide))
        return m


class Parts(wiring.Component):
    """Parts of values at places that vary, or turn out to be constant, within them and beyond."""

    place: In(3)
    value: In(8)
    number: In(signed(4))
    mask: In(8)
    bit: Out(1)
    word: Out(4)
    rest: Out(8)
    signs: Out(2)

    def elaborate(self, platform):
        m = Module()
        two = Signal(3)
        m.d.comb += [
            two.eq(2),
            self.bit.eq(self.value.bit_select(self.place, 1)),
            self.word.eq(self.value.word_select(self.place[0], 4)),
            self.rest.eq(self.value.bit_select(self.place, 8) ^ self.mask),
            self.signs.eq(self.number.bit_select(two, 2)),
        ]
        return m


class Fields(wiring.Component):
    """A struct of two fields of which one depends on the other."""

    wanted: In(3)
    values: In(8)
    o: Out(data.StructLayout({"place": 2, "value": 4}))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.place.eq(Mux(self.wanted[0], 1, 2))
        for place in range(1, 3):
            with m.If(self.wanted[place] & (self.o.place == place)):
                m.d.comb += self.o.value.eq(self.values.word_select(place - 1, 4))
        return m


class Lanes(wiring.Component):
    """Lanes that a loop gives, with a signal that has the name which the loop's index would."""

    k: In(4)
    data: In(40)
    kept: Out(40)

    def elaborate(self, platform):
        m = Module()
        for place in range(10):
            m.d.comb += self.kept.word_select(place, 4).eq(
                Mux(self.k > place, self.data.word_select(place, 4), 0)
            )
        return m


class Shared(wiring.Component):
    """Values that are read once, twice and often, in parts and as a whole."""

    a: In(4)
    b: In(4)
    c: In(4)
    once: Out(5)
    twice: Out(2)
    parts: Out(4)
    overlapping: Out(6)
    often: Out(12)

    def elaborate(self, platform):
        m = Module()
        is_same = self.a == self.b
        either = self.a | self.b
        joint = self.b & self.c
        total = self.a + self.c
        m.d.comb += [
            self.once.eq(self.a - self.b),
            self.twice.eq(Cat(is_same & self.c[0], is_same | self.c[1])),
            self.parts.eq(Cat(either[2:4], either[0:2])),
            self.overlapping.eq(Cat(joint[0:3], joint[1:4])),
            self.often.eq(Cat(total[0:4] ^ self.b, total[0:4] & self.b, ~total[0:4])),
        ]
        return m


class Lines(wiring.Component):
    """Expressions that take several lines."""

    values: In(data.ArrayLayout(8, 12))
    chosen: In(4)
    mixed: Out(8)
    joined: Out(96)
    is_any: Out(1)

    def elaborate(self, platform):
        m = Module()
        values = [self.values[place] for place in range(12)]
        mixed = values[0] ^ self.chosen
        for place, value in enumerate(values[1:]):
            mixed = (mixed & value) | (value ^ place)
        m.d.comb += [
            self.mixed.eq(mixed),
            self.joined.eq(Cat(values[(7 * place + 5) % 12][0:8] for place in range(12))),
            self.is_any.eq(Cat(value == self.chosen for value in values).any()),
        ]
        return m


class Words(wiring.Component):
    """A memory of narrow words with one port that writes and one that reads."""

    go: In(1)
    into: In(2)
    word: In(2)
    place: In(2)
    found: Out(2)

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=2, depth=3, init=[])
        write, read = words.write_port(), words.read_port()
        m.d.comb += [
            write.en.eq(self.go),
            write.addr.eq(self.into),
            write.data.eq(self.word),
            read.en.eq(1),
            read.addr.eq(self.place),
            self.found.eq(read.data),
        ]
        return m


class Flags(wiring.Component):
    """A memory of words that have a bit."""

    go: In(1)
    into: In(2)
    flag: In(1)
    place: In(2)
    found: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.flags = flags = Memory(shape=1, depth=4, init=[])
        write, read = flags.write_port(), flags.read_port()
        m.d.comb += [
            write.en.eq(self.go),
            write.addr.eq(self.into),
            write.data.eq(self.flag),
            read.en.eq(1),
            read.addr.eq(self.place),
            self.found.eq(read.data),
        ]
        return m


class Resets(wiring.Component):
    """Registers without a reset of their own, in which the domain's decides with other things."""

    i: In(4)
    go: In(1)
    either: Out(4)
    parts: Out(4)

    def elaborate(self, platform):
        m = Module()
        either, parts = Signal(4, reset_less=True), Signal(4, reset_less=True)
        m.d.comb += [self.either.eq(either), self.parts.eq(parts)]
        with m.If(ResetSignal()):
            m.d.sync += either.eq(0)
        with m.Elif(self.go):
            m.d.sync += either.eq(self.i)
        with m.If(self.go):
            m.d.sync += parts.eq(self.i)
        m.d.sync += parts[0].eq(self.i[1])
        return m


class Delay(wiring.Component):
    """A register, of a width of its own."""

    def __init__(self, width):
        self.width = width
        super().__init__({"go": In(1), "i": In(width), "o": Out(width), "is_full": Out(1)})

    def elaborate(self, platform):
        m = Module()
        with m.If(self.go):
            m.d.sync += self.o.eq(self.i)
        m.d.comb += self.is_full.eq(self.o == 2**self.width - 1)
        return m


class Delays(wiring.Component):
    """Registers of several widths, which share a module with a parameter."""

    go: In(1)
    i: In(75)
    o: Out(75)
    is_full: Out(2)

    def elaborate(self, platform):
        m = Module()
        for name, width, place in (("narrow", 5, 0), ("broad", 70, 5)):
            m.submodules[name] = delay = Delay(width)
            m.d.comb += [
                delay.go.eq(self.go),
                delay.i.eq(self.i[place : place + width]),
                self.o[place : place + width].eq(delay.o),
                self.is_full[width == 70].eq(delay.is_full),
            ]
        return m


SPECIMENS = {
    kind.__name__.lower(): kind
    for kind in (
        *(Machine, Decisions, Widths, Parts, Fields),
        *(Lanes, Shared, Lines, Words, Flags, Resets, Delays),
    )
}


def modules_of(name):
    return written_modules(SPECIMENS[name](), name)


def text_of(name):
    """The text of all of a specimen's modules, without the lines of this file that it names."""
    text = "\n\n".join(module.text for module in shared_modules(modules_of(name)))
    return re.sub(r"^ +// hw/.*\n", "", text, flags=re.M) + "\n"


if __name__ == "__main__":
    for specimen in SPECIMENS:
        (EXPECTED / f"{specimen}.v").write_text(text_of(specimen), "utf-8")
