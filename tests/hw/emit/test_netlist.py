"""Modules of small designs: which of them are one, and what is asserted of gated clocks."""

import re

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cdma.hw.emit.netlist import NetlistError, to_verilog, written_modules
from cdma.hw.lib.clocks.clock_gate import ClockGate
from cdma.hw.lib.ram import Ram


class Counter(wiring.Component):
    go: In(1)
    count: Out(4)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.go):
            m.d.sync += self.count.eq(self.count + 1)
        return m


class Gated(wiring.Component):
    """A counter with a gated clock."""

    gated_clocks = {"counter": "counter_clock"}

    go: In(1)
    awake: In(1)
    count: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.counter = counter = Counter()
        m.submodules.counter_clock = gate = ClockGate()
        m.d.comb += [
            gate.enable.eq(self.awake),
            counter.go.eq(self.go),
            self.count.eq(counter.count),
        ]
        return m


class Stores(wiring.Component):
    """Memories of which two have the same words and bits."""

    i: In(4)
    o: Out(12)

    def elaborate(self, platform):
        m = Module()
        for number, depth in enumerate((4, 8, 4)):
            m.submodules[f"{'abc'[number]}_words"] = words = Ram(width=4, depth=depth)
            m.d.comb += [
                words.write_enable.eq(1),
                words.write_data.eq(self.i),
                words.read_enable.eq(self.i[0]),
                self.o.word_select(number, 4).eq(words.read_data),
            ]
        return m


class Table(wiring.Component):
    """A memory that has words from the start."""

    place: In(2)
    word: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=4, depth=4, init=[0, 0, 3])
        port = words.read_port()
        m.d.comb += [port.addr.eq(self.place), self.word.eq(port.data)]
        return m


def test_a_clock_that_stops_while_it_is_needed_fails_an_assertion():
    text = to_verilog(Gated(), "gated", assertions=True)[0].text
    values = dict(re.findall(r"^  assign (_\d+_) = (.*);$", text, re.M))
    (name,) = re.findall(r"^ +assert \((\w+)\);$", text, re.M)
    asserted = re.sub(r"_\d+_", lambda m: f"({values[m[0]]})", values[name])
    assert asserted == "awake | (~ counter_wake)"


def test_memories_of_the_same_words_and_bits_are_instances_of_one_module():
    top, *below = written_modules(Stores(), "stores")
    assert [module.name for module in below] == ["stores_ram_4x4", "stores_ram_8x4"]
    instances = re.findall(r"^  (stores_ram_\w+) (\w)_words \($", top.text, re.M)
    assert instances == [
        ("stores_ram_4x4", "a"),
        ("stores_ram_8x4", "b"),
        ("stores_ram_4x4", "c"),
    ]


def test_a_memory_with_words_from_the_start_is_refused():
    for convert in (to_verilog, written_modules):
        with pytest.raises(NetlistError, match="table has a memory with words from the start"):
            convert(Table(), "table", assertions=False)
