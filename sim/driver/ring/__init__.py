"""Descriptors, their ring, and completion records."""
