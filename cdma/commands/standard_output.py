"""Files that go to the standard output, `-`, in the place of what a command prints."""

import os
from pathlib import Path

from cdma.errors import STANDARD, UserError


def goes_to_standard_output(*, as_json: bool, **files: Path | None) -> bool:
    """Tell whether a file does, so that the command prints no table.

    Parameters
    ----------
    as_json : bool
        Whether the command prints JSON.
    **files : Path or None
        Files that it writes, by their options.

    Raises
    ------
    UserError
        More than one thing would go there.
    """
    options = [
        f"--{name.replace('_', '-')} -"
        for name, path in files.items()
        if path is not None and os.fspath(path) == STANDARD
    ]
    wanted = [*options, *(["--json"] if as_json else [])]
    if len(wanted) > 1:
        raise UserError(
            f"{' and '.join(wanted)} would all go to the standard output; name a file for all but "
            "one"
        )
    return bool(options)
