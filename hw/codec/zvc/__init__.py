"""Zero-value compression of lines."""
