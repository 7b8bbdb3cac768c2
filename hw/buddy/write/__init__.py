"""Writes of entries: encoding and write-back."""
