"""Compressed lines as packets of bytes: framing, packing, checking, and AXI4-Stream blocks."""
