"""The commands. Each is a function in a module named for what it does.

A command's module is imported when the command is used, not for `cdma --help` or a completion: some
take a second.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from cdma.terminal import command_line, progress
from cdma.terminal.parser import plain_typer

COMMANDS = {
    "board": "Build a bitstream with which a board compresses, decompresses and compares without "
    "end.",
    "capture": "Train a network and keep activations of a minibatch; needs PyTorch (pip install "
    "torch).",
    "completion": "Print the script with which a shell completes commands, options and names.",
    "compress": "Compress the array in an .npy file with a golden model.",
    "config": "Show and check configurations: engines, machines, devices, links, networks.",
    "decompress": "Restore the array in a .cz file: type, shape, memory order and every bit that "
    "it holds.",
    "energy": "Energy per byte of tensor, from the activity of the mapped netlist.",
    "estimate": "Tell how long a network's tensors take to the host and back, and what limits "
    "them.",
    "generate": "Write a block as Verilog, with a JSON file that describes its ports.",
    "inspect": "Tell what a .cz file holds, and check that it is whole; the stream is not decoded.",
    "list": "List the names that options and arguments take: components, networks, devices and "
    "others.",
    "report": "Make a page of results: tables, pictures, timelines, configuration and versions.",
    "reproduce": "Compute every row of the papers' claims; exit status 1 if any does not hold.",
    "schedule": "Plan a network's training step by every policy, and run each plan on one "
    "timeline.",
    "schema": "Print the JSON Schema of the documents that a command prints or writes.",
    "swap": "Swap arrays out through the simulated RTL and back, and compare every bit.",
    "sweep": "Run a command for all combinations of its options' values, as a table.",
    "synth": "Map components to gates or to an FPGA: what they take, their depth and their clock.",
    "train": "Plan a PyTorch module's step within a memory, carry it out, and compare every bit.",
    "value": "Tell what the engine gains over the best plans without it, and behind which links.",
    "buddy": "Compressed memory with an overflow in buddy memory.",
}
"""Each command with the first paragraph of its docstring, as `cdma --help` shows it."""

# Typer publishes no name for the base of its usage errors (click's, or its own copy of click's).
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)
Abort = typer.Abort

COMPLETE = "_CDMA_COMPLETE"
"""The variable of the environment in which a shell's script asks for completions."""

app = plain_typer(
    name="cdma",
    help="Generator of RTL for a compressing DMA engine, with golden models and simulator.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from cdma.versions import version_lines

        for line in version_lines():
            typer.echo(line)
        raise typer.Exit


@app.callback()
def _common_options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the versions of cdma and of the tools that it finds, and exit.",
        ),
    ] = False,
) -> None:
    pass


class LazyCommand(TyperCommand):
    """A command of which only name and help are known until it is used."""

    def load(self) -> TyperCommand | TyperGroup:
        """Import the command's module and return the command."""
        found = getattr(import_module(f"cdma.commands.{self.name}"), str(self.name))
        if not isinstance(found, typer.Typer):
            alone = plain_typer()
            alone.command(self.name)(found)
            found = alone
        command = typer.main.get_command(found)
        command.name = self.name
        return cast(TyperCommand | TyperGroup, command)

    def get_short_help_str(self, limit: int = 0) -> str:
        # All of it, in as many lines as that takes.
        return super().get_short_help_str(10_000)

    def get_params(self, ctx: Any) -> list[Any]:
        return self.load().get_params(ctx)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        # The context's command is the loaded one, which the caller then invokes or completes.
        return self.load().make_context(*arguments, **options)


def _complete() -> int:
    """Answer a shell that asks for completions; 1, without a word, if there can be none.

    Whatever a line lacks that is not complete yet, a message would stand in the middle of it.
    """
    from typer.completion import completion_init

    completion_init()
    try:
        root().main(args=[], prog_name="cdma", complete_var=COMPLETE)
    except Exception:
        return 1
    return 0


def root() -> TyperGroup:
    """`cdma` with all its commands."""
    group = cast(TyperGroup, typer.main.get_command(app))
    for name, text in COMMANDS.items():
        group.add_command(LazyCommand(name, help=text))
    return group


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; raises what the command raises."""
    if COMPLETE in os.environ:
        return _complete()
    given = sys.argv[1:] if arguments is None else list(arguments)
    with progress.shown(), command_line.given(given):
        status = root().main(
            args=given,
            prog_name="cdma",
            standalone_mode=False,
        )
    return status if isinstance(status, int) else 0
