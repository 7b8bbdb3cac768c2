"""The command line that is being carried out, for what it writes."""

import os
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


def portable_command_line() -> str | None:
    """The command without this machine's folders: of each absolute path what is below the working
    folder, or else its last part. None outside of any command.
    """
    given = _GIVEN.get()
    return None if given is None else shlex.join(("cdma", *map(_portable, given)))


def _portable(word: str) -> str:
    """A word, or the value of an option that is written as --option=value."""
    option, equals, value = word.partition("=")
    if equals and option.startswith("--"):
        return f"{option}={_portable(value)}"
    if not os.path.isabs(word):
        return word
    below = os.path.relpath(word)
    return os.path.basename(word.rstrip(os.sep)) or word if below.startswith(os.pardir) else below
