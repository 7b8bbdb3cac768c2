"""Formats that compress 4 KiB windows, each on its own."""
