"""Sweeps: independent points, each computed once, on any number of machines, and kept as a file."""
