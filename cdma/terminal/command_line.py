"""The command line that is being carried out, for what it writes."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_GIVEN: ContextVar[tuple[str, ...] | None] = ContextVar("given", default=None)


@contextmanager
def given(arguments: Sequence[str]) -> Iterator[None]:
    """Within it, `command_line` is of these arguments, which `cdma` was given."""
    token = _GIVEN.set(tuple(arguments))
    try:
        yield
    finally:
        _GIVEN.reset(token)


def command_line() -> str | None:
    """The command as a shell would take it; None outside of any, as in a notebook."""
    given = _GIVEN.get()
    return None if given is None else shlex.join(("cdma", *given))
