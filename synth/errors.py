"""The error that this room raises, with a message fit to print."""


class SynthError(Exception):
    """No such component, target or library, or a tool that is missing or failed."""


class TooSlowError(SynthError):
    """A tool that did not end in the time that it was given."""
