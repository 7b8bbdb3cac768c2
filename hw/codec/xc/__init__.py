"""XC, the exponent-class codec, in RTL: line coder, its kernels, and the registry's entry."""
