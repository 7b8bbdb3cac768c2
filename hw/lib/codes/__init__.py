"""Codes that tell whether data is as it was: checksums, and codes that correct."""
