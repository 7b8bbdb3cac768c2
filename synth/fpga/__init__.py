"""FPGA cells, placement and routing, bitstreams."""
