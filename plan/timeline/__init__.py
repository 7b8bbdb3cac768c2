"""The timeline of a training step under a plan: scenario, kernel, and the trace of all events."""
