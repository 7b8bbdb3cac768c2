"""Written Verilog: equivalent to Amaranth's RTLIL module by module, clean, and with its names."""

import dataclasses
import re

import pytest

from cdma.hw.components import find_component
from cdma.hw.emit.netlist import written_modules
from cdma.hw.emit.verilog import LINT_WAIVERS
from tests.hw.emit.test_verilog import lint
from tests.lib.rtl.equivalence import check_module

QUICK = ("crc32", "packer", "zvc-line-decompressor")
WRITTEN = (
    "unpacker", "zvc-line-compressor", "zvc-compressor", "zvc-decompressor", "bpc-decompressor",
)  # fmt: skip
"""Components whose modules are all proven; the others follow."""

COMPONENTS = [*QUICK, *(pytest.param(name, marks=pytest.mark.verify) for name in WRITTEN)]

WAIVERS = (*LINT_WAIVERS, "PINCONNECTEMPTY")
"""Outputs of instances that nothing reads are left open."""


def written(name, config=None):
    component = find_component(name)
    return written_modules(component.make(component.config(config)), component.top)


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_module_is_equivalent_to_its_rtlil(name, tmp_path):
    modules = written(name)
    for module in modules:
        found = check_module(module, modules, tmp_path / module.name)
        assert found.holds, found.log


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("came && o_last", "came || o_last"),
        ("result = 32'd0;", "result = 32'd1;"),
        ("finishing <= 1'b0;", "finishing <= 1'b1;"),
        ("(posedge clk)", "(negedge clk)"),
    ],
)
def test_a_planted_error_is_found(right, wrong, tmp_path):
    modules = written("crc32")
    assert right in modules[0].text
    damaged = dataclasses.replace(modules[0], text=modules[0].text.replace(right, wrong, 1))
    assert not check_module(damaged, modules, tmp_path).holds


@pytest.mark.parametrize("name", COMPONENTS)
def test_both_tools_take_it_without_a_warning(name, tmp_path):
    modules = written(name)
    text = "".join(f"/* verilator lint_off {rule} */\n" for rule in WAIVERS)
    text += "\n".join(module.text for module in modules)
    lint(modules[0].name, f"{text}\n", tmp_path)


def test_what_the_source_names_is_called_so():
    text = written("zvc-line-compressor")[0].text
    declared = set(re.findall(r"^  (?:wire|reg) (?:\[[^]]*\] )?(\w+)", text, re.M))
    # Registers and wires of `hw/codec/zvc/compressor.py`.
    assert {"beat_place", "window_left", "offset", "free", "leaving", "append", "sent"} <= declared
    assert not [name for name in declared if re.fullmatch(r"_\d+_?", name)]
