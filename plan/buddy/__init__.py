"""Choosing target ratios for compressed memory, from snapshots (Buddy Compression, §3.4)."""
