"""Descriptors in, completion records out, and the registers between."""
