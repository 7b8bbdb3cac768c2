"""The error-bounded lossy lane with bounds 2^k, in RTL: quantizer, line coder, entry."""
