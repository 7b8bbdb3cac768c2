"""Files made from Amaranth components: Verilog, JSON, IP folders."""
