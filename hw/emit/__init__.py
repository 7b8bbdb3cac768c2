"""From Amaranth components to files: Verilog, JSON, IP folders."""
