"""No output follows from a register that nothing loads, in any engine and controller."""

from dataclasses import replace

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.entry.checker import EntryPrechecker
from cdma.hw.components import COMPONENTS
from cdma.hw.config import BUDDY_PRESETS, MODES, PRESETS, CodecConfig, EngineConfig, EntryConfig
from tests.formal.broken import break_elaborate
from tests.lib.rtl.loads import netlist_of, unloaded_bits, unloaded_that_count
from tests.lib.shares import configs

TINY = PRESETS["tiny"]
DESIGNS = {
    "tiny": ("engine", TINY),
    "tiny, with all that it may have": (
        "engine",
        replace(TINY, ecc=True, host_clock=True, clock_gates=True, rings=2),
    ),
    "ZVC, XC and lossy": (
        "engine",
        EngineConfig(
            units=1, codec=CodecConfig(element_bytes=1, codecs=("zvc", "raw", "xc", "quantize"))
        ),
    ),
    "tiny, two beats at once": ("engine", replace(TINY, drain_beats=2, split_beats=2)),
    "codes of dense data": (
        "engine",
        EngineConfig(units=1, codec=CodecConfig(element_bytes=1, codecs=("raw", "xc"))),
    ),
    "fast ZVC": ("zvc-compressor", CodecConfig(latency="fast")),
    "fast ZVC back": ("zvc-decompressor", CodecConfig(latency="fast")),
    **{name: ("engine", PRESETS[name]) for name in PRESETS if name != "tiny"},
    **{f"buddy {name}": ("buddy", BUDDY_PRESETS[name]) for name in BUDDY_PRESETS},
    **{
        f"buddy {mode}": ("buddy", replace(BUDDY_PRESETS["tiny"], entry=EntryConfig(mode=mode)))
        for mode in MODES
    },
}


class Held(wiring.Component):
    """One bit of it is loaded, one is reset, one is overwritten and one is neither."""

    def __init__(self, *, shown: bool) -> None:
        self.shown = shown
        super().__init__({"i": In(1), "o": Out(3)})

    def elaborate(self, platform) -> Module:
        m = Module()
        held = Signal(3, reset_less=True)
        reset = Signal()
        late = Signal(3, reset_less=True)
        m.d.sync += held[0].eq(self.i)
        with m.If(self.i):
            m.d.sync += [held[1].eq(1), late.eq(held)]
            if not self.shown:
                m.d.sync += late[2].eq(reset)
        m.d.comb += self.o.eq(late)
        return m


def test_a_bit_that_nothing_loads_is_found_where_it_counts():
    netlist = netlist_of(Held(shown=True))
    assert len(unloaded_bits(netlist)) == 1
    (told,) = unloaded_that_count(netlist)
    assert told.startswith("top: bit 2 of the register of test_loaded_registers.py:")


def test_a_bit_that_is_overwritten_does_not_count():
    netlist = netlist_of(Held(shown=False))
    assert len(unloaded_bits(netlist)) == 1
    assert unloaded_that_count(netlist) == []


def test_a_flag_that_the_mode_bpc_never_sets_is_found(monkeypatch):
    # A defect that a proof of power-up had found.
    break_elaborate(monkeypatch, EntryPrechecker, "self.o.payload.by_zvc.eq(0),", "")
    told = unloaded_that_count(netlist_of(EntryPrechecker(EntryConfig(mode="bpc"))))
    assert told == ["top: bit 4 of the register of <broken>:7"]


@pytest.mark.parametrize("design", configs(DESIGNS, quick=["tiny"]))
def test_nothing_follows_from_what_is_never_loaded(design):
    component, config = design
    netlist = netlist_of(COMPONENTS[component].make(config))
    assert unloaded_that_count(netlist) == []
