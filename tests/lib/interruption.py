"""Plugin of pytest: a run that is told to end does so as on Ctrl-C, with all that it has started.

Python ends at once on SIGTERM, of `kill` or `timeout`, and leaves solvers running, for hours.
"""

import signal


def pytest_configure() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
