"""What can go wrong in this room, fit to print."""


class SynthError(Exception):
    """No such component, target or library, or a tool that is missing or failed."""
