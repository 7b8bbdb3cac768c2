"""Bits of assignment lists as expressions, from statements that assign other bits."""

from amaranth.hdl import Fragment, Module
from amaranth.hdl._ir import PortDirection, build_netlist
from amaranth.hdl._nir import AssignmentList
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.emit.writer.circuit import Circuit
from cdma.hw.emit.writer.decisions import Bit, Choice, value_of


class Patched(wiring.Component):
    """A word of which one bit may be another one's."""

    word: In(8)
    go: In(1)
    bit: In(1)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.word)
        with m.If(self.go):
            m.d.comb += self.o[5].eq(self.bit)
        return m


def test_bits_are_chosen_as_those_of_the_whole():
    patched = Patched()
    inputs, outputs = {"word": 8, "go": 1, "bit": 1}, {"o": 8}
    ports = {name: (getattr(patched, name), PortDirection.Input) for name in inputs}
    ports["o"] = (patched.o, PortDirection.Output)
    netlist = build_netlist(Fragment.get(patched, None).prepare(ports))
    circuit = Circuit(netlist, inputs, outputs)
    (index,) = (i for i, cell in enumerate(circuit.cells) if isinstance(cell, AssignmentList))
    word, (go,), (bit,) = (circuit.variables[name].nets for name in inputs)

    def expected(low, high):
        chosen = (*word[:5], bit, *word[6:])[low:high]
        return Choice(((Bit(go, True), chosen),), word[low:high])

    for low, high in ((0, 8), (4, 7), (5, 6), (2, 6)):
        assert value_of(circuit, index, low, high) == expected(low, high)
    assert value_of(circuit, index, 0, 5) == word[:5]
