"""Searches for plans: HOME's swarm and evaluator, exhaustive search, a bound, the largest batch.

An *assignment* is a plan as numbers: for every managed tensor, the index of its option.
"""
