"""Compressed memory: the address map, the entry formats, and the memory's contents."""
