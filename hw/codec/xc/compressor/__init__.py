"""From sectors to compressed lines."""
