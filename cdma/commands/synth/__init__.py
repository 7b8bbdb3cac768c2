"""`cdma synth`: components in gates, and the report."""
