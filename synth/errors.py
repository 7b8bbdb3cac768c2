"""The error that this room raises, with a message fit to print."""


class SynthError(Exception):
    """No such component, target or library, or a tool that is missing or failed."""
