"""Standard cells: mapping, netlists, static timing, simulation."""
