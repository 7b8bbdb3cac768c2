"""`cdma energy`: energy per byte, and its report."""
