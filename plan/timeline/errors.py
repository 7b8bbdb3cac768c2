"""Errors of scenarios and plans that cannot be scheduled."""


class ScheduleError(ValueError):
    """A scenario, plan or name that cannot be; fit to print: "cause; mend"."""


class InfeasibleError(ScheduleError):
    """The memory does not suffice.

    Parameters
    ----------
    message : str
    least_bytes : int
        The least memory that the plan works with.
    """

    def __init__(self, message: str, least_bytes: int) -> None:
        super().__init__(message)
        self.least_bytes = least_bytes
