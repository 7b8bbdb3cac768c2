"""No output of a whole follows from an input within a cycle, but for the reset.

So whatever an integrator connects, no loop closes through two blocks, and a port's timing is its
own.
"""

import json
from dataclasses import replace

import pytest
from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.components import find_component
from cdma.hw.config import preset
from cdma.hw.emit.netlist import to_verilog
from cdma.synth.tools.yosys import run_yosys
from tests.lib.shares import configs

STORING = ("$_DFF", "$_SDFF", "$_SDFFE", "$_SDFFCE", "$_DFFE", "$dff", "$sdff")
"""The beginnings of the names of Yosys' cells whose outputs follow from the last cycle."""


def paths(component, top, folder):
    """The inputs that each output depends on within a cycle, by name, where there are any."""
    modules = to_verilog(component, top, assertions=False)
    (folder / "top.v").write_text("".join(f"{module.text}\n\n" for module in modules))
    steps = ["proc", "flatten", "opt_clean", "memory -nomap", "opt", "simplemap"]
    run_yosys(
        ["read_verilog top.v", f"hierarchy -top {top}", *steps, "write_json top.json"], folder
    )
    module = json.loads((folder / "top.json").read_text())["modules"][top]
    sources = {}
    for cell in module["cells"].values():
        sources |= sources_of(cell)
    ports = module["ports"].items()
    pins = {
        bit: name for name, port in ports if port["direction"] == "input" for bit in port["bits"]
    }
    found = {}
    for name, port in ports:
        if port["direction"] == "output":
            seen, left = set(), list(port["bits"])
            while left:
                bit = left.pop()
                if bit not in seen:
                    seen.add(bit)
                    left += sources.get(bit, [])
            causes = {pins[bit] for bit in seen & pins.keys()}
            causes -= {"clk", "rst", "host_clk", "host_rst"}
            if causes:
                found[name] = causes
    return found


def sources_of(cell):
    """The nets that each output of a cell follows from within a cycle."""
    if cell["type"].startswith("$mem"):
        return memory_sources(cell)
    pins = cell["connections"]
    directions = cell["port_directions"]
    is_stored = cell["type"].startswith(STORING)
    inputs = [] if is_stored else [b for p in pins if directions[p] == "input" for b in pins[p]]
    return {bit: inputs for pin in pins if directions[pin] == "output" for bit in pins[pin]}


def memory_sources(cell):
    """Those of a memory: a read port without a clock follows from its address."""
    pins, parameters = cell["connections"], cell["parameters"]
    ports, width, address = (int(parameters[n], 2) for n in ("RD_PORTS", "WIDTH", "ABITS"))
    clocked = int(parameters["RD_CLK_ENABLE"], 2)
    return {
        bit: pins["RD_ADDR"][port * address : (port + 1) * address]
        for port in range(ports)
        if not clocked >> port & 1
        for bit in pins["RD_DATA"][port * width : (port + 1) * width]
    }


DESIGNS = {
    "engine": ("engine", "tiny"),
    "two clocks": ("engine", replace(preset("tiny"), host_clock=True)),
    "gated clocks": ("engine", replace(preset("tiny"), clock_gates=True)),
    "buddy": ("buddy", "tiny"),
}


@pytest.mark.parametrize("design", configs(DESIGNS, quick=["engine", "two clocks"]))
def test_outputs_follow_from_no_input_within_a_cycle(design, tmp_path):
    name, config = design
    component = find_component(name)
    assert paths(component.make(component.config(config)), component.top, tmp_path) == {}


class Through(wiring.Component):
    """A path from one input to an output, and a register behind the other."""

    valid: In(1)
    data: In(4)
    ready: Out(1)
    kept: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.ready.eq(Mux(self.kept == 3, self.valid, 0))
        m.d.sync += self.kept.eq(self.data)
        return m


def test_a_path_through_a_component_is_found(tmp_path):
    assert paths(Through(), "through", tmp_path) == {"ready": {"valid"}}
