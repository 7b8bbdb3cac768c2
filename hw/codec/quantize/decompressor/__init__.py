"""The lossy lane's decompressor: compressed lines to sectors."""
