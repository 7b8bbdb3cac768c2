"""The one exception that means: the user can mend this."""


class UserError(Exception):
    """A bad input, option or environment, told in one line.

    The message has the form "cause; mend": what is wrong, naming the file or option and the value
    at fault, and what to do about it. `cdma.cli.main` prints it after "cdma: error: " and exits
    with status 2.
    """
