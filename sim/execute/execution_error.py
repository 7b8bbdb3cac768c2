"""The error of a plan that the engine did not carry out as it should."""


class ExecutionError(RuntimeError):
    """Raised if the engine did not do its part; the message names what was out."""
