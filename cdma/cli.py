"""The command line. Each command is a function in a module named for what it does.

Bad input of any kind ends in one line on stderr, "cdma: error: cause; mend", and exit status 2;
a traceback always means a bug in cdma.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, cast

import typer

import golden
from cdma import progress
from cdma.board import board
from cdma.buddy import buddy
from cdma.capture import capture
from cdma.compress import compress
from cdma.decompress import decompress
from cdma.energy import energy
from cdma.errors import UserError
from cdma.estimate import estimate
from cdma.files import os_user_error
from cdma.generate import generate
from cdma.inspect import inspect
from cdma.reproduce import reproduce
from cdma.schedule import schedule
from cdma.swap import swap
from cdma.synth import synth
from hw.config import ConfigError
from hw.netlist import NetlistError
from sim.buddy import ProfileError, ReplayError, SnapshotError
from sim.driver import DriverError
from sim.estimate import EstimateError
from sim.link import LinkError
from sim.machine import MachineError
from sim.reproduce import ReproduceError
from sim.schedule.errors import ScheduleError
from sim.workload import CaptureError
from sim.workload.layers import GraphError
from synth import SynthError

REPORTED_ERRORS: tuple[type[Exception], ...] = (
    UserError,
    golden.CodecError,
    golden.StreamError,
    CaptureError,
    ConfigError,
    DriverError,
    EstimateError,
    GraphError,
    LinkError,
    MachineError,
    NetlistError,
    ProfileError,
    ReplayError,
    ReproduceError,
    ScheduleError,
    SnapshotError,
    SynthError,
)
"""What `main` tells the user in one line. The rooms below raise their own exceptions, whose
messages are fit to print; add a new one here, never a built-in such as ValueError, which would
hide bugs."""

# Typer publishes no name for the base of its usage errors (click's, or its own copy of click's).
_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)

app = typer.Typer(
    name="cdma",
    help="Generator of RTL for a compressing DMA engine, with golden models and simulator.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cdma {version('cdma')}")
        raise typer.Exit


@app.callback()
def _common_options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


app.add_typer(buddy, name="buddy")
app.command()(board)
app.command()(capture)
app.command()(compress)
app.command()(decompress)
app.command()(energy)
app.command()(estimate)
app.command()(generate)
app.command()(inspect)
app.command()(reproduce)
app.command()(schedule)
app.command()(swap)
app.command()(synth)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 2 for bad input, 130 when interrupted."""
    command = typer.main.get_command(app)
    try:
        with progress.shown():
            status = command.main(
                args=None if arguments is None else list(arguments),
                prog_name="cdma",
                standalone_mode=False,
            )
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BrokenPipeError:
        # The reader of our output has seen enough, as in `cdma inspect x.cz | head -1`.
        _abandon_stdout()
        return 0
    except SystemExit as error:
        # So does rich, which ends the program itself.
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        return 0
    except _UsageError as error:
        context = error.ctx.command_path if error.ctx is not None else "cdma"
        return _report(f"{_sentence(error.format_message())}; see '{context} --help'")
    except REPORTED_ERRORS as error:
        return _report(str(error))
    except OSError as error:
        _abandon_stdout()
        return _report(str(os_user_error("use", error.filename or "the standard output", error)))
    except MemoryError:
        return _report("out of memory; give a smaller input")
    except typer.Abort:
        return _report("aborted; run the command again")


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
