"""The metadata cache: slices, tags, misses, evictions."""
