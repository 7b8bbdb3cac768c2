"""The simulated machine and the host software that drives it."""
