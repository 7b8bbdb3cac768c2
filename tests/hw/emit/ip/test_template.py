"""The instantiation template: two tools take it, and it has every port of the module."""

import re
from dataclasses import replace

import pytest

from cdma.hw.config import preset
from cdma.hw.emit.ip.template import template
from tests.hw.emit.test_verilog import lint
from tests.lib.rtl.verilog import verilog_of

WAIVED = ("UNUSEDSIGNAL", "UNDRIVEN", "DECLFILENAME")
"""Rules that wires without anything at the other end break."""


@pytest.mark.parametrize("component", ["zvc-compressor", "packer", "token-bucket"])
def test_an_instance_is_clean_and_complete(component, tmp_path):
    verilog = verilog_of(component, "tiny")
    text = template(verilog.sidecar)
    around = [
        *(f"/* verilator lint_off {rule} */" for rule in WAIVED),
        "module around (input wire clk, rst);",
        text,
        "endmodule",
    ]
    # Verilator's PINMISSING and Icarus's -Wall tell ports that are not connected.
    lint("around", "\n".join([*around, "", verilog.text]), tmp_path)
    connected = re.findall(r"^  \.(\w+)\((\w+)\),?", text, re.M)
    ports = [port for one in verilog.sidecar["interfaces"] for port in one["ports"]]
    name = verilog.name
    assert connected == [
        *(("clk", "clk"), ("rst", "rst")),
        *((port["name"], f"{name}_{port['name']}") for port in ports),
    ]


def test_an_instance_with_two_clocks_has_both(tmp_path):
    verilog = verilog_of("engine", replace(preset("tiny"), host_clock=True))
    text = template(verilog.sidecar)
    assert "// in a module that has clk, rst, host_clk and host_rst.\n" in text
    around = [
        *(f"/* verilator lint_off {rule} */" for rule in WAIVED),
        "module around (input wire clk, rst, host_clk, host_rst);",
        text,
        "endmodule",
    ]
    lint("around", "\n".join([*around, "", verilog.text]), tmp_path)


def test_ports_are_grouped_and_described():
    text = template(verilog_of("zvc-compressor", "tiny").sidecar)
    assert "// s_axis: axi4-stream, sink. Uncompressed data.\n" in text
    assert "wire [31:0] zvc_compressor_s_cmd_length;  // Its size in bytes.\n" in text
    assert "//   element_bytes = 1\n" in text


def test_a_port_that_is_left_out_is_found(tmp_path):
    verilog = verilog_of("packer", "tiny")
    text = re.sub(r"^  \.i_valid.*\n", "", template(verilog.sidecar), flags=re.M)
    around = f"module around (input wire clk, rst);\n{text}endmodule\n"
    with pytest.raises(AssertionError):
        lint("around", around + verilog.text, tmp_path)
