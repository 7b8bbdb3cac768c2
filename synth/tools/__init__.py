"""Yosys and its like, from YoWASP wheels."""
