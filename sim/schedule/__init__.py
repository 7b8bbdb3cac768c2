"""What swapping does to a training step: plans, the timeline that judges them, and policies."""
