"""Bit-plane compression of 128 B entries."""
