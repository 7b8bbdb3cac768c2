"""XC's decompressor: compressed lines to sectors."""
