"""Tensors that may come back with errors: whose, by how much, and who must not read them."""
