"""Buffers in the machine's memories."""
