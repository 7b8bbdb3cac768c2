"""A plan carried out by the engine's RTL, beside the timeline's times."""
