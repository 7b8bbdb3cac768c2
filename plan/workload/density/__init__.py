"""Densities of a network's tensors, and their sources."""
