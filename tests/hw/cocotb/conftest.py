"""The tops that the benches run on."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.registers import Registers
from cdma.hw.emit.netlist import to_verilog
from cdma.hw.emit.verilog import Verilog
from cdma.sim.machine.build.rtl import generated, generated_buddy, generated_engine
from tests.hw.cocotb.builds import built
from tests.hw.cocotb.simulate import Build

Builds = Callable[..., Build]


def without_initial_values(verilog: Verilog) -> Verilog:
    """Registers as in an ASIC: unknown until reset or written."""
    text, count = re.subn(
        r"(?m)^( *(?:output )?reg [^=;,\n]*) = [^;,\n]*(?=[;,]?(?:  //.*)?$)", r"\1", verilog.text
    )
    assert count > 20, "the registers' declarations look other than expected"
    return replace(verilog, text=text)


def as_verilog_2005(rtl: Verilog) -> Verilog:
    """The text with assertions for Icarus, which a failing one ends."""
    failure = r'if (!(\1)) begin $display("%m: an assertion has failed"); $finish; end'
    text, count = re.subn(r"\bassert\s+\(([^;]*)\);", failure, rtl.text)
    assert count > 10, "assertions look other than expected"
    return Verilog(rtl.name, text, {})


@pytest.fixture(scope="session")
def register_builds() -> Builds:
    """Gives the register block for a simulator, built by whichever test needs it first."""
    modules = to_verilog(Registers(EngineConfig()), "registers", assertions=False)
    verilog = Verilog("registers", "\n\n".join(m.text for m in modules) + "\n", {})
    return lambda simulator: built(simulator, verilog)


STYLES = {"verilator": "netlist", "icarus": "readable"}
"""Verilator runs the text of the library, Icarus what `generate` writes for people.

So tests in which the simulators must agree in every cycle compare both."""


def block_builds(generated_block: Callable[..., Verilog]) -> Builds:
    """Gives a whole block for a simulator, built by whichever test needs it first."""

    def build(simulator: str, config: Any, *, initial_values: bool = True) -> Build:
        rtl = generated_block(config, style=STYLES[simulator])
        if simulator == "verilator":
            return built(simulator, rtl)
        verilog = as_verilog_2005(rtl)
        return built(simulator, verilog if initial_values else without_initial_values(verilog))

    return build


@pytest.fixture(scope="session")
def engine_builds() -> Builds:
    """The engine of an `EngineConfig`, with one clock, as it is generated for designs."""
    return block_builds(partial(generated_engine, sleep=False))


@pytest.fixture(scope="session")
def buddy_builds() -> Builds:
    """The buddy controller of a `BuddyConfig`."""
    return block_builds(generated_buddy)


@pytest.fixture(scope="session")
def builds() -> Builds:
    """Gives a top for a simulator, built by whichever test needs it first."""

    def build(
        simulator: str, component: str, config: CodecConfig, *, initial_values: bool = True
    ) -> Build:
        # For Verilator the same text as the library's, with assertions; it may be in its cache.
        is_verilator = simulator == "verilator"
        rtl = generated(component, config, assertions=is_verilator, style=STYLES[simulator])
        return built(simulator, rtl if initial_values else without_initial_values(rtl))

    return build
