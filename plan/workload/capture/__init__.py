"""Captured activations: how they are recorded, kept and read."""
