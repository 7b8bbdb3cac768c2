"""Reads of entries: issue, assembly, response."""
