"""Errors between the RTL and Python."""

import re


class MachineError(RuntimeError):
    """The simulated machine cannot be started or run, or its RTL misbehaved."""


class RunError(MachineError):
    """A run did not come to its end.

    Attributes
    ----------
    cycle : int
        When, in cycles since the start of the batch; of a `Machine`, since it was opened.
    message : str
        What happened, without the cycle.
    """

    def __init__(self, cycle: int, message: str, *, counted: str = " of the batch") -> None:
        self.cycle = int(cycle)
        self.message = message
        super().__init__(f"{message} (cycle {self.cycle}{counted})")


class HangError(RunError):
    """The cycle budget ran out; the message tells how far the transfers got.

    Of a `Machine`, the message lists what is outstanding, and the machine can go on.
    """


class AssertionFailedError(RunError):
    """An assertion of the RTL failed; the message is the assertion's, with file and line."""


class ProtocolError(RunError):
    """The RTL broke a rule of its interfaces, as withdrawing valid."""


class CapacityError(RunError):
    """The RTL wrote more output than the caller made room for."""


class RegisterError(MachineError):
    """The engine answered a register access with an error response."""


def readable(message: bytes) -> str:
    """A simulator's message in one line, without what the cycle tells anyway."""
    # The runtime says "[time] %Error: " first.
    lines = message.decode(errors="replace").splitlines()
    return "; ".join(re.sub(r"^\[\d+\] %\w+: ", "", line) for line in lines)
