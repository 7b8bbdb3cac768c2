"""What a plan does to a training step: scenario, timeline, and the trace of what happened."""
