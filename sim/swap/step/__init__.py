"""A training step of PyTorch that keeps a plan: found by rehearsals, carried out, and compared."""
