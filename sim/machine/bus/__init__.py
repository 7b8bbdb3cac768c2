"""Designs on AXI with memories, registers and faults around them."""
