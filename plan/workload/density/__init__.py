"""How dense a network's tensors are, and where that is known from."""
