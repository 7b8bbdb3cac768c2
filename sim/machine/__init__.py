"""The Verilated RTL as a Python library: whole buffers in, whole buffers and cycles out."""
