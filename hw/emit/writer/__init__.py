"""Verilog as a person would write it, from Amaranth's netlist; `cdma.hw.emit.netlist` calls it."""
