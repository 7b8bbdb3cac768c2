"""Sleep changes nothing: while `wake` is low, no register and no memory of a component changes."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from amaranth.hdl import Fragment, Module, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

import cdma.hw.lib.sleep
from cdma.hw.bus.port import Axi4Port
from cdma.hw.config import EngineConfig
from cdma.hw.dma.inbound.path import InPath
from cdma.hw.dma.outbound.path import OutPath
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import SkidBuffer
from cdma.hw.lib.sleep import COMPARED_BITS, add_wake
from tests.formal.bench import Bench
from tests.formal.lines import TINY
from tests.formal.smtbmc import ProofError, prove

CONFIG = EngineConfig(
    codec=replace(TINY, sector_bytes=8, line_bytes=16),
    units=2,
    host_bytes=8,
    buffer_bytes=2048,
    write_bursts=2,
    read_buffer_bytes=512,
)


def prove_sleep(component: wiring.Component, folder) -> None:
    """In any state and under any input, whatever changes was announced by `wake`."""
    bench = Bench()
    inside = bench.add(component, ignored=True)
    for _path, member, port in component.signature.flatten(component):
        if member.flow == wiring.In:
            bench.m.d.comb += Value.cast(port).eq(AnySeq(len(Value.cast(port))))
    registers = list(_registers(inside.fragment))
    written = list(_write_enables(inside.fragment))
    wake = _wake(inside.fragment)
    slept = Signal()
    bench.m.d.sync += slept.eq(~wake & ~ResetSignal())
    for register in registers:
        before = Signal(len(register))
        bench.m.d.sync += before.eq(register)
        bench.implies(slept, before == register)
    for enable in written:
        bench.implies(~wake, ~enable.any())
    # Both can happen.
    bench.cover(slept)
    bench.cover(wake)
    assert registers
    prove(bench, folder, depth=2, cover_depth=12)


def _wake(fragment: Fragment) -> Signal:
    below = [
        _wake(subfragment)
        for subfragment, _name, _src_loc in fragment.subfragments
        if not _is_memory(subfragment)
    ]
    return add_wake(fragment, below)


def _registers(fragment: Fragment) -> Iterator[Value]:
    signals = {
        id(signal): signal
        for statement in fragment.statements.get("sync", ())
        for signal in statement._lhs_signals()
    }
    yield from signals.values()
    for subfragment, _name, _src_loc in fragment.subfragments:
        if _is_memory(subfragment):
            yield from (Value.cast(port.data) for port in subfragment.origins[0].read_ports)
        else:
            yield from _registers(subfragment)


def _write_enables(fragment: Fragment) -> Iterator[Value]:
    for subfragment, _name, _src_loc in fragment.subfragments:
        if _is_memory(subfragment):
            yield from (port.en for port in subfragment.origins[0].write_ports)
        else:
            yield from _write_enables(subfragment)


def _is_memory(fragment: Fragment) -> bool:
    return isinstance((fragment.origins or [None])[0], memory.Memory)


class Assignments(wiring.Component):
    """Assigns registers in every way: always, conditionally, in parts, signed, twice and wide."""

    def __init__(self) -> None:
        super().__init__({"step": In(4), "wide": In(COMPARED_BITS + 1), "load": In(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        counter = Signal(8)
        signed = Signal(12)
        short = Signal(3)
        twice = Signal(4)
        wide = Signal(COMPARED_BITS + 1)
        always_wide = Signal(COMPARED_BITS + 1)
        m.d.sync += [
            counter.eq(counter + self.step),
            short.eq(counter),
            twice.eq(self.step),
            always_wide.eq(Mux(self.load, self.wide, always_wide)),
        ]
        with m.If(counter[0]):
            m.d.sync += twice.eq(twice)
        with m.Switch(self.step):
            with m.Case("1--0", "0011"):
                m.d.sync += signed.eq(self.step.as_signed() - 1)
            with m.Case():
                m.d.sync += short.eq(0)
            with m.Default(), m.If(self.load):
                m.d.sync += [
                    wide.eq(self.wide),
                    signed[9:].eq(0),
                    signed.bit_select(counter[:3], 2).eq(self.step),
                ]
        return m


COMPONENTS = {
    "assignments": Assignments,
    "skid-buffer": lambda: SkidBuffer(8),
    "fifo": lambda: Fifo(8, 4),
    "port": lambda: Axi4Port(4, 16, 1, reads=(2, 2), writes=(2, 2)),
    "out-path": lambda: OutPath(CONFIG),
    "in-path": lambda: InPath(CONFIG),
}


@pytest.mark.verify
@pytest.mark.parametrize("name", COMPONENTS)
def test_nothing_changes_in_sleep(name, tmp_path):
    prove_sleep(COMPONENTS[name](), tmp_path)


@pytest.mark.verify
def test_sleeper_that_would_miss_a_change_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(cdma.hw.lib.sleep, "_raises", lambda *_, **__: ())
    with pytest.raises(ProofError, match="Assert failed in top"):
        prove_sleep(SkidBuffer(8), tmp_path)
