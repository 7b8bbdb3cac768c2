"""The path from the command line to an exit status, whatever happens.

Bad input of any kind ends in one line on stderr, "cdma: error: cause; mend", and exit status 2;
a traceback always means a bug in cdma. SIGINT and SIGTERM end in status 130 and 143, without one.

Nothing that takes long to import is imported before signals are taken care of.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from cdma.errors import os_user_error
from cdma.terminal.interruption import Interruption

REPORTED_ERRORS = frozenset(
    {
        "builds.errors.BuildError",
        "errors.UserError",
        "golden.formats.interface.CodecError",
        "golden.formats.stream.StreamError",
        "hw.config.ConfigError",
        "hw.emit.netlist.NetlistError",
        "sim.buddy.content.ReplayError",
        "plan.buddy.profile.ProfileError",
        "plan.buddy.snapshots.SnapshotError",
        "sim.driver.errors.DriverError",
        "plan.engine_cost.transfer.EstimateError",
        "plan.platform.link.LinkError",
        "sim.machine.errors.MachineError",
        "reproduce.ReproduceError",
        "plan.timeline.errors.ScheduleError",
        "sim.swap.step.device_memory.DeviceMemoryError",
        "sim.swap.stash.StashError",
        "sim.swap.swap_plan.SwapPlanError",
        "sim.swap.saved_tensor_error.SavedTensorError",
        "plan.workload.capture.capture.CaptureError",
        "plan.workload.layers.GraphError",
        "synth.errors.SynthError",
    }
)
"""What `main` tells the user in one line, by the names under which they are defined in the package:
naming them imports nothing. The rooms below raise their own exceptions, whose messages are fit to
print; add a new one here, never a built-in such as ValueError, which would hide bugs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 2 for bad input, 128 more than a signal."""
    status = 0
    with Interruption() as interruption:
        try:
            # Here, as a signal may come at any time from now on.
            from cdma.app import run

            status = run(arguments)
            sys.stdout.flush()
        except BaseException as error:
            if interruption.signal is None:
                error_status = _tell(error)
                if error_status is None:
                    raise
                status = error_status
    return interruption.status or status


def _tell(error: BaseException) -> int | None:
    """Print an error and return its exit status; None if it is a bug, which keeps its traceback."""
    from cdma.app import Abort, UsageError

    if isinstance(error, BrokenPipeError) or (
        # So does rich, which ends the program itself.
        isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)
    ):
        # The reader of our output has seen enough, as in `cdma inspect x.cz | head -1`.
        _abandon_stdout()
        return 0
    if isinstance(error, UsageError):
        context = error.ctx.command_path if error.ctx is not None else "cdma"
        return _report(f"{_sentence(error.format_message())}; see '{context} --help'")
    if is_reported(error):
        return _report(str(error))
    if isinstance(error, OSError):
        _abandon_stdout()
        return _report(str(os_user_error("use", error.filename or "the standard output", error)))
    if isinstance(error, MemoryError):
        return _report("out of memory; give a smaller input")
    if isinstance(error, Abort):
        return _report("aborted; run the command again")
    return None


def is_reported(error: BaseException) -> bool:
    """Return True for errors that are one of `REPORTED_ERRORS`, or of a class below them."""
    names = {f"{one.__module__}.{one.__qualname__}" for one in type(error).__mro__}
    return not {f"{__package__}.{name}" for name in REPORTED_ERRORS}.isdisjoint(names)


def _report(message: str) -> int:
    line = " ".join(message.splitlines())
    print(f"cdma: error: {line}", file=sys.stderr)
    return 2


def _abandon_stdout() -> None:
    """Keep the interpreter from writing at exit what could not be written before."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sentence(message: str) -> str:
    """A usage error's message as the first half of one of our lines."""
    text = " ".join(message.split()).rstrip(".")
    return text[:1].lower() + text[1:]


if __name__ == "__main__":
    sys.exit(main())
