"""Mutants: small faults in the sources, each of which some test should find (`make mutate`)."""
