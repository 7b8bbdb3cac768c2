"""The published policies and ours, one module each: from a scenario to a plan. `registry` has them
all by name."""
