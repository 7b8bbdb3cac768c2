"""Written Verilog: equivalent to Amaranth's RTLIL module by module, clean, and with its names."""

import dataclasses
import re
from functools import cache

import pytest

from cdma.hw.components import COMPONENTS, find_component
from cdma.hw.config import ConfigError
from cdma.hw.emit.netlist import written_modules
from cdma.hw.emit.verilog import STYLES, generate
from tests.hw.emit.test_verilog import lint
from tests.lib.rtl.equivalence import check_module

QUICK = ("crc32", "packer", "zvc-line-decompressor")
"""Components whose proofs take seconds."""

ONE_SIZE = ("xc-line-compressor", "xc-line-decompressor")
"""Components that the smallest configuration does not have."""

NAMES = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.verify) for name in COMPONENTS
]


@cache
def written(name, config=None):
    component = find_component(name)
    return written_modules(component.make(component.config(config)), component.top)


@cache
def proven(text, rtlil):
    """Modules that have been proven, of which components share many."""
    return set()


@pytest.mark.parametrize("name", NAMES)
def test_every_module_is_equivalent_to_its_rtlil(name, tmp_path):
    modules = written(name, "tiny" if name not in (*QUICK, *ONE_SIZE) else None)
    for module in modules:
        known = proven(module.text, module.rtlil)
        if not known:
            found = check_module(module, modules, tmp_path / module.name)
            assert found.holds, found.log
            known.add(module.name)


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


def test_what_the_source_names_is_called_so():
    text = written("zvc-line-compressor")[0].text
    declared = set(re.findall(r"^  (?:wire|reg) (?:\[[^]]*\] )?(\w+)", text, re.M))
    # Registers and wires of `hw/codec/zvc/compressor.py`.
    assert {"beat_place", "window_left", "offset", "free", "leaving", "append", "sent"} <= declared
    assert not [name for name in declared if re.fullmatch(r"_\d+_?", name)]


def test_structs_are_fields_at_the_top_and_packed_below():
    top, *below = (module.text for module in written("zvc-compressor"))
    assert "input wire [31:0] s_cmd_length" in top
    ports = [re.findall(r"^  (?:in|out)put .*", text, re.M) for text in below]
    packed = [port for lines in ports for port in lines if "_payload" in port]
    assert "  input wire [31:0] i_payload,  // length[31:0]" in packed


def test_fields_that_depend_on_others_of_their_struct_are_cut_apart(tmp_path):
    # The arbiter's grant is a field of the payload that it chooses.
    modules = written("memory-port", "tiny")
    arbiter = next(m for m in modules if m.name.endswith("reads_arbiter"))
    assert "o_payload =" not in arbiter.text
    assert check_module(arbiter, modules, tmp_path).holds


def test_assertions_are_kept_on_request(tmp_path):
    text = generate("packer", assertions=True).text
    assert re.search(r"^ +always @\(posedge clk\) if \(.*\) assert \(.*\);$", text, re.M)
    assert "assert" not in re.sub(r"//.*", "", generate("packer").text)


def test_the_other_style_is_a_netlist():
    assert STYLES == ("readable", "netlist")
    netlist = generate("packer", style="netlist").text
    assert re.search(r"^  wire (?:\[\d+:0\] )?_\d+_;$", netlist, re.M)
    assert not re.search(r"\b_\d+_\b", generate("packer").text)
    with pytest.raises(ConfigError, match="style must be one of readable, netlist, not 'short'"):
        generate("packer", style="short")
    with pytest.raises(ConfigError, match="style must be netlist for components that sleep, not"):
        generate("engine", "tiny", sleep=True)


@pytest.mark.parametrize("name", ["packer", "unit-buffer"])
def test_a_netlist_is_clean_too(name, tmp_path):
    verilog = generate(name, "tiny", style="netlist")
    lint(verilog.name, verilog.text, tmp_path)
