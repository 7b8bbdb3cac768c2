"""From compressed lines to sectors."""
