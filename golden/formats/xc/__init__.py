"""XC, the exponent-class codec: dense floating-point data without code tables."""
