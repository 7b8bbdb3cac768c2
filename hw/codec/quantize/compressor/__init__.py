"""The lossy lane's compressor: sectors to compressed lines."""
