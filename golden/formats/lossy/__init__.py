"""Formats that restore values within an error."""
