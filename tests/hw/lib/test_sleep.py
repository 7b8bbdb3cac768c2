"""Clocks of components that sleep: which bit of the top's ports is whose."""

import re

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.config import PRESETS
from cdma.hw.emit.netlist import to_verilog
from cdma.sim.machine.build.rtl import generated_engine


class Counter(wiring.Component):
    """A register that changes while `steps` is high."""

    def __init__(self):
        super().__init__({"steps": In(1), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        count = Signal(8)
        with m.If(self.steps):
            m.d.sync += count.eq(count + 1)
        m.d.comb += self.o.eq(count)
        return m


class Pair(Counter):
    """A register of its own, and a counter behind it."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.behind = behind = Counter()
        m.d.sync += behind.steps.eq(self.steps)
        m.d.comb += self.o.eq(behind.o)
        return m


class Shared(Counter):
    """A counter like the others, under another name."""


class Top(Counter):
    def elaborate(self, platform):
        m = Module()
        m.submodules.first = first = Counter()
        m.submodules.pair = pair = Pair()
        m.submodules.shared = shared = Shared()
        m.submodules.last = last = Counter()
        for counter in (first, pair, shared, last):
            m.d.comb += counter.steps.eq(self.steps)
        m.d.comb += self.o.eq(first.o ^ pair.o ^ shared.o ^ last.o)
        return m


def modules(sleepers):
    converted = to_verilog(Top(), "top", assertions=True, sleepers=sleepers)
    return {module.name: module.text for module in converted}


def connections(text, instance):
    (body,) = re.findall(rf"^  top\w* {instance} \((.*?)\);", text, re.M | re.S)
    return dict(re.findall(r"\.(\w+)\((.*?)\)", body))


def test_each_sleeper_has_its_clock_and_those_inside_come_behind_it():
    top = modules((Counter,))["top"]
    # Everything here is a counter.
    assert re.search(r"input wire \[4:0\] clks\b", top)
    assert re.search(r"output wire \[4:0\] wakes\b", top)
    assert connections(top, "first")["clk"] == "clks[0]"
    assert connections(top, "pair")["clk"] == "clks[1]"
    assert connections(top, "pair")["clks"] == "clks[2]"
    assert connections(top, "shared")["clk"] == "clks[3]"
    assert connections(top, "last")["clk"] == "clks[4]"
    order = ["last_wake", "shared_wake", "pair_wakes", "pair_wake", "first_wake"]
    assert re.search(r"\{ " + ", ".join(order) + r" \}", top)


def test_whatever_does_not_sleep_alone_wakes_what_it_shares_the_clock_with():
    texts = modules((Pair,))
    assert re.search(r"input wire clks\b", texts["top"])
    assert connections(texts["top"], "pair")["clk"] == "clks"
    for instance in ("first", "shared", "last"):
        assert connections(texts["top"], instance)["clk"] == "clk"
    assert connections(texts["top_pair"], "behind")["clk"] == "clk"
    (wake,) = re.findall(r"assign wake = (.*?);", texts["top_pair"])
    assert "behind_wake" in texts["top_pair"]
    assert wake != "behind_wake"


def test_without_sleepers_there_is_one_clock():
    for text in modules(()).values():
        assert "wake" not in text
        assert "clks" not in text
        assert re.search(r"input wire clk\b", text)


@pytest.mark.verify
def test_engine_has_clocks_for_sleep_on_request():
    asleep = generated_engine(PRESETS["tiny"]).text
    assert re.search(r"^  input wire \[\d+:0\] clks\b", asleep, re.M)
