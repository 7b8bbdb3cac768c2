"""What can go wrong between the RTL and Python."""


class MachineError(RuntimeError):
    """The simulated machine cannot be built or run, or its RTL misbehaved."""


class BuildError(MachineError):
    """The RTL cannot be turned into a library, as when a compiler is missing."""


class RunError(MachineError):
    """A batch did not run to its end. The next `run` starts with a reset.

    Attributes
    ----------
    cycle : int
        When, in cycles since the start of the batch.
    message : str
        What happened, without the cycle.
    """

    def __init__(self, cycle: int, message: str) -> None:
        self.cycle = int(cycle)
        self.message = message
        super().__init__(f"{message} (cycle {self.cycle} of the batch)")


class HangError(RunError):
    """The cycle budget ran out; the message tells how far the transfers got."""


class AssertionFailedError(RunError):
    """An assertion of the RTL failed; the message is the assertion's, with file and line."""


class ProtocolError(RunError):
    """The RTL broke a rule of its interfaces, as withdrawing valid."""


class CapacityError(RunError):
    """The RTL wrote more output than the caller made room for."""
