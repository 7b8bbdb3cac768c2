"""Registers behind AXI4-Lite, each block's from one description: RTL, documents, C header."""
