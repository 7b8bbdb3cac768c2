"""`cdma swap`: arrays through the simulated RTL and back, and the report."""
