"""Conversion with the faster internals: the same text, the same errors, and nothing left behind."""

import gc
from contextlib import nullcontext

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, _nir
from amaranth.hdl._ir import build_netlist
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.bpc.decompressor import BpcDecompressor
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.config import PRESETS, CodecConfig, EntryConfig
from cdma.hw.dma.inbound.splitter import LineSplitter
from cdma.hw.emit import fast_conversion as faster
from cdma.hw.emit.fast_conversion import fast_conversion
from cdma.hw.lib.codes.crc import Crc32
from tests.lib.shares import names


class Corners(wiring.Component):
    """Cells of every kind: constants in the middle, parts, signed values, memories, late nets."""

    a: In(13)
    b: In(wiring.Signature({"x": Out(5), "y": In(3)}))
    out: Out(64)

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = storage = memory.Memory(shape=8, depth=5, init=[1, 2])
        write, read = storage.write_port(), storage.read_port()
        fast = storage.read_port(domain="comb")
        late = Signal(7)
        shifted = Signal(20, init=0x5A5A5)
        m.d.comb += [
            write.addr.eq(self.a),
            write.data.eq(Cat(Const(0b1011, 4), self.a[3:5], Const(2, 2))),
            write.en.eq(self.a.any()),
            read.addr.eq(self.a[2:]),
            read.en.eq(1),
            fast.addr.eq(self.b.x),
            self.b.y.eq(late[1:4]),
            self.out.eq(
                Cat(
                    read.data,
                    fast.data,
                    self.a.word_select(self.b.x, 2),
                    shifted,
                    late,
                    Const(5, 9),
                )
            ),
            late.eq(Mux(self.a[0], self.a.as_signed() >> self.b.x, -self.a.as_signed())),
        ]
        with m.Switch(self.a):
            with m.Case("1--0000000001", 7):
                m.d.sync += shifted.eq(shifted << 3)
            with m.Case(9):
                m.d.sync += shifted[4:9].eq(self.a // 3)
            with m.Default():
                m.d.sync += shifted.bit_select(self.b.x[:2], 3).eq(self.a % 5)
        return m


class Loop(Elaboratable):
    """A signal that depends on itself, over a path whose bits differ."""

    def elaborate(self, platform):
        m = Module()
        a = Signal(4)
        b = Signal(4)
        m.d.comb += [a.eq(b + 1), b.eq(a)]
        return m


class Braid(Elaboratable):
    """Cells that depend on each other, but no bit of them on itself."""

    def elaborate(self, platform):
        m = Module()
        a, b, start = Signal(4), Signal(4), Signal()
        m.d.comb += [a[1].eq(b[0]), b[0].eq(a[0]), a[0].eq(start), b[1].eq(a[1])]
        return m


DESIGNS = {
    "corners": Corners,
    "zvc": lambda: ZvcCompressor(CodecConfig(element_bytes=4, sector_bytes=32)),
    "crc": lambda: Crc32(8),
    "bpc": lambda: BpcDecompressor(EntryConfig(sector_bytes=32)),
    "splitter": lambda: LineSplitter(PRESETS["tiny"]),
    "braid": Braid,
}


def text_of(make, *, fast):
    ports = [] if make in (Loop, Braid) else None
    with fast_conversion() if fast else nullcontext():
        return rtlil.convert(make(), ports=ports, emit_src=False)


@pytest.mark.parametrize("name", names(DESIGNS, quick=set(DESIGNS) - {"bpc"}))
def test_the_text_is_amaranths(name):
    make = DESIGNS[name]
    slow = text_of(make, fast=False)
    assert "cell" in slow or "connect" in slow
    assert text_of(make, fast=True) == slow


@pytest.mark.parametrize("name", names(DESIGNS, quick=set(DESIGNS) - {"bpc"}))
def test_the_text_of_a_netlist_is_amaranths(name, monkeypatch):
    netlists = []

    def build(*args, **options):
        netlists.append(build_netlist(*args, **options))
        return netlists[-1]

    monkeypatch.setattr("amaranth.hdl._ir.build_netlist", build)
    text = text_of(DESIGNS[name], fast=False)
    (netlist,) = netlists
    assert faster.rtlil_of(netlist) == text


def test_a_combinational_cycle_is_told_in_the_same_words():
    messages = []
    for fast in (False, True):
        with pytest.raises(_nir.CombinationalCycle) as error:
            text_of(Loop, fast=fast)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert "signal a" in messages[0]


def test_a_value_still_holds_nothing_but_nets():
    with fast_conversion(), pytest.raises(AssertionError):
        _nir.Value([_nir.Net.from_const(0), 1])


def test_amaranths_own_functions_return_with_the_last_block():
    before = {key: vars(key[0])[key[1]] for key in faster._FAST}
    with fast_conversion():
        with fast_conversion():
            pass
        assert vars(_nir.Netlist)["resolve_value"] is faster._resolve_value
        assert not gc.isenabled()
    assert {key: vars(key[0])[key[1]] for key in faster._FAST} == before
    assert gc.isenabled()


def test_after_an_error_too():
    with pytest.raises(KeyError), fast_conversion():
        raise KeyError
    assert gc.isenabled()
    assert vars(_nir.Netlist)["resolve_value"] is faster._ORIGINALS["resolve_value"]


def test_the_collector_stays_off_for_those_who_had_it_off():
    gc.disable()
    try:
        with fast_conversion():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_other_versions_of_amaranth_keep_their_own_functions(monkeypatch):
    monkeypatch.setattr(faster, "_KNOWN", False)
    with fast_conversion():
        assert vars(_nir.Netlist)["resolve_value"] is faster._ORIGINALS["resolve_value"]
