"""Files that a simulator writes its signals to."""

from pathlib import Path
from typing import cast

from cdma.sim.machine.build.build import Trace
from cdma.sim.machine.errors import MachineError


def trace_kind(waves: Path) -> Trace:
    """The kind of waves by the suffix; `MachineError` if it is another one."""
    kind = waves.suffix.removeprefix(".")
    if kind not in ("vcd", "fst"):
        raise MachineError(f"waves cannot be written to {waves}; name a file .vcd or .fst")
    return cast(Trace, kind)


def require_writable(waves: Path) -> None:
    """Raise `MachineError`, with the cause, if the file could not be written; it is not changed."""
    # The simulator would not say why.
    try:
        existed = waves.exists()
        waves.open("ab").close()
        if not existed:
            waves.unlink()
    except OSError as error:
        raise MachineError(
            f"waves cannot be written to {waves}: {error.strerror}; name another file"
        ) from error
