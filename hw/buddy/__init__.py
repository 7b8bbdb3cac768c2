"""Buddy compressed memory: the address map, the metadata cache, and the controller around them."""
