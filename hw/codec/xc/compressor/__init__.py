"""XC's compressor: sectors to compressed lines."""
